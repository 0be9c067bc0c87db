"""What a verdict finds fault with in an attempt's file, and at which line: for programs that show code."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from dojo.verdict.causes import causes, why
from dojo.verdict.screen.text import callable_of, readable
from dojo.verdict.types import Check, Outcome, Verdict

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(frozen=True)
class Finding:
    """One cause of a failure."""

    path: str  # the attempt's file, as the user calls it
    line: int | None  # counted from 1; none in a notebook, whose lines are not those of its file
    title: str  # the kata, what must hold and what came of it
    message: str
    outcome: Outcome | None  # none of a file that cannot be graded


def findings(verdict: Verdict, source: str) -> list[Finding]:
    """The faults of an attempt, one a cause, in the order in which a verdict tells them.

    What is not begun has none, and what is wrong with the grader is no fault of the attempt.
    """
    where = _Lines(source)
    if verdict.verdict == "broken":
        line = where.within(verdict.failure.line if verdict.failure else 0) or 1
        return [_finding(verdict, line, "cannot be graded", verdict.message, None)]
    found = []
    for cause in causes(verdict.checks):
        check = cause.check
        if check.outcome is not Outcome.GRADER_ERROR:
            title = f"{readable(check.name, check.outcome is Outcome.WRONG)}: {check.outcome}"
            equals = [f"equals “{check.diagnosis}”"] if check.diagnosis else []
            text = "\n".join(filter(None, [*equals, check.message, cause.also]))
            found.append(_finding(verdict, where.line_of(check), title, text, check.outcome))
    return found


def _finding(verdict: Verdict, line: int, title: str, text: str, outcome: Outcome | None) -> Finding:
    shown = None if verdict.attempt.endswith(".ipynb") else line
    title = title if title.startswith(f"{verdict.kata}: ") else f"{verdict.kata}: {title}"
    return Finding(verdict.attempt, shown, title, text or title, outcome)


class _Lines:
    """The lines of an attempt: where a check failed, and where something is defined."""

    def __init__(self, source: str) -> None:
        self._last = source.count("\n") + 1
        try:
            self._tree = ast.parse(source)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            self._tree = ast.Module([], [])

    def within(self, line: int) -> int:
        """This line, or 0 if the attempt has none of this number: a worker can say anything."""
        return line if 1 <= line <= self._last else 0

    def line_of(self, check: Check) -> int:
        """The line at which a check failed, or that of the `def` of what was called."""
        return self.within(why(check).line) or self._definition(callable_of(check.name))

    def _definition(self, name: str) -> int:
        """Where a function is defined, or what a module computes; the first line where there is no such thing."""
        for node in self._tree.body:
            if isinstance(node, FUNCTIONS) and node.name == name:
                return node.lineno
            if isinstance(node, ast.ClassDef) and node.name == name:
                forward = (each for each in node.body if isinstance(each, FUNCTIONS) and each.name == "forward")
                return next(forward, node).lineno
        return 1
