"""How a cohort is graded: each attempt once, whatever is lost on the way."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from dojo.cohort import engine
from dojo.cohort.engine import GRADINGS, Job, LocalEngine, Slot, doubtful, results
from dojo.cohort.records import Result, Submitted, knowing_each_other
from dojo.cohort.store import Terms
from dojo.content import catalog
from dojo.judge.fork_server import ForkServer
from dojo.verdict.types import Check, Outcome, Tier, Verdict

TERMS = Terms(5, torch=torch.__version__)
ATTACKS = Path(__file__).parent.parent / "attacks"
SOFTMAX = catalog.katas()["softmax"].master.read_text("utf-8")


class FakeSlot:
    def __init__(self, outcome: Callable[[Job], Result | str | None]) -> None:
        self.outcome, self.ended = outcome, False

    def begin(self, job: Job) -> None:
        assert not self.ended
        self.found = self.outcome(job)

    def end(self) -> None:
        self.ended = True


class FakeEngine:
    """Slots whose results are made up."""

    def __init__(self, outcome: Callable[[Job], Result | str | None], size: int = 2) -> None:
        self.outcome, self.size, self.idle, self.slots = outcome, size, list[Slot](), list[FakeSlot]()

    def ready(self) -> list[Slot]:
        self.slots = [slot for slot in self.slots if not slot.ended]
        fresh = [FakeSlot(self.outcome) for _ in range(self.size - len(self.slots))]
        self.slots += fresh
        return [*fresh]

    def done(self, busy: Sequence[Any], seconds: float) -> list[tuple[Slot, Result | str]]:
        assert len(busy) <= self.size
        return [(slot, slot.found) for slot in busy if slot.found is not None]

    def close(self) -> None:
        pass


def fetched(student: str, kata: str) -> Submitted:
    return Submitted(student, kata, f"{student}/{kata}.py", "")


def run(outcome: Callable[[Job], Result | str | None], wanted: Sequence[tuple[str, str]], terms: Terms = TERMS) -> list:
    return list(results(wanted, fetched, terms, FakeEngine(outcome)))


WANTED = [(f"s{n}", "softmax") for n in range(7)]


def passed(job: Job) -> Result:
    return Result(job.submitted, {"verdict": "passed"})


def test_everybody_gets_one_result() -> None:
    assert sorted(each.submitted.student for each in run(passed, WANTED)) == [name for name, _ in WANTED]


def test_what_is_lost_is_graded_elsewhere_and_comes_once() -> None:
    found = run(lambda job: passed(job) if job.losses or job.submitted.student != "s3" else "the node is gone", WANTED)
    assert sorted(each.submitted.student for each in found) == [name for name, _ in WANTED]
    assert not any(each.for_a_person for each in found)


def test_what_is_lost_three_times_has_no_result_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "PAUSE", 0.3)
    put_off = list[Job]()
    lost = FakeEngine(lambda job: "the node is gone" if job.submitted.student == "s3" else passed(job))
    started = time.monotonic()
    found = list(results(WANTED, fetched, TERMS, lost, put_off.append))
    assert time.monotonic() - started > 3 * engine.PAUSE, "there is a pause before each further try"
    assert sorted(each.submitted.student for each in found) == ["s0", "s1", "s2", "s4", "s5", "s6"]
    assert [(job.submitted.student, job.losses) for job in put_off] == [("s3", ("the node is gone",) * GRADINGS)]


@pytest.mark.parametrize("busy", [True, False])
def test_what_the_clock_has_ended_is_graded_again_when_all_else_is_done(busy: bool) -> None:
    order = list[tuple[str, bool]]()

    def outcome(job: Job) -> Result:
        order.append((job.submitted.student, job.alone))
        doubt = engine.STARVED if job.submitted.student == "s1" and (busy or not job.alone) else ""
        return replace(passed(job), for_a_person=doubt)

    found = {each.submitted.student: each.for_a_person for each in run(outcome, WANTED)}
    assert order[-1] == ("s1", True)
    assert found == dict.fromkeys((name for name, _ in WANTED), "") | {"s1": engine.STARVED if busy else ""}


def test_an_attempt_that_never_ends_is_given_up() -> None:
    terms = Terms(5, attempt_limit=0.01)
    found = run(lambda job: None if job.submitted.student == "s3" else passed(job), WANTED, terms)
    (one,) = (each for each in found if each.for_a_person)
    assert "no verdict within 0 seconds" in one.for_a_person


def test_a_submission_has_its_time_and_no_more() -> None:
    class SlowEngine(FakeEngine):
        def done(self, busy: Sequence[Any], seconds: float) -> list[tuple[Slot, Result | str]]:
            time.sleep(0.02)
            return super().done(busy, seconds)

    wanted = [("s1", "softmax"), ("s1", "rope"), ("s1", "gqa"), ("s2", "gqa")]
    found = list(results(wanted, fetched, Terms(5, submission_limit=0.03), SlowEngine(passed, size=1)))
    assert [bool(each.for_a_person) for each in found] == [False, False, True, False]


def test_what_is_not_begun_is_not_read() -> None:
    read = []

    def fetch(student: str, kata: str) -> Submitted:
        read.append(student)
        return fetched(student, kata)

    going: Iterator[Result] = results(WANTED, fetch, TERMS, FakeEngine(passed))
    next(going)
    assert len(read) == 3  # two are begun, and one is next


def verdict(*outcomes: Outcome, said: str = "passed") -> Verdict:
    """One check for each outcome; what is wrong is core, and what has timed out had little of a processor."""
    tiers = {Outcome.WRONG: Tier.CORE}
    checks = [Check(f"check {n}", tiers.get(outcome, Tier.FAST), outcome) for n, outcome in enumerate(outcomes)]
    for check in checks:
        check.starved = check.outcome is Outcome.TIMED_OUT
    return Verdict("softmax", "x.py", said, checks, "cpu", "2", 0.0, 1)


@pytest.mark.parametrize(
    ("given", "doubt"),
    [
        (verdict(Outcome.PASSED), ""),
        (verdict(Outcome.PASSED, Outcome.UNDECIDED), "too close to call: check 1"),
        (verdict(Outcome.WRONG, Outcome.UNDECIDED, said="failed"), ""),
        (verdict(Outcome.GRADER_ERROR, said="failed"), "the grader failed in check 0"),
        (verdict(Outcome.GRADER_ERROR, Outcome.TIMED_OUT, said="failed"), engine.STARVED),
        (verdict(Outcome.GRADER_ERROR, Outcome.TIMED_OUT, Outcome.WRONG, said="failed"), ""),
    ],
)
def test_a_verdict_that_is_in_doubt_is_graded_again(given: Verdict, doubt: str) -> None:
    assert doubtful(given) == doubt


@pytest.fixture(scope="module")
def local() -> Iterator[LocalEngine]:
    server = ForkServer()
    made = LocalEngine(server, 2)
    yield made
    made.close()
    server.close()


@pytest.mark.proof
def test_attacks_among_honest_ones_change_no_verdict_but_their_own(local: LocalEngine) -> None:
    names = ["exits_at_once", "fork_bomb", "segfault", "reads_the_solution"]
    sources = {name: (ATTACKS / f"{name}.py").read_text("utf-8") for name in names}
    sources |= {f"honest {n}": SOFTMAX for n in range(3)} | {"wrong": SOFTMAX.replace(".amax(", ".amin(")}

    def fetch(student: str, kata: str) -> Submitted:
        return Submitted(student, kata, f"{student}/softmax.py", sources[student])

    wanted = [(name, "softmax") for name in sorted(sources)]
    found = {each.submitted.student: each.verdict["verdict"] for each in results(wanted, fetch, TERMS, local)}
    assert found.pop("honest 0") == found.pop("honest 1") == found.pop("honest 2") == "passed"
    assert set(found.values()) <= {"failed", "broken"}, found


def test_a_killed_process_loses_nothing(local: LocalEngine) -> None:
    def fetch(student: str, kata: str) -> Submitted:
        return Submitted(student, kata, f"{student}/softmax.py", SOFTMAX)

    def kill() -> None:
        while not (living := [slot for slot in local._slots if not slot.ended]):
            time.sleep(0.01)
        victim = living[0]
        os.kill(victim.process.process.pid, signal.SIGKILL)

    threading.Timer(0.3, kill).start()
    found = list(results([(f"s{n}", "softmax") for n in range(6)], fetch, TERMS, local))
    assert [each.verdict["verdict"] for each in found] == ["passed"] * 6
    assert len({each.submitted.student for each in found}) == 6


def test_an_attempt_builds_on_those_of_its_own_student_alone(local: LocalEngine) -> None:
    katas = catalog.katas()
    theirs = "from katas.basics.softmax import softmax as f\ndef softmax(x, dim=-1):\n    return f(x, dim)\n"
    given = [
        Submitted("ada", "softmax", "ada/softmax.py", SOFTMAX),
        Submitted("ada", "sdpa", "ada/sdpa.py", "from softmax import softmax\nfrom katas.basics import softmax as s\n"),
        Submitted("bob", "softmax", "bob/softmax.py", "import katas.rope\n" + theirs),
        Submitted("bob", "rope", "bob/rope.py", "x = 1"),
    ]
    known = {(each.student, each.kata): each for each in knowing_each_other(given, katas)}
    assert known["ada", "sdpa"].others == {"basics/softmax": SOFTMAX}
    assert known["bob", "softmax"].others == {"positions/rope": "x = 1"}
    assert known["ada", "sdpa"].digest != given[1].digest

    wanted = [("ada", "sdpa"), ("bob", "softmax")]
    found = list(results(wanted, lambda student, kata: known[student, kata], TERMS, local))
    told = {each.submitted.student: each.verdict["message"] for each in found}
    assert "sdpa.py defines no" in told["ada"]  # its imports went well
    assert "No module named 'katas.basics'" in told["bob"]


def test_the_same_seed_gives_the_same_verdict(local: LocalEngine) -> None:
    wrong = SOFTMAX.replace(".amax(", ".amin(")
    assert wrong != SOFTMAX

    def told(result: Result) -> list[tuple[str, str]]:
        return [(each["name"], each["message"]) for each in result.verdict["checks"]]

    def fetch(student: str, kata: str) -> Submitted:
        return Submitted(student, kata, "softmax.py", wrong)

    first, second, third = results([(f"s{n}", "softmax") for n in range(3)], fetch, TERMS, local)
    assert told(first) == told(second) == told(third)
    assert engine.WORKERS == 2
