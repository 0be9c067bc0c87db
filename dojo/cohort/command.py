"""`cohort`: a whole class graded, and what a teacher gets of it."""

from __future__ import annotations

import argparse
import hashlib
import secrets
import signal
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import closing, contextmanager, nullcontext
from dataclasses import replace
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dojo.cohort.course import settings
from dojo.cohort.course.settings import Course, Rules
from dojo.cohort.outputs.grades import count
from dojo.cohort.records import Result, Submitted, knowing_each_other
from dojo.cohort.store import Store, Terms
from dojo.content import catalog, files
from dojo.content.catalog import Kata, Trouble, typed
from dojo.judge.fork_server import ForkServer
from dojo.verdict.types import PASSED, RIGHT, state_in

if TYPE_CHECKING:
    from dojo.cohort.copies import Printed
    from dojo.cohort.engine import Engine
    from dojo.cohort.outputs.writing import Folder

SHOWN = 5  # of what is pending, by name
LOOK = 2.0  # seconds between two looks at a watched folder
INTERRUPTED = 130


def main(args: argparse.Namespace) -> int:
    """Grade what was handed in and write results; the exit status is 0 when there is a result for everybody."""
    katas = {kata.name: kata for kata in catalog.select(args.katas.replace(",", " ").split())}
    where = args.watch or args.submissions
    if not where.exists():
        raise Trouble(f"there is nothing at {where}: name a folder, a table (CSV, JSON Lines) or a zip of submissions")
    course = settings.read(args.course, katas) if args.course else Course()
    earlier = [each for folder in args.against for each in _earlier(folder, katas)]
    secret = _secret(args.seed_from) if args.seed_from else ""
    if args.seed_from and not secret:
        return 0
    with Store(args.out / "cohort.sqlite") as store:
        wanted = _seed_of(secret) if secret else args.seed
        if wanted is not None:
            store.set("seed", str(wanted))
        seed = int(store.fact("seed", str(secrets.randbelow(2**31))))
        with _engine(args) as engine:
            import torch

            from dojo.cohort.outputs.writing import Folder

            device = args.device if torch.cuda.is_available() or args.ray else "cpu"
            terms = Terms(seed, device, torch.__version__, args.attempt_seconds, args.submission_seconds)
            whole, again, folder = True, args.again, Folder(args.out)
            while whole:
                seen = _seen(where)  # before it is read: what arrives from now on is for the next round
                rules = _take(store, where, katas, course)
                whole = _grade(store, katas, terms, engine, again)
                _tell(store, katas, folder, rules, earlier)
                if not args.watch or (whole and not _more_has_come(where, seen)):
                    break
                again = []
            left = store.pending(katas, terms)
    if secret:
        print(f"the seed was {seed}, of the secret {secret}: {_commitment(secret)} is its sha256, as was said before")
    return (1 if left else 0) if whole else INTERRUPTED


def _take(store: Store, where: Path, katas: dict[str, Kata], course: Course) -> Rules:
    """Read what was handed in, and hold the course's rules against it."""
    from dojo.cohort.submissions import collect

    submitted, problems = collect(where, katas, course.roster)
    if not submitted and not problems:
        raise Trouble(f"{where} holds no submissions: a folder for each student, with files such as softmax.py")
    store.take(knowing_each_other(submitted, katas), problems)
    arrivals = {(each.student, each.kata): each.arrival for each in submitted}
    named = [each.student for each in submitted] + [each.student for each in problems if each.student]
    return settings.applied(course, arrivals, named, katas)


def _earlier(where: Path, katas: dict[str, Kata]) -> list[Submitted]:
    """What was handed in before, such as last year, under names that say so."""
    from dojo.cohort.submissions import collect

    submitted, problems = collect(where, katas)
    unread = f", {len(problems)} could not be read" if problems else ""
    print(f"{where}: {count(len(submitted), 'earlier attempt')} to compare with{unread}", flush=True)
    return [replace(each, student=f"{each.student} ({where.name})") for each in submitted]


