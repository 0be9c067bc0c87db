"""Judges side by side, and what a warm one remembers."""

from __future__ import annotations

import os
import time
from dataclasses import replace

import pytest
import torch

from dojo import abreast, build, catalog, contract, grade, recall
from dojo.judge import nursery
from dojo.verdict import Outcome
from tests.conftest import SEED, Grade, children_of

alone = pytest.mark.skipif(abreast.processors() == 1, reason="one processor, or no fork, here")


def slowly(item: int, _: nursery.Zygote) -> tuple[int, int]:
    time.sleep(0.2 / (1 + item))
    if item == 99:
        raise ValueError("item 99 is no good")
    return item, os.getpid()


def test_results_come_in_the_order_of_the_items_and_the_processes_end(zygote: nursery.Zygote) -> None:
    heard: list[int] = []
    with abreast.Crew(slowly, zygote, 2) as crew:
        results = crew.map([0, 1, 2, 3, 4], lambda result: heard.append(result[0]))
        processes = [hand.process for hand in crew.hands]
        started = time.monotonic()
    assert [item for item, _ in results] == [0, 1, 2, 3, 4]
    assert sorted(heard) == [0, 1, 2, 3, 4]
    assert time.monotonic() - started < 0.9
    assert [process.exitcode for process in processes] == [0, 0], "nobody had to end them"
    assert children_of(zygote) == [], "the zygotes that were split off are gone too"


def test_what_fails_in_a_process_is_told_where_it_was_asked(zygote: nursery.Zygote) -> None:
    with abreast.Crew(slowly, zygote, 1) as crew, pytest.raises(RuntimeError, match="item 99 is no good"):
        crew.map([99])


def cores(_: int, zygote: nursery.Zygote) -> tuple[set[int], set[int]]:
    time.sleep(0.2)  # so that each hand takes one
    return os.sched_getaffinity(0), os.sched_getaffinity(zygote.pid)


@alone
def test_each_judge_keeps_to_a_processor_of_its_own_with_its_workers(zygote: nursery.Zygote) -> None:
    with abreast.Crew(cores, zygote, 2) as crew:
        (first, workers), (second, others) = crew.map([1, 2])
    assert len(first) == len(second) == 1
    assert first != second
    assert (workers, others) == (first, second)


@alone
def test_a_kata_whose_checks_are_shared_out_gets_the_same_verdict(zygote: nursery.Zygote, graded: Grade) -> None:
    kata = catalog.katas()["softmax"]
    wrong = build.read_text(kata.master).replace("dim=dim", "dim=-1")
    for source in (build.read_text(kata.master), wrong, "import nothing_of_that_name\n", build.stub_text(kata)):
        whole = graded("softmax", source)
        entry, options = grade.Entry(kata, source, "attempt.py", ""), grade.Options(SEED)
        before = None
        with abreast.Crew(grade.run_part, zygote, 2) as crew:
            for _ in range(2):  # the second time by how long the checks took
                verdict = grade.joined(crew.map(grade.shared_out([entry], options, 2, before)), options)
                assert verdict.verdict == whole.verdict
                assert [(c.name, c.outcome) for c in verdict.checks] == [(c.name, c.outcome) for c in whole.checks]
                before = verdict


def test_shares_are_about_equally_long() -> None:
    from dojo.verdict import Check, Outcome, Tier, Verdict

    checks = [Check(str(n), Tier.CORE, Outcome.PASSED, seconds=1 / (1 + n)) for n in range(20)]
    before = Verdict("rope", "", "passed", checks, "cpu", "", 1.0, 1)
    entry = grade.Entry(catalog.katas()["rope"], "", "", "")
    shares = [options.only for _, options in grade.shared_out([entry], grade.Options(1), 3, before)]
    assert sorted(name for share in shares for name in share) == sorted(check.name for check in checks)
    lengths = [sum(check.seconds for check in checks if check.name in share) for share in shares]
    assert max(lengths) - min(lengths) < 0.3
    assert replace(grade.Options(1), only=shares[0]).only == shares[0]


def test_what_is_remembered_is_what_was_computed_and_leaves_the_generator_alike(monkeypatch) -> None:
    monkeypatch.setattr(recall, "_known", {})
    made: list[int] = []

    def compute(generator: torch.Generator) -> float:
        made.append(1)
        return float(torch.rand((), generator=generator))

    ends = []
    for _ in range(2):
        generator = torch.Generator().manual_seed(7)
        value = recall.recall(("key", recall.content(torch.ones(3))), lambda g=generator: compute(g), generator)
        ends.append((value, float(torch.rand((), generator=generator))))
    assert ends[0] == ends[1]
    assert len(made) == 1


def test_equal_contents_are_one_key_and_others_are_not() -> None:
    x = torch.arange(6.0).reshape(2, 3)
    assert recall.content({"x": x}) == recall.content({"x": x.T.contiguous().T})
    others = [x.double(), x.reshape(3, 2), x + 1, x.int()]
    assert len({recall.content(x), *map(recall.content, others)}) == 5


def test_a_check_that_outlives_the_watchdog_is_our_fault_and_the_others_go_on(
    graded: Grade, monkeypatch: pytest.MonkeyPatch
) -> None:
    @contract.fast
    def endless(self: contract.Contract) -> None:
        time.sleep(60)

    monkeypatch.setattr(grade, "GRADER_WATCHDOG", 2)
    monkeypatch.setattr(contract.Contract, "test_operation_count_does_not_grow", endless)
    verdict = graded("softmax", build.read_text(catalog.katas()["softmax"].master))
    failed = [check for check in verdict.checks if not check.outcome.harmless]
    assert [check.outcome for check in failed] == [Outcome.GRADER_ERROR]
    assert "our fault, not yours" in failed[0].message
    assert len(verdict.checks) >= 18
