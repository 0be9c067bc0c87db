"""One mistake is told once: which checks fail of one cause, and how tall a verdict is."""

from __future__ import annotations

import io
from collections import Counter

import pytest

from dojo.content import catalog, master
from dojo.contracts.checks.known_bugs import bugs_of
from dojo.grading.options import Entry, Options, chooser
from dojo.grading.run import run
from dojo.judge.fork_server import ForkServer
from dojo.verdict import causes
from dojo.verdict.screen import terminal
from dojo.verdict.types import Check, Label, Outcome, Section, Tier
from tests.conftest import SEED

COLUMNS, TALL, TALLEST = 80, 22, 40


def failed(name: str, tier: Tier = Tier.CORE, outcome: Outcome = Outcome.WRONG, bug: str = "", **said: str) -> Check:
    sections = [Section(Label[label.upper()], text) for label, text in said.items()]
    return Check(name, tier, outcome, sections=sections, diagnosis=bug or None)


def told(*checks: Check) -> dict[str, list[str]]:
    """By the check that tells a cause, the others that fail of it."""
    for place, check in enumerate(checks):
        check.place = place
    causes.assign(checks)
    return {cause.check.name: [other.name for other in cause.others] for cause in causes.causes(checks)}


def test_one_known_bug_is_one_cause() -> None:
    assert told(failed("A::a", bug="x"), failed("A::b", bug="y"), failed("B::c", bug="x")) == {
        "A::a": ["B::c"],
        "A::b": [],
    }


def test_one_line_that_raises_is_one_cause() -> None:
    at = {"outcome": Outcome.CRASHED, "traceback": "a.py, line 3"}
    other = failed("A::c", outcome=Outcome.CRASHED, traceback="a.py, line 4")
    assert told(failed("A::a", **at), failed("B::b", **at), other) == {"A::a": ["B::b"], "A::c": []}


def test_one_forbidden_operation_is_one_cause() -> None:
    one, two = (failed(f"A::{n}", outcome=Outcome.FORBIDDEN, event="`einsum` is not allowed") for n in "ab")
    assert told(one, two) == {"A::a": ["A::b"]}


def test_wrong_values_explain_what_compares_values_in_another_dtype_layout_or_shape() -> None:
    checks = [
        failed("A::values", elements="2 of 8", pattern="only row 1"),
        failed("A::layout", Tier.ROBUST, elements="8 of 8"),
        failed("A::half_precision[float16]", Tier.ROBUST, facts="off by 3"),
        failed("A::inputs_overwritten", Tier.ROBUST, contract="inputs are left alone"),
        failed("B::values", elements="2 of 8"),
    ]
    assert told(*checks) == {
        "A::values": ["A::layout", "A::half_precision[float16]"],
        "A::inputs_overwritten": [],
        "B::values": [],
    }


def test_without_wrong_values_the_same_pattern_is_one_cause() -> None:
    alike = [failed(f"A::{n}", Tier.ROBUST, elements=n, pattern="only row 1") for n in "ab"]
    assert told(*alike, failed("A::c", Tier.ROBUST, elements="c", pattern="every row")) == {
        "A::a": ["A::b"],
        "A::c": [],
    }


def test_a_test_that_rejects_a_wrong_program_beside_it_makes_no_mistake() -> None:
    beside = failed(causes.BESIDE, contract="`test` accepts the mended program")
    assert told(failed("A::values", contract="values"), beside) == {"A::values": [causes.BESIDE]}
    assert told(failed("A::values", Tier.ROBUST, contract="values"), beside) == {causes.BESIDE: [], "A::values": []}


def test_causes_come_in_the_order_of_the_tiers() -> None:
    fast = failed("A::slow", Tier.FAST, Outcome.SLOW, contract="fast")
    assert list(told(fast, failed("A::robust", Tier.ROBUST, contract="r"), failed("A::core", contract="c"))) == [
        "A::core",
        "A::robust",
        "A::slow",
    ]


@pytest.mark.parametrize(
    ("words", "chosen"),
    [
        ("2", [2]),
        ("odd width is refused", [1]),
        ("Odd width", [1, 3]),
        ("RoPE: keeps norm (float16)", [2]),
        ("test_odd_width_is_refused", [1]),
        ("odd and not refused", [3]),
        ("keeps or passes", [2, 3]),
        ("nothing like it", []),
        ("(", [2]),
    ],
)
def test_checks_are_chosen_by_number_by_name_as_shown_and_by_expression(words: str, chosen: list[int]) -> None:
    names = ["test_odd_width_is_refused", "TestRoPE::test_keeps_norm[float16]", "TestRoPE::test_odd_width_passes"]
    fits = chooser(words)
    assert [n for n, name in enumerate(names, 1) if fits(n, name)] == chosen


def height(kata: catalog.Kata, source: str, server: ForkServer, monkeypatch: pytest.MonkeyPatch) -> int:
    """Lines of the verdict on a source on a terminal of 80 columns, none of which is wider."""
    monkeypatch.setattr(terminal, "_width", lambda _: COLUMNS)
    entry = Entry(kata, source, kata.say(kata.stub), f"nox -s grade -- {kata.name}")
    screen = io.StringIO()
    terminal.Screen(screen).verdict(run([entry], Options(SEED), server)[0])
    lines = screen.getvalue().rstrip().split("\n")
    assert max(map(len, lines)) <= COLUMNS
    return len(lines)


def test_a_pass_fits_a_screen(server: ForkServer, monkeypatch: pytest.MonkeyPatch) -> None:
    kata = catalog.katas()["softmax"]
    assert height(kata, master.read_text(kata.master), server, monkeypatch) <= 8


def test_verdicts_on_the_known_bugs_of_a_kata_fit_a_screen(server: ForkServer, monkeypatch: pytest.MonkeyPatch) -> None:
    hold_heights(["causal_mask"], server, monkeypatch)


@pytest.mark.proof
def test_verdicts_on_all_known_bugs_fit_a_screen(server: ForkServer, monkeypatch: pytest.MonkeyPatch) -> None:
    hold_heights(list(catalog.katas()), server, monkeypatch)


def hold_heights(names: list[str], server: ForkServer, monkeypatch: pytest.MonkeyPatch) -> None:
    katas = [catalog.katas()[name] for name in names]
    heights = {
        (kata.name, bug.name): height(kata, bug.plant(master.read_text(kata.master)), server, monkeypatch)
        for kata in katas
        for bug in bugs_of(kata)
    }
    tall = [bug for bug, lines in heights.items() if lines > TALL]
    assert max(heights.values()) <= TALLEST, Counter(heights.values())
    assert len(tall) <= 0.05 * len(heights), tall
