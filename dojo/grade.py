"""Grades attempts: picks the files, starts the judge, runs the graders under pytest and gathers the verdicts."""

from __future__ import annotations

import argparse
import gc
import json
import secrets
import shlex
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from dojo import build, catalog, store, sync
from dojo.catalog import Kata, Trouble
from dojo.judge import nursery

if TYPE_CHECKING:
    from dojo.judge.proxy import Carried
    from dojo.plugin import Judging
    from dojo.screen import Screen
    from dojo.verdict import Check, Verdict

# A user's own environment may lack NumPy, and torch would say so on every start.
warnings.filterwarnings("ignore", message="Failed to initialize NumPy")

MOST_JUDGES = 8  # at once: with its worker each takes some 30 MB, and more would hardly be quicker
# Parts of pytest that no grader needs: each is asked before and after every check, a tenth of a grading in all.
UNUSED = """
    cacheprovider capture doctest faulthandler junitxml legacypath logging monkeypatch pastebin recwarn setuponly
    setupplan stepwise subtests terminal threadexception tmpdir unittest unraisableexception warnings
"""
GRADER_WATCHDOG = 300  # seconds that pytest-timeout gives one check: the judge's own deadlines come long before


@dataclass(frozen=True)
class Options:
    """How to grade; the words of the command line."""

    seed: int
    tier: str | None = None
    device: str = "cpu"
    keyword: str = ""
    stop_at_first: bool = False
    debug: bool = False
    diagnose: bool = True
    until_diagnosed: bool = False  # leave out what comes after the first diagnosis
    part: tuple[int, int] = (0, 1)  # (i, n): of the checks only every n-th, from the i-th on
    only: frozenset[str] | None = None  # of the checks only those of these names


@dataclass(frozen=True)
class Entry:
    """One file, or what a notebook carried here, to grade as one kata; `label` is how it is called on the screen."""

    kata: Kata
    source: str
    label: str
    repeat: str
    carried: Carried | None = None


def main(args: argparse.Namespace) -> int:
    """Grade what the command line names; returns the exit status: 0 passed, 1 not, 2 nothing graded."""
    katas = catalog.select(args.names)
    if args.attempt is not None and (len(katas) != 1 or not args.names):
        raise Trouble("--attempt grades one file as one kata: name that kata, as in `grade rope --attempt FILE`")
    around = []
    if args.sandbox:
        from dojo.judge import sandbox

        around = sandbox.prefix()
    # before torch, so that both import it side by side
    hatchery = None if args.pdb else nursery.Zygote(around=around)
    try:
        entries = [_entry(kata, args) for kata in katas]
        from dojo.screen import Screen

        device, hatchery = _device(args.device, hatchery, around)
        options = Options(fresh_seed(args.seed), args.tier, device, args.expression or "", args.exitfirst, args.pdb)
        screen = Screen(sys.stdout)
        verdicts = side_by_side(entries, options, hatchery, screen)
        if not any(verdict.checks or verdict.message for verdict in verdicts):
            raise Trouble(f"no check is left after -k {args.expression!r} and --tier {args.tier}")
        for verdict in verdicts:
            screen.verdict(verdict)
        screen.summary(verdicts)
    finally:
        if hatchery is not None:
            hatchery.close()
    if args.html:
        from dojo import report

        report.write(args.html, report.of_run(verdicts))
    if args.json:
        store.write_atomic(Path(args.json), json.dumps([v.to_json() for v in verdicts], indent=1) + "\n")
    if not (args.attempt or args.solution):
        for kata in katas:
            sync.sync(kata)  # after the verdict, which an edited script need not wait for
    _remember(entries, verdicts, args)
    return 0 if all(verdict.verdict == "passed" for verdict in verdicts) else 1


def fresh_seed(wanted: int | None = None) -> int:
    """The seed that is wanted, or else one that nobody can foresee."""
    return secrets.randbelow(2**31) if wanted is None else wanted


