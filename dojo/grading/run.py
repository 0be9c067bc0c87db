"""Grades attempts: starts the judge, runs the graders under pytest and gathers the verdicts."""

from __future__ import annotations

import difflib
import re
import time
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dojo.content import catalog, stages
from dojo.content.master import is_untouched, names, read_text

if TYPE_CHECKING:
    from pathlib import Path

    from dojo.grading.options import Entry, Options
    from dojo.grading.pytest_plugin import GraderPlugin
    from dojo.judge.fork_server import ForkServer, FreshStarts
    from dojo.judge.protocol import PickledCells
    from dojo.judge.proxy import Attempt
    from dojo.verdict.types import Check, Verdict

# A user's own environment may lack NumPy, and torch would say so on every start.
warnings.filterwarnings("ignore", message="Failed to initialize NumPy")

# Parts of pytest that no grader needs: each is asked before and after every check, a tenth of a grading in all.
UNUSED = """
    cacheprovider capture debugging doctest faulthandler junitxml legacypath logging monkeypatch pastebin recwarn
    setuponly setupplan stepwise subtests terminal threadexception tmpdir unittest unraisableexception warnings
"""
ASSERTS = re.compile(r"^ *(assert\b|[^#\n]*\bassert_)", re.MULTILINE)
GRADER_WATCHDOG = 300  # seconds that pytest-timeout gives one check: the judge's own deadlines come long before


def run(
    entries: list[Entry],
    options: Options,
    server: ForkServer | FreshStarts,
    finished: Callable[[str], None] = lambda kata: None,
    checked: Callable[[Check], None] = lambda check: None,
) -> list[Verdict]:
    """Grade entries, each of a different kata, in one session; the verdicts come in the order of the entries.

    Entries that are steps of lessons are graded as such.

    `checked` hears of each check as it ends, before it is known which of them have one cause.
    """
    import torch

    from dojo.grading.pytest_plugin import Judging, Subject
    from dojo.grading.telling.mentions import mentions
    from dojo.judge import precision
    from dojo.verdict.failures import Fault
    from dojo.verdict.types import Failure, Kind, Outcome, Verdict

    torch.set_num_threads(1)
    precision.full()
    if entries and entries[0].step:
        from dojo.grading import steps

        found = [steps.grade(entry, options, server) for entry in entries]
        for verdict in found:
            for check in verdict.checks:
                checked(check)
        finished(entries[0].kata.name)
        return found
    begun = time.perf_counter()
    subjects, verdicts = {}, {}
    make = attempt_maker(options, server)
    for entry in entries:
        kata, attempt = entry.kata, make(entry.source, entry.label, entry.pickled_cells, entry.others)
        verdict = Verdict(kata.name, entry.label, "", [], options.device, str(torch.__version__), 0.0, options.seed)
        verdict.repeat, verdict.only = entry.repeat, options.tier
        asked = stages.of(kata)
        verdict.stages, verdict.part = len(asked), bool(asked and options.so_far)
        verdict.stage = min(options.stage or stages.open_in(kata, entry.source), len(asked))
        verdicts[kata.name] = verdict
        if is_untouched(kata, entry.source):
            verdict.verdict, verdict.message = "empty", f"write your answer in {entry.label}, then: {entry.repeat}"
            finished(kata.name)
            continue
        try:
            attempt.worker()
            more = [name for stage in asked[: verdict.stage] for name in stage.names]
            if missing := undefined(attempt, [*names(kata), *more, *(["test"] if entry.hunted else [])]):
                raise Fault(Outcome.WRONG, Failure(Kind.PROMISE, what=missing))
        except Fault as fault:
            if options.debug:
                from dojo.judge.in_process import look_into

                look_into(fault)
            finished(kata.name)
            attempt.close()
            verdict.verdict, verdict.message, verdict.failure = "broken", str(fault), fault.failure
            continue
        reference = make(read_text(kata.master), kata.say(kata.master))
        subjects[kata.name] = Subject(
            kata, attempt, reference, make, entry.repeat, entry.hunted, verdict.stage if asked else None
        )
    if subjects:
        try:
            run_graders((each.kata.grader for each in subjects.values()), Judging(subjects, options, finished, checked))
        finally:
            for subject in subjects.values():
                subject.close()
    stopped = ""
    for name, subject in subjects.items():
        if stopped:
            verdicts[name].verdict, verdicts[name].message = "unjudged", f"not judged: -x stopped in {stopped}"
            continue
        verdicts[name].error_ratio = subject.attempt.error_ratio
        verdicts[name].remarks, verdicts[name].let_through = subject.remarks()
        verdicts[name].mentions = mentions(subject.attempt.parts)
        printed = subject.attempt.take_printed().strip()
        verdicts[name].message = f"the attempt printed:\n{printed}" if printed else ""
        conclude(verdicts[name], list(subject.checks.values()), options)
        if options.stop_at_first and verdicts[name].verdict == "failed":
            stopped = name
    for verdict in verdicts.values():
        verdict.seconds = verdict.seconds or time.perf_counter() - begun
    return list(verdicts.values())


@dataclass(frozen=True)
class ScriptRun:
    """What came of running an attempt's file as a script."""

    outcome: str  # `runs`, `raises`, or `wrong`: an assert of its own does not hold
    error: str = ""  # in the words of Python or of the judge; or what a file that runs leaves open
    lines: str = ""  # of the attempt, where it was raised
    printed: str = ""


