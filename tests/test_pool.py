"""Judges side by side, and what one that stays remembers."""

from __future__ import annotations

import os
import time
from dataclasses import replace

import pytest
import torch

from dojo.content import catalog, master
from dojo.contracts import Contract, fast
from dojo.contracts.checks import tolerance
from dojo.grading import parallel, run
from dojo.grading.options import Entry, Options
from dojo.judge.fork_server import ForkServer
from dojo.judge.pool import WorkerPool, processors
from dojo.verdict.types import Outcome
from tests.conftest import SEED, Grade, children_of

alone = pytest.mark.skipif(processors() == 1, reason="one processor, or no fork, here")


def slowly(item: int, _: ForkServer) -> tuple[int, int]:
    time.sleep(0.2 / (1 + item))
    if item == 99:
        raise ValueError("item 99 is no good")
    return item, os.getpid()


def test_results_come_in_the_order_of_the_items_and_the_processes_end(server: ForkServer) -> None:
    heard: list[int] = []
    with WorkerPool(slowly, server, 2) as pool:
        results = pool.map([0, 1, 2, 3, 4], lambda result: heard.append(result[0]))
        processes = [each.process for each in pool.processes]
        started = time.monotonic()
    assert [item for item, _ in results] == [0, 1, 2, 3, 4]
    assert sorted(heard) == [0, 1, 2, 3, 4]
    assert time.monotonic() - started < 0.9
    assert [process.exitcode for process in processes] == [0, 0], "nobody had to end them"
    assert children_of(server) == [], "the fork servers that were split off are gone too"


def test_nothing_to_do_is_done_at_once(server: ForkServer) -> None:
    with WorkerPool(slowly, server, 1) as pool:
        assert pool.map([]) == []


def test_what_fails_in_a_process_is_told_where_it_was_asked(server: ForkServer) -> None:
    with WorkerPool(slowly, server, 1) as pool, pytest.raises(RuntimeError, match="item 99 is no good"):
        pool.map([99])


def cores(_: int, server: ForkServer) -> tuple[set[int], set[int]]:
    time.sleep(0.2)  # so that each process takes one
    return os.sched_getaffinity(0), os.sched_getaffinity(server.pid)


@alone
def test_each_judge_keeps_to_a_processor_of_its_own_with_its_workers(server: ForkServer) -> None:
    with WorkerPool(cores, server, 2) as pool:
        (first, workers), (second, others) = pool.map([1, 2])
    assert len(first) == len(second) == 1
    assert first != second
    assert (workers, others) == (first, second)


@alone
def test_a_kata_whose_checks_are_shared_out_gets_the_same_verdict(server: ForkServer, graded: Grade) -> None:
    kata = catalog.katas()["softmax"]
    wrong = master.read_text(kata.master).replace("dim=dim", "dim=-1")
    for source in (master.read_text(kata.master), wrong, "import nothing_of_that_name\n", master.stub_text(kata)):
        whole = graded("softmax", source)
        entry, options = Entry(kata, source, "attempt.py", ""), Options(SEED)
        before = None
        with WorkerPool(parallel.run_part, server, 2) as pool:
            for _ in range(2):  # the second time by how long the checks took
                verdict = parallel.joined(pool.map(parallel.shared_out([entry], options, 2, before)), options)
                assert verdict.verdict == whole.verdict
                assert [(c.name, c.outcome) for c in verdict.checks] == [(c.name, c.outcome) for c in whole.checks]
                before = verdict


def test_shares_are_about_equally_long() -> None:
    from dojo.verdict.types import Check, Outcome, Tier, Verdict

    checks = [Check(str(n), Tier.CORE, Outcome.PASSED, seconds=1 / (1 + n)) for n in range(20)]
    before = Verdict("rope", "", "passed", checks, "cpu", "", 1.0, 1)
    entry = Entry(catalog.katas()["rope"], "", "", "")
    shares = [options.only for _, options in parallel.shared_out([entry], Options(1), 3, before)]
    assert sorted(name for share in shares for name in share) == sorted(check.name for check in checks)
    lengths = [sum(check.seconds for check in checks if check.name in share) for share in shares]
    assert max(lengths) - min(lengths) < 0.3
    assert replace(Options(1), only=shares[0]).only == shares[0]


def test_what_is_remembered_is_what_was_computed_and_leaves_the_generator_alike(monkeypatch) -> None:
    monkeypatch.setattr(tolerance, "_known", {})
    made: list[int] = []

    def compute(generator: torch.Generator) -> float:
        made.append(1)
        return float(torch.rand((), generator=generator))

    ends = []
    for _ in range(2):
        generator = torch.Generator().manual_seed(7)
        value = tolerance.cached(("key", tolerance.value_key(torch.ones(3))), lambda g=generator: compute(g), generator)
        ends.append((value, float(torch.rand((), generator=generator))))
    assert ends[0] == ends[1]
    assert len(made) == 1


def test_equal_contents_are_one_key_and_others_are_not() -> None:
    x = torch.arange(6.0).reshape(2, 3)
    assert tolerance.value_key({"x": x}) == tolerance.value_key({"x": x.T.contiguous().T})
    others = [x.double(), x.reshape(3, 2), x + 1, x.int()]
    assert len({tolerance.value_key(x), *map(tolerance.value_key, others)}) == 5


def test_a_check_that_outlives_the_watchdog_is_our_fault_and_the_others_go_on(
    graded: Grade, monkeypatch: pytest.MonkeyPatch
) -> None:
    @fast
    def endless(self: Contract) -> None:
        time.sleep(60)

    monkeypatch.setattr(run, "GRADER_WATCHDOG", 2)
    monkeypatch.setattr(Contract, "test_operation_count_does_not_grow", endless)
    verdict = graded("softmax", master.read_text(catalog.katas()["softmax"].master))
    failed = [check for check in verdict.checks if not check.outcome.harmless]
    assert [check.outcome for check in failed] == [Outcome.GRADER_ERROR]
    assert "our fault, not yours" in failed[0].message
    assert len(verdict.checks) >= 18


def test_what_is_not_reached_behind_a_first_failure_is_not_judged(server: ForkServer) -> None:
    sources = {name: master.read_text(catalog.katas()[name].master) for name in ("causal_mask", "softmax", "gae")}
    sources["softmax"] = "def softmax(x, dim=-1):\n    return x.exp()\n"
    entries = [Entry(catalog.katas()[name], source, f"{name}.py", "") for name, source in sources.items()]
    verdicts = run.run(entries, Options(7, stop_at_first=True), server)
    assert [verdict.verdict for verdict in verdicts] == ["passed", "failed", "unjudged"]
    assert verdicts[-1].message == "not judged: -x stopped in softmax"