def side_by_side(
    entries: list[Entry], options: Options, hatchery: nursery.Zygote | nursery.FreshStarts | None, screen: Screen
) -> list[Verdict]:
    """Grade all entries, side by side where there are processors for it, and show how far it is."""
    from dojo import abreast

    # A GPU is one for all, a debugger sits at one terminal, and what comes first must be known to stop there.
    alone = options.device == "cuda" or options.debug or options.stop_at_first
    count = judges()
    if alone or count == 1:
        with screen.progress(len(entries)) as progress:
            return run(entries, options, hatchery, lambda _: progress.advance())
    import_all()
    parts = shared_out(entries, options, count)
    with abreast.Crew(run_part, hatchery, min(count, len(parts))) as crew, screen.progress(len(entries)) as progress:
        verdicts = crew.map(parts, lambda _: progress.advance())
    return verdicts if len(entries) == len(parts) else [joined(verdicts, options)]


def judges() -> int:
    """How many judges work at once here."""
    from dojo import abreast

    return min(abreast.processors(), MOST_JUDGES)


Part = tuple[Entry, Options]


def shared_out(entries: list[Entry], options: Options, count: int, before: Verdict | None = None) -> list[Part]:
    """What several judges do at once: a kata each, or every one a share of the checks of a single kata.

    The verdict on an earlier attempt at it tells how long each check takes.
    """
    if len(entries) > 1:
        return [(entry, options) for entry in entries]
    if before is None or not before.checks:
        return [(entries[0], replace(options, part=(number, count))) for number in range(count)]
    shares: list[tuple[float, set[str]]] = [(0.0, set()) for _ in range(count)]
    for check in sorted(before.checks, key=lambda check: -check.seconds):
        index = min(range(count), key=lambda number: shares[number][0])
        shares[index][1].add(check.name)
        shares[index] = (shares[index][0] + check.seconds, shares[index][1])
    return [(entries[0], replace(options, only=frozenset(names))) for _, names in shares]


def run_part(part: Part, zygote: nursery.Zygote) -> Verdict:
    """Grade one part."""
    return run([part[0]], part[1], zygote)[0]


def joined(parts: list[Verdict], options: Options) -> Verdict:
    """The verdict on a kata whose checks were shared out."""
    whole = parts[0]
    if whole.verdict in ("empty", "broken"):
        return whole
    checks = sorted((check for part in parts for check in part.checks), key=lambda check: check.place)
    whole.message = next((part.message for part in parts if part.message), "")
    whole.used = max(part.used for part in parts)
    _conclude(whole, checks, options)
    return whole


def import_all() -> None:
    """What every judge needs, imported once before there are several."""
    import pytest  # noqa: F401
    import torch

    from dojo import contract, plugin  # noqa: F401

    torch.set_num_threads(1)
    gc.collect()
    gc.freeze()  # modules stay: no collection need walk all of torch


def run(
    entries: list[Entry],
    options: Options,
    hatchery: nursery.Zygote | nursery.FreshStarts | None,
    finished: Callable[[str], None] = lambda kata: None,
) -> list[Verdict]:
    """Grade entries, each of a different kata, in one session; the verdicts come in the order of the entries."""
    import torch

    from dojo.judge.faults import Fault
    from dojo.plugin import Judging, Subject
    from dojo.verdict import Verdict

    torch.set_num_threads(1)
    begun = time.perf_counter()
    subjects, verdicts = {}, {}
    make = _debugged(options) if options.debug else _judged(options, hatchery)
    for entry in entries:
        kata, attempt = entry.kata, make(entry.source, entry.label, entry.carried)
        verdict = Verdict(kata.name, entry.label, "", [], options.device, torch.__version__, 0.0, options.seed)
        verdicts[kata.name] = verdict
        if build.is_untouched(kata, entry.source):
            verdict.verdict, verdict.message = "empty", f"write your answer in {entry.label}, then: {entry.repeat}"
            continue
        try:
            attempt.worker()
        except Fault as fault:
            attempt.close()
            verdict.verdict, verdict.message = "broken", "\n".join(s.text for s in fault.sections)
            continue
        master = build.read_text(kata.master)
        reference = make(master, kata.say(kata.master))
        subjects[kata.name] = Subject(kata.name, attempt, reference, master, make, entry.repeat)
    if subjects:
        blind = options.device == "cuda" and not torch.cuda.is_available()
        skip = "skipped: no GPU, this PyTorch sees none" if blind else ""
        judging = Judging(subjects, options, skip, finished)
        try:
            _session([entry.kata for entry in entries if entry.kata.name in subjects], options, judging)
        finally:
            for subject in subjects.values():
                subject.close()
    for name, subject in subjects.items():
        verdicts[name].used = subject.attempt.used
        printed = subject.attempt.take_printed().strip()
        verdicts[name].message = f"the attempt printed:\n{printed}" if printed else ""
        _conclude(verdicts[name], list(subject.checks.values()), options)
    for verdict in verdicts.values():
        verdict.seconds = verdict.seconds or time.perf_counter() - begun
    return list(verdicts.values())


