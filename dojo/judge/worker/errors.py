"""An exception of the attempt in plain data, with its own lines and none of ours."""

from __future__ import annotations

import traceback
from collections.abc import Mapping

from dojo.judge.protocol import Message

OWN_LINES = 12
LONGEST_CYCLE = 4  # of calls in a recursion through several functions


def explain(error: BaseException, files: Mapping[str, str]) -> Message:
    """What an exception says, and where it passed through the attempt's `files`, by what to call each."""
    text = _safe_text(error)
    passed = frames(error)
    first = next(iter(files))
    if isinstance(error, NotImplementedError) and not text and passed[-1].filename != first:
        text = f"katas/{passed[-1].filename.rpartition('/katas/')[2]} is not written yet"
    own = [f for f in passed if f.filename in files]
    lines = _folded([f"{files[f.filename]}:{f.lineno} in {f.name}\n    {f.line}" for f in own])
    if isinstance(error, SyntaxError) and error.filename == first:
        lines = ["".join(traceback.format_exception_only(error)).strip()]
    if len(lines) > OWN_LINES:
        lines = [*lines[: OWN_LINES // 2], f"… {len(lines) - OWN_LINES} more", *lines[-OWN_LINES // 2 :]]
    bases = [c.__name__ for c in type(error).__mro__]
    return {"kind": type(error).__name__, "text": text, "bases": bases, "lines": "\n".join(lines)}


def _folded(lines: list[str]) -> list[str]:
    """The lines of calls; what a recursion, through several functions perhaps, does again and again stands once."""
    folded, at = list[str](), 0
    while at < len(lines):
        cycles = ((length, _times(lines, at, length)) for length in range(1, LONGEST_CYCLE + 1))
        length, times = next((cycle for cycle in cycles if cycle[1] > 2), (1, 1))
        folded += lines[at : at + length]
        if times > 1:
            folded.append(f"    {f'these {length}, ' if length > 1 else ''}{times - 1} times more")
        at += length * times
    return folded


def _times(lines: list[str], at: int, length: int) -> int:
    """How many times the lines from `at` on stand there in succession, so many of them at once."""
    cycle, times = lines[at : at + length], 1
    while lines[at + times * length : at + (times + 1) * length] == cycle:
        times += 1
    return times


def frames(error: BaseException) -> list[traceback.FrameSummary]:
    """Where an exception passed, outermost first."""
    return list(traceback.extract_tb(error.__traceback__))


def _safe_text(error: BaseException) -> str:
    """`str(error)`, which an attempt's own exception class may make fail or endless."""
    try:
        return str(error)[:4000]
    except BaseException:
        return "(an exception whose text cannot be read)"