def _grade(store: Store, katas: dict[str, Kata], terms: Terms, engine: Engine, again: list[str]) -> bool:
    """Grade what has no good result yet; whether it came to the end."""
    from dojo.cohort import copies
    from dojo.cohort.engine import Job, results

    pending = store.pending(katas, terms, again)
    if not pending:
        print("everything handed in has a result", flush=True)
        return True
    with _progress(len(pending)) as done, _stop_between() as stopped:
        begun, graded, put_off = time.monotonic(), 0, list[Job]()
        for result in results(pending, store.submitted, terms, engine, put_off.append):
            kata = katas[result.submitted.kata]
            store.put(result, terms.digest_of(result.submitted.digest, kata), copies.version(kata))
            graded += 1
            done(result)
            if stopped():
                break
    seconds = time.monotonic() - begun
    rate = f"{count(graded, 'attempt')} in {seconds:.0f} s, {seconds / max(graded, 1):.2f} s each"
    if put_off:
        why = ", ".join(sorted({job.losses[-1] for job in put_off}))
        names = ", ".join(f"{job.submitted.student} ({job.submitted.kata})" for job in put_off[:SHOWN])
        more = f" and {len(put_off) - SHOWN} more" if len(put_off) > SHOWN else ""
        print(f"{len(put_off)} pending, the same command grades them: {names}{more}: {why}", file=sys.stderr)
    if graded + len(put_off) < len(pending):
        print(f"\ndojo: stopped after {graded} of {len(pending)}; the same command grades the rest", file=sys.stderr)
        return False
    print(rate, flush=True)
    return True


def _tell(store: Store, katas: dict[str, Kata], folder: Folder, rules: Rules, earlier: list[Submitted]) -> None:
    """Write what a teacher gets, and say where it is."""
    from dojo.cohort import copies
    from dojo.cohort.outputs import writing
    from dojo.cohort.outputs.alike import SOLUTION, page

    found = list(store.briefly(katas))
    problems = store.problems()
    likest = copies.pairs(_printed(store, katas, earlier), katas)
    alike = [
        (pair.first.student, pair.second.student if pair.second else SOLUTION, pair.first.kata, pair.share)
        for pair in likest
    ]
    known = {(each.student, each.kata): each for each in earlier}

    def text(one: Printed) -> Submitted:
        return known[one.student, one.kata] if one.earlier else store.submitted(one.student, one.kata)

    side_by_side = page(likest, katas, text) if likest else ""
    written = writing.write_all(found, problems, alike, folder, rules, side_by_side, store)
    students = {result.submitted.student for result in found}
    words = Counter(state_in(result.verdict) for result in found)
    print(
        f"{count(len(found), 'attempt')} of {count(len(students), 'student')}: "
        f"{words[PASSED] + words[RIGHT]} right, {words[PASSED]} of them passed"
    )
    undecided = [
        result
        for result in found
        for name in rules.course.roster.members_of(result.submitted.student)
        if result.for_a_person and (name, result.submitted.kata) not in rules.decisions
    ]
    for number, what in ((len(problems), "could not be read"), (len(undecided), "for a person to look at")):
        if number:
            print(f"{number} {what}")
    for path in written:
        if path.parent == folder.path:
            print(f"  {path}")
    print("", end="", flush=True)


def _printed(store: Store, katas: dict[str, Kata], earlier: list[Submitted]) -> Iterator[Printed]:
    """The fingerprints of what has a result and of what came earlier, by kata; made here where grading left none."""
    from dojo.cohort import copies

    versions = {name: copies.version(kata) for name, kata in katas.items()}
    old = defaultdict[str, list[Submitted]](list)
    for each in sorted(earlier):
        old[each.kata].append(each)
    for name, found in groupby(store.prints(versions), key=itemgetter(0)):
        for _, student, kept in found:
            if kept is None:
                one = store.submitted(student, name)
                kept = copies.prints(one.source, katas[name])
                store.keep_prints(one, versions[name], kept)
            yield copies.Printed(name, student, kept)
        for each in old[name]:
            yield copies.Printed(name, each.student, copies.prints(each.source, katas[name]), earlier=True)