def _conclude(verdict: Verdict, checks: list[Check], options: Options) -> None:
    """Fill in what the checks of a kata come to; passing takes at least one check that ran and passed."""
    from dojo.verdict import Outcome

    failed = [check for check in checks if not check.outcome.harmless]
    if options.stop_at_first:
        for check in failed[1:]:
            check.outcome = Outcome.DESELECTED  # not reached
    verdict.checks = checks
    verdict.seconds = sum(check.seconds for check in checks)
    passed = not failed and any(check.outcome is Outcome.PASSED for check in checks)
    verdict.verdict = "passed" if passed else "failed"
    if options.debug:
        verdict.verdict, verdict.message = "unjudged", "run inside the grader's process for debugging: not judged"
    elif not failed and not passed and checks:
        verdict.message = "nothing was judged: every check was skipped"


def _entry(kata: Kata, args: argparse.Namespace) -> Entry:
    command = f"nox -s grade -- {kata.name}"
    if args.solution:
        return Entry(kata, build.read_text(kata.master), kata.say(kata.master), f"{command} --solution")
    if args.attempt is None:
        if not kata.stub.exists() or "notebook" in sync.pending(kata):
            print(sync.sync(kata) or "", file=sys.stderr)
        return Entry(kata, read(kata.stub), kata.say(kata.stub), command)
    path = Path(args.attempt)
    if path.exists() and path.samefile(kata.master) and path.parent.absolute() != kata.master.parent:
        raise Trouble(f"{path} is a link to {kata.say(kata.master)}, the answer itself: there is nothing to grade")
    return Entry(kata, read(path), str(path), f"{command} --attempt {shlex.quote(str(path))}")


SOURCE_LIMIT = 4 << 20


