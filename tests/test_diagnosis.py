"""Which known bug is told: one that fails as the attempt does, and not in a single check by chance."""

from __future__ import annotations

import pytest

from dojo.contracts.checks.assertions import fail
from dojo.contracts.checks.known_bugs import Bug
from dojo.grading.diagnosis import Diagnosis
from dojo.verdict.failures import Fault


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