def _more_has_come(where: Path, before: dict[str, tuple[int, int]]) -> bool:
    """Wait for it; False once the user has had enough."""
    with _stop_between() as stopped:
        print(f"watching {where}; Ctrl-C ends it", flush=True)
        last = before
        while (now := _seen(where)) == before or now != last:  # until what has come lies still between two looks
            last, until = now, time.monotonic() + LOOK
            while time.monotonic() < until:
                time.sleep(LOOK / 8)
                if stopped():
                    return False
    return True


def _seen(where: Path) -> dict[str, tuple[int, int]]:
    """What lies there, with time and size."""
    paths = [where, *where.rglob("*")] if where.is_dir() else [where]
    states = {str(path): path.lstat() for path in paths if path.is_symlink() or path.exists()}
    return {path: (state.st_mtime_ns, state.st_size) for path, state in states.items()}


@contextmanager
def _engine(args: argparse.Namespace) -> Iterator[Engine]:
    """What grades: this machine's processes, or a Ray cluster."""
    if args.ray:
        from dojo.cohort.on_ray import RayEngine

        with closing(RayEngine(args.ray, not args.no_sandbox, args.device, args.workers)) as cluster:
            yield cluster
        return
    from dojo.judge import sandbox

    around = []
    if not args.no_sandbox:
        try:
            around = sandbox.prefix()
        except Trouble as trouble:
            message = str(trouble).replace("--sandbox needs", "strangers' code is graded in")
            raise Trouble(f"{message}; --no-sandbox grades without, by the judge's own walls alone") from None
    server = ForkServer(around=around)  # before torch, so that both import it side by side
    from dojo.cohort.engine import LocalEngine

    with closing(server), closing(LocalEngine(server, args.workers)) as machine:
        yield machine


@contextmanager
def _progress(total: int) -> Iterator[Any]:
    """A bar with rate and remaining time; on no terminal a line a minute. No thread draws it: processes are forked."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    begun = reported = time.monotonic()
    count = 0
    console = Console(stderr=True)
    rate = TextColumn("{task.fields[rate]}", markup=False)
    bar = Progress(
        BarColumn(24), MofNCompleteColumn(), rate, TimeRemainingColumn(), console=console, auto_refresh=False
    )
    task = bar.add_task("", total=total, rate="")

    def done(result: Result) -> None:
        nonlocal count, reported
        count += 1
        spent = time.monotonic() - begun
        if console.is_terminal:
            bar.update(task, completed=count, rate=f"{count / spent:.1f} a second", refresh=True)
        elif time.monotonic() - reported > 60:
            reported = time.monotonic()
            left = spent / count * (total - count)
            print(f"{count} of {total}, {count / spent:.1f} a second, {left / 60:.0f} min left", file=sys.stderr)

    with bar if console.is_terminal else nullcontext():
        yield done


@contextmanager
def _stop_between() -> Iterator[Any]:
    """Ctrl-C ends the loop after the result at hand; a second one ends it at once."""
    asked = False

    def stop(*_: object) -> None:
        nonlocal asked
        if asked:
            raise KeyboardInterrupt
        asked = True

    before = signal.signal(signal.SIGINT, stop)
    try:
        yield lambda: asked
    finally:
        signal.signal(signal.SIGINT, before)


def _secret(path: Path) -> str:
    """The secret that the seed comes from; nothing where it was made just now, and its commitment is said first."""
    if path.exists():
        secret = path.read_text("utf-8").strip()
        if len(secret) != 64 or not all(letter in "0123456789abcdef" for letter in secret):
            raise Trouble(f"{path} holds no secret of this command (64 hexadecimal digits): name a new file")
        return secret
    secret = secrets.token_hex(32)
    files.write_atomic(path, f"{secret}\n")
    path.chmod(0o600)
    print(f"{path} holds a new secret; keep it until the deadline. Its sha256, to be published now:")
    print(_commitment(secret))
    print(f"After the deadline the same command grades; `{typed('cohort --help')}` says how anybody checks the seed.")
    return ""


def _commitment(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def _seed_of(secret: str) -> int:
    return int(secret[:7], 16)