def read(path: Path) -> str:
    """The text of an attempt; a notebook's code cells count as one. Raises Trouble, which names what is wrong."""
    if path.exists() and not path.is_file():
        raise Trouble(
            f"{path} is {'a folder' if path.is_dir() else 'no regular file'}: name a Python file or a notebook"
        )
    if not path.exists():
        near = sorted(p.name for p in path.parent.glob("*.py"))[:8] if path.parent.is_dir() else []
        raise Trouble(f"there is no file {path}" + (f"; in {path.parent} there are {', '.join(near)}" if near else ""))
    if path.stat().st_size > SOURCE_LIMIT:
        raise Trouble(f"{path} has {path.stat().st_size} bytes; an attempt has at most {SOURCE_LIMIT}")
    try:
        if path.suffix == ".ipynb":
            import jupytext

            return jupytext.writes(jupytext.read(path), fmt="py:percent")
        return build.read_text(path)
    except OSError as error:
        raise Trouble(f"{path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise Trouble(f"{path} is not UTF-8 text (byte {error.start}): save it as UTF-8") from None
    except Exception as error:
        raise Trouble(f"{path} cannot be read as a notebook: {error}") from None


def _device(
    word: str, hatchery: nursery.Zygote | None, around: list[str]
) -> tuple[str, nursery.Zygote | nursery.FreshStarts | None]:
    """The device to grade on, and where its workers come from: CUDA contexts do not survive a fork."""
    import torch

    if word == "cpu" or not torch.cuda.is_available():
        return "cpu" if word == "auto" else word, hatchery
    if hatchery is not None:
        hatchery.close()
        hatchery = nursery.FreshStarts(around)
    return "cuda", hatchery


def _judged(options: Options, hatchery: nursery.Zygote | nursery.FreshStarts | None) -> Callable:
    from dojo.judge.host import MEMORY
    from dojo.judge.proxy import Attempt

    readable = [str(catalog.ROOT / "katas")]
    memory = MEMORY if options.device == "cpu" else None

    def make(source: str, label: str, carried: Carried | None = None) -> Attempt:
        return Attempt(hatchery, source, label, readable, memory, options.device, carried)

    return make


def _debugged(options: Options) -> Callable:
    from dojo.judge.local import LocalAttempt

    return lambda source, label, carried=None: LocalAttempt(None, source, label, device=options.device)


def _session(katas: list[Kata], options: Options, judging: Judging) -> None:
    import pytest

    arguments = [str(kata.grader) for kata in katas]
    arguments += ["-c", "/dev/null", f"--rootdir={catalog.ROOT}", "--import-mode=importlib", "-o", "python_files=*.py"]
    # Graders say what is wrong in their own words, and no plugin that happens to be installed has a say in a verdict.
    arguments += ["--assert=plain", "--disable-plugin-autoload", "-p", "pytest_timeout"]
    arguments += [word for name in UNUSED.split() for word in ("-p", f"no:{name}")]
    arguments += [] if options.debug else [f"--timeout={GRADER_WATCHDOG}"]
    arguments += ["-k", options.keyword] if options.keyword else []
    arguments += ["-x"] if options.stop_at_first else []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what an oracle is warned of is nothing to tell the user
        status = pytest.main(arguments, plugins=[judging])
    if judging.interrupted:
        raise KeyboardInterrupt
    if status in (pytest.ExitCode.USAGE_ERROR, pytest.ExitCode.INTERNAL_ERROR):
        raise RuntimeError(f"pytest could not run the graders ({status.name}): please report this as our fault")


def _remember(entries: list[Entry], verdicts: list[Verdict], args: argparse.Namespace) -> None:
    """Note full gradings of the user's own files: passes open `reveal`, and all of them are history."""
    if args.solution or args.attempt or args.tier or args.expression or args.exitfirst or args.pdb:
        return
    done = [(e.kata, e.source, v) for e, v in zip(entries, verdicts, strict=True) if v.verdict != "empty"]
    for kata, source, verdict in done:
        if verdict.verdict == "passed":
            from dojo import study

            study.record_pass(kata, source)
    if done and not args.no_record:
        record(done)


def record(
    graded: list[tuple[Kata, str, Verdict]], kind: str = "grade", spent: float | None = None, hints: int | None = None
) -> None:
    """Remember gradings, each a kata, the attempt's text and the verdict; a trouble is told and stops nothing."""
    from dojo import memory, study

    attempts = [
        memory.Attempt(
            at=time.time(),
            kata=kata.name,
            kind=kind,
            verdict=verdict.verdict,
            tiers=verdict.tiers,
            failing=[
                {"name": c.name, "tier": c.tier.value, "outcome": c.outcome.value, "diagnosis": c.diagnosis}
                for c in verdict.checks
                if not c.outcome.harmless
            ],
            seconds=verdict.seconds,
            spent=spent,
            hints=study.hints_taken(kata) if hints is None else hints,
            text=source,
            details=verdict.to_json(pictures=True),
        )
        for kata, source, verdict in graded
    ]
    trouble = memory.remember(attempts)
    if trouble:
        print(f"dojo: {trouble}", file=sys.stderr)
