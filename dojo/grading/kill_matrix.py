"""How many attempts at one kata fail its checks: each attempt has one worker, and every check runs once over all."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import pytest

from dojo.content.master import read_text
from dojo.grading.pytest_plugin import GraderPlugin
from dojo.grading.run import attempt_maker, run_graders
from dojo.grading.runner import clocked, fails, name_of, of_a_test, tier_of
from dojo.verdict.failures import Fault

if TYPE_CHECKING:
    from dojo.content.catalog import Kata
    from dojo.grading.options import Options
    from dojo.judge.fork_server import ForkServer
    from dojo.verdict.types import Tier

Outcomes = dict[str, dict[str, Fault | Exception | None]]  # by row and check; an exception is a fault of the grader


def kill_matrix(
    kata: Kata,
    sources: Mapping[str, str],
    options: Options,
    server: ForkServer,
    wanted: Callable[[str, str, bool], bool] = lambda row, check, clocked: not clocked,
    outcomes: Outcomes | None = None,
    every_place: bool = True,
    every_row: bool = True,
) -> tuple[Outcomes, dict[str, Tier]]:
    """What every check comes to for every source, by the sources' names; and the tier of every check, in their order.

    `wanted(row, check, clocked)` says which are run; those with a clock are left out unless it asks for them. A source
    that cannot be imported fails every check. Without every place, what tells nothing new about a row or a column is
    left out: a check that has failed a row is not run on rows that have been rejected, and without every row on none.
    `outcomes` is filled as it goes, where `wanted` can look into it.
    """
    make = attempt_maker(options, server)
    rows = {name: make(source, "attempt.py") for name, source in sources.items()}
    reference = make(read_text(kata.master), kata.say(kata.master))
    found: Outcomes = {} if outcomes is None else outcomes
    found |= {row: {} for row in rows}
    checks: dict[str, Tier] = {}

    def run(item: pytest.Function) -> None:
        if of_a_test(item):
            return  # rows are programs: what is asked of a test, bad tests show
        check = name_of(item)
        checks[check] = tier_of(item)
        rejected = {row: any(found[row].values()) for row in rows}
        for row in sorted(rows, key=rejected.__getitem__):
            needless = rejected[row] or not every_row
            if needless and not every_place and any(each.get(check) for each in found.values()):
                break  # those that come now have been rejected, and the check has rejected one
            if wanted(row, check, clocked(item)):
                try:
                    found[row][check] = fails(item, rows[row], reference)
                except Exception as error:
                    found[row][check] = error

    try:
        run_graders([kata.grader], GraderPlugin(options, run))
    finally:
        for attempt in (*rows.values(), reference):
            attempt.close()
    return found, checks
