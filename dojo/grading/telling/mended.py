"""How many of the bugs that a program was handed out with are mended, and which of them nobody may name yet."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from difflib import ndiff
from itertools import combinations

from dojo.content.rows import Row
from dojo.grading.telling.sameness import same_failure
from dojo.verdict.failures import Fault


def left_in(
    attempt: str,
    solution: str,
    bugs: Sequence[Row],
    mine: Sequence[Fault | None],
    outcomes: Callable[[str], Iterable[Fault | None]],
) -> int | None:
    """How many of the planted bugs an attempt still has; None where it does something that no choice of them does.

    `mine` is what each check says of the attempt, `outcomes` what they say of another source, one after the other. The
    choice of bugs is asked for that fails alike: first those whose lines still stand as they were handed out.
    """
    if not any(mine):
        return 0
    standing = tuple(bug for bug in bugs if _stands(bug, attempt, solution))
    every = [some for count in range(1, len(bugs) + 1) for some in combinations(bugs, count)]
    for some in sorted(every, key=lambda each: each != standing):
        source = solution
        for bug in some:
            source = bug.plant(source)
        if all(map(same_failure, mine, outcomes(source))):
            return len(some)
    return None


def _stands(bug: Row, attempt: str, solution: str) -> bool:
    """Whether the lines of a bug are in the attempt as they were planted, and the right ones are not."""
    lines = {line.strip() for line in attempt.splitlines()}
    changes = list(ndiff(solution.splitlines(), bug.plant(solution).splitlines()))
    planted, right = ({line[2:].strip() for line in changes if line[0] == sign} for sign in "+-")
    return planted <= lines and not (right - planted) & lines
