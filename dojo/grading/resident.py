"""A grader that stays: it grades a file anew on every save, with torch imported and the oracles known."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from dojo.content import stages
from dojo.grading import parallel
from dojo.grading.options import Entry, Options
from dojo.grading.run import ScriptRun, run_script
from dojo.judge.fork_server import ForkServer
from dojo.judge.pool import WorkerPool
from dojo.verdict.types import Check

if TYPE_CHECKING:
    from dojo.content.catalog import Kata
    from dojo.verdict.types import Verdict

WORKERS = 2  # of a grading: the attempt's and the reference's


class ResidentGrader:
    """Grades one entry at a time, in processes of its own, while its owner does other things."""

    def __init__(self, seed: int, diagnose: bool = True, server: ForkServer | None = None) -> None:
        """`server` is where workers come from, if it has been started."""
        self.options = Options(seed, diagnose=diagnose)
        self._before: dict[str, Verdict] = {}  # the last verdict on each kata: how long its checks take
        self.server = server or ForkServer()
        parallel.import_all()
        self._size = parallel.judges()
        self._pool = self._new_pool()

    def _new_pool(self) -> WorkerPool:
        return WorkerPool(_work, self.server, self._size, telling=True)

    def prepare(self, kata: Kata) -> None:
        """Grade the solution in every process, so that oracles are known before the first attempt is there."""
        self._before[kata.name] = self._pool.map([(Entry.of_solution(kata), self.options)] * self._size)[0]

    def begin(self, entry: Entry, options: Options | None = None, script: bool = False) -> None:
        """Start grading; with `script` the file is also run as one, before that."""
        self._last, self._kata = options or self.options, entry.kata.name
        self._of_kata = not entry.step
        before = self._before.get(self._kata)
        if before is not None and bool(before.remarks) is not bool(entry.hunted):
            before = None  # it had not the checks that there are now
        if before is not None and before.stages:
            asked = self._last.stage or stages.open_in(entry.kata, entry.source)
            before = before if before.stage == asked else None  # of other stages, with other checks
        parts = parallel.shared_out([entry], self._last, self._size, before)
        self._pool.begin([entry, *parts] if script else parts)

    def verdict(
        self,
        timeout: float,
        ran: Callable[[ScriptRun], None] = lambda run: None,
        checked: Callable[[Check], None] = lambda check: None,
    ) -> Verdict | None:
        """The verdict on what was begun, if it is there within `timeout` seconds.

        `ran` hears of a script at once, and `checked` of each check as it ends.
        """

        def heard(each: object) -> None:
            if isinstance(each, ScriptRun):
                ran(each)
            elif isinstance(each, Check):
                checked(each)

        found = self._pool.results(timeout, heard)
        if found is None:
            return None
        verdict = parallel.joined([each for each in found if not isinstance(each, ScriptRun)], self._last)
        if verdict.checks and self._of_kata:
            self._before[self._kata] = verdict
        return verdict

    def grade(self, entry: Entry, options: Options | None = None) -> Verdict:
        """Grade to the end."""
        self.begin(entry, options)
        while (verdict := self.verdict(1.0)) is None:
            pass
        return verdict

    def cancel(self) -> None:
        """Give up what was begun: its processes are ended, and new ones know no oracle yet."""
        self._pool.abandon()
        self._pool = self._new_pool()

    def close(self) -> None:
        """End every process."""
        self._pool.__exit__()
        self.server.close()

    def __enter__(self) -> ResidentGrader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _work(item: Entry | parallel.Part, server: ForkServer, tell: Callable[[Check], None]) -> Verdict | ScriptRun:
    server.spares = WORKERS
    return run_script(item, server) if isinstance(item, Entry) else parallel.run_part(item, server, tell)