def run_script(entry: Entry, server: ForkServer | FreshStarts) -> ScriptRun:
    """Run an attempt's file as `python FILE` would, in a worker; nothing is graded."""
    from dojo.grading.options import Options
    from dojo.verdict.failures import Fault, Raised, happened
    from dojo.verdict.types import Kind

    attempt = attempt_maker(Options(0), server)(entry.source, entry.label)
    attempt.name = "__main__"
    outcome, error, lines = "runs", "", ""
    try:
        attempt.worker()
    except Fault as fault:
        kind, text = (fault.kind, fault.text) if isinstance(fault, Raised) else ("", "")
        if kind != "SystemExit" or text not in ("", "None", "0", "False"):
            why = fault.failure
            outcome = "wrong" if kind == "AssertionError" else "raises"
            error, lines = why.what if why.kind is Kind.RAISED else happened(why), why.lines
    printed = attempt.take_printed()
    attempt.close()
    if outcome == "runs" and not ASSERTS.search(entry.source):
        error = "it asserts nothing, so nothing is tested"
    return ScriptRun(outcome, error, lines, printed)


def undefined(attempt: Attempt, wanted: list[str]) -> str:
    """What is asked for and an attempt does not define, in words; nothing if all is there."""
    missing = [name for name in dict.fromkeys(wanted) if not {name, "__getattr__"} & set(attempt.defined)]
    if not missing:
        return ""
    near = difflib.get_close_matches(missing[0], attempt.defined, 1) or [
        name for name in attempt.defined if name.casefold() == missing[0].casefold()
    ]
    guess = f"; rename your `{near[0]}`?" if near else ""
    return f"{attempt.filename} defines no {' and no '.join(f'`{name}`' for name in missing)}{guess}"


def conclude(verdict: Verdict, checks: list[Check], options: Options) -> None:
    """Fill in what the checks of a kata come to; passing takes at least one check that ran and passed."""
    from dojo.verdict import causes
    from dojo.verdict.failures import NoTensor
    from dojo.verdict.types import Kind, Outcome

    mute = {causes.subject(check) for check in checks if causes.why(check).kind is Kind.NO_RETURN}
    for check in checks:
        # nothing can be said of a result that is none: not that it is right, nor what it took
        if check.outcome in (Outcome.PASSED, Outcome.SLOW) and causes.subject(check) in mute:
            NoTensor(None).ends(check)
    failed = [check for check in checks if not check.outcome.harmless]
    if options.stop_at_first:
        for check in failed[1:]:
            check.outcome = Outcome.DESELECTED  # not reached
    causes.assign(checks)
    verdict.checks = checks
    verdict.seconds = sum(check.seconds for check in checks)
    passed = verdict.whole and not failed and any(check.outcome is Outcome.PASSED for check in checks)
    verdict.verdict = "passed" if passed else "failed"
    if options.debug:
        verdict.verdict, verdict.message = "unjudged", "run inside the grader's process for debugging: not judged"
        if failed and failed[0].outcome is not Outcome.CRASHED:
            verdict.message += ". Nothing was raised: write `breakpoint()` in your code where you want to look"
    elif not failed and checks and not any(check.outcome is Outcome.PASSED for check in checks):
        verdict.message = "nothing was judged: every check was skipped"


def attempt_maker(options: Options, server: ForkServer | FreshStarts) -> Callable[..., Attempt]:
    """What makes an attempt of a source and its label: in workers, or in this process for a debugger."""
    if options.debug:
        from dojo.judge.in_process import LocalAttempt

        return lambda source, label, *_: LocalAttempt(server, source, label, device=options.device)
    from dojo.judge.proxy import Attempt
    from dojo.judge.worker_handle import MEMORY

    stubs = catalog.ROOT / "katas"
    readable = [str(stubs), *sorted(str(each) for each in stubs.glob("*/"))]
    memory = MEMORY if options.device == "cpu" else None

    def make(
        source: str, label: str, pickled_cells: PickledCells | None = None, others: dict[str, str] | None = None
    ) -> Attempt:
        known = readable if others is None else others
        return Attempt(server, source, label, known, memory, options.device, pickled_cells)

    return make


def run_graders(graders: Iterable[Path], plugin: GraderPlugin) -> None:
    """Run graders in a session of pytest that knows this plugin and nothing that happens to be installed.

    Raises:
        KeyboardInterrupt: the user ended it.
        RuntimeError: pytest could not run the graders.
    """
    import pytest

    options = plugin.options
    paths = list(graders)
    arguments = [*map(str, paths), "-c", "/dev/null", f"--rootdir={paths[0].parents[3]}"]
    arguments += ["--import-mode=importlib", "-o", "python_files=*.py"]
    # Graders say what is wrong in their own words, and no plugin that happens to be installed has a say in a verdict.
    arguments += ["--assert=plain", "--disable-plugin-autoload", "-p", "pytest_timeout"]
    arguments += [word for name in UNUSED.split() for word in ("-p", f"no:{name}")]
    arguments += [] if options.debug else [f"--timeout={GRADER_WATCHDOG}"]
    arguments += ["-x"] if options.stop_at_first else []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what an oracle is warned of is nothing to tell the user
        status = pytest.main(arguments, plugins=[plugin])
    if plugin.interrupted:
        raise plugin.interrupted
    if status in (pytest.ExitCode.USAGE_ERROR, pytest.ExitCode.INTERNAL_ERROR):
        name = pytest.ExitCode(status).name
        raise RuntimeError(f"pytest could not run the graders ({name}): please report this as our fault")
