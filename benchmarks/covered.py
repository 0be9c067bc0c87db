"""Which lines of the machinery its own tests run, in every process: judges, workers, commands and kernels.

    python benchmarks/covered.py [--least 95] [words for pytest]

A worker may write no file and is killed in the end, so what it ran is lost to coverage.py. Here every Python process of
the environment, and what it forks, maps one file and marks in it the lines of `dojo` that it comes to; a mark outlives
its process. For that a start-up hook lies in the environment's site-packages while the tests run.
"""

from __future__ import annotations

import argparse
import ast
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from types import CodeType

PROJECT = Path(__file__).resolve().parent.parent
PACKAGE = PROJECT / "dojo"
SLOT = 4096  # the most lines a file may have
HOOK = """
import mmap, sys, threading

def begin(path, slot, numbers):
    try:
        with open(path, "r+b") as file:
            seen = mmap.mmap(file.fileno(), 0)
    except OSError:
        return
    ours = {}  # by code: where its file begins, and the lines not come to yet; without any it is not followed

    def enter(frame, event, _):
        code = frame.f_code
        if code not in ours:
            number = numbers.get(code.co_filename.rpartition("/dojo/")[2])
            lines = {line for _, _, line in code.co_lines() if line} if number is not None else set()
            ours[code] = (number or 0) * slot, lines
        at, left = ours[code]
        if not left:
            return None

        def step(frame, event, _):
            seen[at + frame.f_lineno] = 1
            left.discard(frame.f_lineno)
            return step

        return step(frame, event, _)

    add = sys.addaudithook

    def add_traced(hook):
        hook.__cantrace__ = True  # Python traces no other hooks
        add(hook)

    sys.addaudithook = add_traced
    threading.settrace(enter)
    sys.settrace(enter)

"""


def main() -> int:
    """Run the tests and print the table; returns 1 if fewer lines than wanted are covered."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--least", type=float, default=95.0, metavar="PERCENT", help="what must be covered")
    args, words = parser.parse_known_args()
    files = {path.relative_to(PACKAGE).as_posix(): executable(path) for path in sorted(PACKAGE.rglob("*.py"))}
    hooks = Path(sysconfig.get_path("purelib"))
    start, code = hooks / "dojo_lines.pth", hooks / "dojo_lines.py"
    with tempfile.NamedTemporaryFile(prefix="dojo-lines-") as marks:
        marks.truncate(SLOT * len(files))
        numbers = {name: number for number, name in enumerate(files)}
        code.write_text(f"{HOOK}begin({marks.name!r}, {SLOT}, {numbers!r})\n")
        start.write_text("import dojo_lines\n")
        try:
            tests = [sys.executable, "-m", "pytest", "--numprocesses=logical", "--dist=worksteal", *words]
            subprocess.run(tests, cwd=PROJECT, check=False)
        finally:
            start.unlink()
            code.unlink()
        seen = Path(marks.name).read_bytes()
    total = covered = 0
    for number, (name, lines) in enumerate(files.items()):
        missed = sorted(line for line in lines if not seen[number * SLOT + line])
        total, covered = total + len(lines), covered + len(lines) - len(missed)
        share = 1 - len(missed) / max(1, len(lines))
        print(f"{name:24} {share:6.1%} of {len(lines):4}  {', '.join(ranges(missed, lines))}")
    print(f"{'all':24} {covered / total:6.1%} of {total:4}")
    return 0 if 100 * covered >= args.least * total else 1


def executable(path: Path) -> set[int]:
    """The lines of a file that do something when they run; imports for type checkers never do."""
    source = path.read_text("utf-8")
    lines = {line for code in codes(compile(source, str(path), "exec")) for *_, line in code.co_lines() if line}
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            lines -= {line for child in node.body for line in range(child.lineno, child.end_lineno + 1)}
    return lines


def codes(code: CodeType) -> Iterator[CodeType]:
    """A code and those inside it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from codes(constant)


def ranges(missed: list[int], lines: set[int]) -> Iterator[str]:
    """Neighbours in one word: `3-5` where no executable line between 3 and 5 was run."""
    place = {line: number for number, line in enumerate(sorted(lines))}
    for _, run in groupby(enumerate(missed), lambda pair: place[pair[1]] - pair[0]):
        first, *rest = (line for _, line in run)
        yield f"{first}-{rest[-1]}" if rest else str(first)


if __name__ == "__main__":
    sys.exit(main())
