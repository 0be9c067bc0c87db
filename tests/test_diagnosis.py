"""Which known bug is told: one that fails as the attempt does, and not in a single check by chance."""

from __future__ import annotations

import gc
import itertools
import linecache
import subprocess
import sys
import time

import pytest
import torch

from dojo.content import catalog, master, proofs
from dojo.content.rows import Row
from dojo.contracts.checks.assertions import fail
from dojo.grading.telling.diagnosis import MOST_TWICE, Diagnosis
from dojo.grading.telling.sameness import same_failure
from dojo.judge.worker.errors import operation
from dojo.verdict.failures import UNKNOWN, Fault, Raised
from tests.conftest import Grade, failures


def fault(facts: str) -> Fault:
    with pytest.raises(Fault) as caught:
        fail("result matches the definition", facts)
    return caught.value


def diagnosis(table: dict[str, dict[str, str]]) -> Diagnosis[str]:
    """Of bugs that fail these checks with these facts."""
    bugs = [Row(name, "", ()) for name in table]
    return Diagnosis(bugs, lambda bug, check: fault(table[bug.name][check]) if check in table[bug.name] else None)


def told(found: Diagnosis[str], failures: dict[str, str], passed: tuple[str, ...] = ()) -> list[str | None]:
    for check, facts in failures.items():
        found.see(check, fault(facts))
    named = found.named(passed)
    return [named[check].name if check in named else None for check in failures]


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
    table = {f"bug {n}": {"values": "no"} for n in range(100)} | {"the last": {"values": "1"}}
    assert told(diagnosis(table), {"values": "1"}) == ["the last"]
    for count, questions in ((MOST_TWICE, 2 * MOST_TWICE), (100, 100), (200, 200)):
        asked: list[str] = []
        bugs = [Row(str(n), "", ()) for n in range(count)]
        many = Diagnosis(bugs, lambda bug, check, asked=asked: asked.append(bug.name))
        assert told(many, dict.fromkeys("abc", "1")) == [None, None, None]
        assert len(asked) == questions


def test_a_judge_that_stays_keeps_no_grading_alive(graded: Grade) -> None:
    source = master.read_text(catalog.katas()["softmax"].master)
    before = sessions()
    for bug in proofs.bugs(catalog.katas()["softmax"])[:4]:
        assert graded("softmax", bug.plant(source)).verdict == "failed"
    assert sessions() <= before + 1  # the last one, which Python keeps for a debugger


def sessions() -> int:
    gc.collect()
    return sum(isinstance(each, pytest.Session) for each in gc.get_objects())


@pytest.mark.proof
def test_a_busy_machine_gives_the_same_diagnosis(graded: Grade) -> None:
    kata = catalog.katas()["seq2seq"]
    source = master.read_text(kata.master)
    bug = next(bug for bug in proofs.bugs(kata) if bug.fits(source))
    spinning = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(4)]
    try:
        verdict = graded("seq2seq", bug.plant(source), tier="core")
    finally:
        for each in spinning:
            each.kill()
            each.wait()
    assert {check.diagnosis for check in failures(verdict)} == {bug.name}


AMAX = """
def softmax(x, dim=-1):
    exp = torch.exp(x - x.amax(dim))
    return exp / exp.sum(dim, keepdim=True)
"""


def test_a_crash_is_a_known_bugs_only_in_the_same_operation(graded: Grade) -> None:
    bug = "the sum without `keepdim=True`"
    assert not {check.diagnosis for check in graded("softmax", "import torch\n" + AMAX).checks} & {bug}
    summed = AMAX.replace("amax(dim)", "amax(dim, keepdim=True)").replace("sum(dim, keepdim=True)", "sum(dim)")
    assert bug in {check.diagnosis for check in graded("softmax", "import torch\n" + summed).checks}


def raised(operation: list[str]) -> Raised:
    return Raised("RuntimeError", "sizes", ["RuntimeError"], "", operation)


def test_operands_of_other_shapes_are_another_mistake() -> None:
    one = raised(["sub", "(3, 5)", "(3,)"])
    assert same_failure(one, raised(["sub", "(3, 5)", "(3,)"]))
    assert same_failure(one, raised(["sub", "(3, 5)", UNKNOWN]))  # an operand without a name
    assert same_failure(one, raised([]))  # a line that cannot be read
    assert not same_failure(one, raised(["sub", "(3, 5)", "(5,)"]))
    assert not same_failure(one, raised(["div", "(3, 5)", "(3,)"]))


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("x - y", ["sub", "(2, 3)", "(4,)"]),
        ("x.sub_(y)", ["sub", "(2, 3)", "(4,)"]),
        ("torch.subtract(x, y)", ["sub", "(2, 3)", "(4,)"]),
        ("x - y.cumsum(0)", ["sub", "(2, 3)", UNKNOWN]),
        ("x.double() - y.sqrt()", ["sub", "(2, 3)", "(4,)"]),
        ("x @ x", ["matmul", "(2, 3)", "(2, 3)"]),
        ("torch.matmul(\n    x, x)", ["matmul", "(2, 3)", "(2, 3)"]),
        ("x.view(7)", ["view", "(2, 3)", "7"]),
    ],
)
def test_the_operation_of_a_line_that_raised(line: str, words: list[str]) -> None:
    source = f"def f():\n    x, y = torch.ones(2, 3), torch.ones(4)\n    return 1 + ({line})\n"
    linecache.cache["line.py"] = (len(source), None, source.splitlines(keepends=True), "line.py")
    names: dict = {"torch": torch}
    exec(compile(source, "line.py", "exec"), names)
    with pytest.raises(RuntimeError) as error:
        names["f"]()
    assert operation(error.value.__traceback__, {"line.py": "line.py"}) == words


@pytest.mark.parametrize(
    ("kata", "old", "new", "told"),
    [
        ("rmsnorm", "eps: float = 1e-5", "eps: float = 1e-3", "the default of `eps` is 0.001 here, and 1e-05"),
        ("adamw", "= (0.9, 0.999)", "= (0.9, 0.95)", "the default of `betas` is (0.9, 0.95) here, and (0.9, 0.999)"),
    ],
)
def test_another_default_is_told_before_any_known_bug(kata: str, old: str, new: str, told: str, graded: Grade) -> None:
    source = master.read_text(catalog.katas()[kata].master)
    assert source.count(old) == 1
    verdict = graded(kata, source.replace(old, new), tier="core")
    assert f"{told} in the statement" in [check.diagnosis for check in failures(verdict)]
