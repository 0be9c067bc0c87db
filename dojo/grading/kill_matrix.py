"""How many attempts at one kata fail its checks: each attempt has one worker, and every check runs once over all."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import pytest

from dojo.content.master import read_text
from dojo.grading.pytest_plugin import GraderPlugin, clocked, fault_of, name_of, of_a_test, tier_of
from dojo.grading.run import attempt_maker, run_graders
from dojo.verdict.failures import Fault

if TYPE_CHECKING:
    from dojo.content.catalog import Kata
    from dojo.grading.options import Options
    from dojo.judge.fork_server import ForkServer
    from dojo.judge.proxy import Attempt
    from dojo.verdict.types import Tier

Outcomes = dict[str, dict[str, Fault | Exception | None]]  # by row and check; an exception is a fault of the grader


class _Matrix(GraderPlugin):
    """Runs each check over all rows in place of the one call that pytest would make."""

    def __init__(
        self,
        options: Options,
        rows: dict[str, Attempt],
        reference: Attempt,
        wanted: Callable[[str, str, bool], bool],
        every_place: bool,
        every_row: bool,
        outcomes: Outcomes,
    ) -> None:
        super().__init__(options)
        self.rows, self._reference, self.wanted = rows, reference, wanted
        self.every_place, self.every_row = every_place, every_row
        outcomes |= {row: {} for row in rows}
        self.outcomes = outcomes
        self.checks: dict[str, Tier] = {}

    @pytest.fixture
    def attempt(self) -> None:
        """Each row's in turn."""

    @pytest.fixture
    def reference(self) -> None:
        """The solution, which the rows are timed against."""

    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        # Rows are programs: what is asked of a test, bad tests show.
        items[:] = [item for item in items if not of_a_test(item)]
        super().pytest_collection_modifyitems(config, items)

    def rejected(self, row: str) -> bool:
        """Whether a check has failed this row."""
        return any(self.outcomes[row].values())

    def pytest_pyfunc_call(self, pyfuncitem: pytest.Function) -> bool:
        check = name_of(pyfuncitem)
        self.checks[check] = tier_of(pyfuncitem)
        for row, attempt in sorted(self.rows.items(), key=lambda item: self.rejected(item[0])):
            needless = self.rejected(row) or not self.every_row
            if needless and not self.every_place and any(found.get(check) for found in self.outcomes.values()):
                break  # those that come now have been rejected, and the check has rejected one
            if self.wanted(row, check, clocked(pyfuncitem)):
                try:
                    self.outcomes[row][check] = fault_of(pyfuncitem, attempt, self._reference)
                except Exception as error:
                    self.outcomes[row][check] = error
        return True


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
    matrix = _Matrix(options, rows, reference, wanted, every_place, every_row, {} if outcomes is None else outcomes)
    try:
        run_graders([kata.grader], matrix)
    finally:
        for attempt in (*rows.values(), reference):
            attempt.close()
    return matrix.outcomes, matrix.checks
