"""Which known bug is told: one that fails as the attempt does, and not in a single check by chance."""

from __future__ import annotations

import gc
import itertools
import subprocess
import sys
import time

import pytest

from dojo.content import catalog, master
from dojo.contracts.checks.assertions import fail
from dojo.contracts.checks.known_bugs import Bug, bugs_of
from dojo.grading.diagnosis import QUESTIONS, Diagnosis
from dojo.verdict.failures import Fault
from tests.conftest import Grade, failures


def fault(facts: str) -> Fault:
    with pytest.raises(Fault) as caught:
        fail("result matches the definition", facts)
    return caught.value


def diagnosis(table: dict[str, dict[str, str]]) -> Diagnosis[str]:
    """Of bugs that fail these checks with these facts."""
    bugs = [Bug(name, "", ()) for name in table]
    return Diagnosis(bugs, lambda bug, check: fault(table[bug.name][check]) if check in table[bug.name] else None)


def told(found: Diagnosis[str], failures: dict[str, str], passed: tuple[str, ...] = ()) -> list[str | None]:
    bugs = [found.of(check, fault(facts), passed) for check, facts in failures.items()]
    return [bug.name if bug else None for bug in bugs]


def test_the_bug_that_fails_alike_is_told_in_every_check() -> None:
    table = {"no scale": {"values": "1", "dtype": "1"}, "no mask": {"values": "2"}}
    assert told(diagnosis(table), {"values": "1", "dtype": "1"}) == ["no scale", "no scale"]


def test_of_two_alike_the_one_is_left_that_passes_what_the_attempt_passes() -> None:
    table = {"no scale": {"values": "1"}, "no mask": {"values": "1", "dead rows": "1"}}
    assert told(diagnosis(table), {"values": "1"}, ("dead rows",)) == ["no scale"]


def test_one_small_check_does_not_outweigh_the_values() -> None:
    table = {"dropout ignored": {"yes or no": "1"}}
    assert told(diagnosis(table), {"values": "7", "gradients": "7", "yes or no": "1"}) == [None, None, None]


def test_half_of_the_failed_checks_are_enough() -> None:
    table = {"tables cast": {"far": "1", "cast": "1"}}
    assert told(diagnosis(table), {"values": "7", "far": "1", "cast": "1"}) == [None, "tables cast", "tables cast"]


def test_questions_are_counted_and_no_clock_has_a_say(monkeypatch: pytest.MonkeyPatch) -> None:
    hours = itertools.count(0, 3600)
    for clock in ("perf_counter", "monotonic", "process_time", "time"):
        monkeypatch.setattr(time, clock, lambda: next(hours))
    table = {f"bug {n}": {"values": "no"} for n in range(QUESTIONS - 1)} | {"the last": {"values": "1"}}
    assert told(diagnosis(table), {"values": "1"}) == ["the last"]
    asked: list[str] = []
    many = Diagnosis([Bug(str(n), "", ()) for n in range(QUESTIONS - 1)], lambda bug, check: asked.append(bug.name))
    assert told(many, dict.fromkeys("abc", "1")) == [None, None, None]
    assert len(asked) == QUESTIONS


def test_a_judge_that_stays_keeps_no_grading_alive(graded: Grade) -> None:
    source = master.read_text(catalog.katas()["softmax"].master)
    before = sessions()
    for bug in bugs_of(catalog.katas()["softmax"])[:4]:
        assert graded("softmax", bug.plant(source)).verdict == "failed"
    assert sessions() <= before + 1  # the last one, which Python keeps for a debugger


def sessions() -> int:
    gc.collect()
    return sum(isinstance(each, pytest.Session) for each in gc.get_objects())


@pytest.mark.proof
def test_a_busy_machine_gives_the_same_diagnosis(graded: Grade) -> None:
    kata = catalog.katas()["seq2seq"]
    source = master.read_text(kata.master)
    bug = next(bug for bug in bugs_of(kata) if bug.fits(source))
    spinning = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(4)]
    try:
        verdict = graded("seq2seq", bug.plant(source), tier="core")
    finally:
        for each in spinning:
            each.kill()
            each.wait()
    assert {check.diagnosis for check in failures(verdict)} == {bug.name}
