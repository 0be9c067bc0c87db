"""Which known bug an attempt's failures equal: every bug is run through a failed check at most once."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from typing import Generic, TypeVar

from dojo.content.rows import Row
from dojo.grading.telling.sameness import same_failure
from dojo.verdict.failures import Fault, Raised
from dojo.verdict.types import Kind, Outcome

# A kata's diagnosis may run every known bug through one check, and as many more as this. What it has not found by then
# it leaves out. No clock has a say: a busy machine gives the same diagnosis.
MORE_QUESTIONS = 110
KEPT = 20  # of these questions, for the failed checks: which of them the bug that is left fails alike
MOST_NARROWING = 10  # failed checks that tell apart several bugs, before checks that pass do
MOST_TWICE = 40  # bugs that are all tried on a second check after none has failed the first alike
ENOUGH = 2  # checks that no known bug fails alike: the mistake is another one
DIAGNOSABLE = (Outcome.WRONG, Outcome.CRASHED)
# What Python itself raises tells of a slip in the code, whatever known bug happens to raise the same.
PYTHONS_OWN = frozenset(
    {"NameError", "UnboundLocalError", "TypeError", "AttributeError", "IndexError", "KeyError", "NotImplementedError"}
)

Check = TypeVar("Check")


class Diagnosis(Generic[Check]):
    """The known bugs of a kata, narrowed down while its checks fail, and named when all have run.

    `outcome(bug, check)` runs the check on the master with the bug in it; it gives the failure, or None for a pass.
    """

    def __init__(self, bugs: Iterable[Row], outcome: Callable[[Row, Check], Fault | None]) -> None:
        self._suspects = list(bugs)
        self._found = False
        self._strange = 0  # checks that none of all known bugs fails alike
        self._questions = len(self._suspects) + MORE_QUESTIONS
        self._run = cache(outcome)
        self._failures: list[tuple[Check, Fault]] = []
        self._unknown: set[tuple[object, ...]] = set()  # exceptions at a line, and parameters, that no known bug has

    def see(self, check: Check, fault: Fault, ruled_out: Callable[[Row], bool] | None = None) -> None:
        """Narrow the bugs down to those that fail this check alike; once some do, the others are out.

        A check may see so little that a bug equals the attempt there by chance: it counts only if it equals the attempt
        in the first check that failed too, or in half of all that have. Bugs that are ruled out, as they show in what
        is cheaper to ask, are not run through this check at all.
        """
        if fault.outcome not in DIAGNOSABLE or (isinstance(fault, Raised) and fault.kind in PYTHONS_OWN):
            return
        if self._found:
            self._failures.append((check, fault))
            return
        dear = self._strange and len(self._suspects) > MOST_TWICE
        if (anywhere := _anywhere(fault)) in self._unknown or self._strange >= ENOUGH or dear:
            return
        if ruled_out is not None:
            self._suspects = [bug for bug in self._suspects if not ruled_out(bug)]
        alike = []
        for bug in self._suspects:
            if self._exhausted():
                return
            if self._same(bug, check, fault):
                alike.append(bug)
        if anywhere and not alike:
            self._unknown.add(anywhere)  # nor does it speak against what wrong values elsewhere equal
        else:
            self._failures.append((check, fault))
        self._strange += not alike
        alike = [bug for bug in alike if self._agrees(bug)]
        self._found = bool(alike)
        self._suspects = alike or self._suspects

    def named(self, passed: Iterable[Check]) -> dict[Check, Row]:
        """By failed check the one known bug that fails it alike, where there is exactly one.

        Where several do, those are left out that do not fail alike elsewhere, and then those that fail a check which
        the attempt passes; `passed` is gone through as far as it takes.
        """
        if not self._found:
            return {}
        for check, fault in self._failures[: MOST_NARROWING if len(self._suspects) > 1 else 0]:
            alike = [bug for bug in self._suspects if self._same(bug, check, fault)]
            self._suspects = alike or self._suspects
        if len(self._suspects) > 1:
            for check in passed:
                self._suspects = [bug for bug in self._suspects if self._run(bug, check) is None]
                if len(self._suspects) < 2 or self._exhausted(KEPT):
                    break
        found = {}
        for check, fault in self._failures:
            alike = [] if self._exhausted() else [bug for bug in self._suspects if self._same(bug, check, fault)]
            if len(alike) == 1:
                found[check] = alike[0]
        return found

    def _agrees(self, bug: Row) -> bool:
        """Whether a bug fails as the attempt does where that failed first, or in half of the checks."""
        same = [self._same(bug, check, fault) for check, fault in self._failures]
        return same[0] or 2 * sum(same) >= len(same)

    def _same(self, bug: Row, check: Check, fault: Fault) -> bool:
        return same_failure(fault, self._run(bug, check))

    def _exhausted(self, kept: int = 0) -> bool:
        return self._run.cache_info().currsize >= self._questions - kept


def _anywhere(fault: Fault) -> tuple[object, ...]:
    """What is the same in every check that it ends: an exception at a line, wrong parameters, no result."""
    if isinstance(fault, Raised):
        return (fault.kind, fault.failure.lines) if fault.failure.lines else ()
    return fault.failure.seen if fault.failure.kind in (Kind.PARAMETERS, Kind.NO_RETURN) else ()
