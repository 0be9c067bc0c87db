"""One mistake is told once: which checks fail of one cause, how tall a verdict is, and what it costs."""

from __future__ import annotations

import io
import time
from contextlib import suppress

import pytest

from dojo.content import catalog, master, proofs
from dojo.grading.options import Entry, Options, chooser
from dojo.grading.run import run
from dojo.judge import worker_handle
from dojo.judge.fork_server import ForkServer
from dojo.verdict import causes
from dojo.verdict.screen import terminal
from dojo.verdict.screen.failure import PICTURE
from dojo.verdict.types import Check, Failure, Kind, Outcome, Tier, Verdict
from tests.conftest import SEED, on_core

COLUMNS = 80


def failed(name: str, tier: Tier = Tier.CORE, outcome: Outcome = Outcome.WRONG, bug: str = "", **known: str) -> Check:
    failure = Failure(Kind(known.pop("kind", Kind.PROMISE)), **known)
    return Check(name, tier, outcome, failure=failure, diagnosis=bug or None)


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
    at = {"outcome": Outcome.CRASHED, "lines": "a.py, line 3"}
    other = failed("A::c", outcome=Outcome.CRASHED, lines="a.py, line 4")
    assert told(failed("A::a", **at), failed("B::b", **at), other) == {"A::a": ["B::b"], "A::c": []}


def test_what_raises_where_a_known_bug_raises_is_of_its_cause() -> None:
    at = {"outcome": Outcome.CRASHED, "lines": "a.py, line 3"}
    checks = [failed("A::a", bug="x", **at), failed("A::time", Tier.FAST, **at), failed("B::b", bug="y", **at)]
    assert told(*checks) == {"A::a": ["A::time"], "B::b": []}


def test_one_forbidden_operation_is_one_cause() -> None:
    one, two = (failed(f"A::{n}", outcome=Outcome.FORBIDDEN, what="`einsum` is not allowed") for n in "ab")
    assert told(one, two) == {"A::a": ["A::b"]}


def test_wrong_values_explain_what_compares_values_in_another_dtype_layout_or_shape() -> None:
    checks = [
        failed("A::values", compared="float32", pattern="only row 1"),
        failed("A::layout", Tier.ROBUST, compared="float32"),
        failed("A::half_precision", Tier.ROBUST, dtype="float16"),
        failed("A::inputs_overwritten", Tier.ROBUST, sentence="inputs are left alone"),
        failed("B::values", compared="float32"),
    ]
    assert told(*checks) == {
        "A::values": ["A::layout", "A::half_precision"],
        "A::inputs_overwritten": [],
        "B::values": [],
    }


def test_without_wrong_values_the_same_pattern_is_one_cause() -> None:
    alike = [failed(f"A::{n}", Tier.ROBUST, compared="float32", pattern="only row 1") for n in "ab"]
    assert told(*alike, failed("A::c", Tier.ROBUST, compared="float32", pattern="every row")) == {
        "A::a": ["A::b"],
        "A::c": [],
    }


def test_a_test_that_rejects_a_wrong_program_beside_it_makes_no_mistake() -> None:
    beside = failed("Testtest::beside", kind=Kind.BESIDE)
    assert told(failed("A::values", sentence="values"), beside) == {"A::values": [beside.name]}
    assert told(failed("A::values", Tier.ROBUST, sentence="values"), beside) == {beside.name: [], "A::values": []}


def test_causes_come_in_the_order_of_the_tiers() -> None:
    fast = failed("A::slow", Tier.FAST, Outcome.SLOW, sentence="fast")
    assert list(told(fast, failed("A::robust", Tier.ROBUST, sentence="r"), failed("A::core", sentence="c"))) == [
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


class Meter:
    """Gradings as a terminal of 80 columns shows them, and their cost: CPU seconds of the judge and of all workers."""

    def __init__(self, kata: catalog.Kata, server: ForkServer, monkeypatch: pytest.MonkeyPatch) -> None:
        self.kata, self.server, self.of_workers = kata, server, 0.0
        monkeypatch.setattr(terminal, "_width", lambda _: COLUMNS)
        end = worker_handle.Worker.end

        def counted(worker: worker_handle.Worker) -> None:
            with suppress(OSError):  # of one that has been ended before
                self.of_workers += worker.cpu_seconds()
            end(worker)

        monkeypatch.setattr(worker_handle.Worker, "end", counted)

    def grade(self, source: str) -> tuple[float, Verdict]:
        """What the grading of a source costs, and the verdict."""
        entry = Entry(self.kata, source, self.kata.say(self.kata.stub), f"nox -s grade -- {self.kata.name}")
        self.of_workers, before = 0.0, time.process_time()
        verdict = run([entry], Options(SEED), self.server)[0]
        return time.process_time() - before + self.of_workers, verdict


def height(verdict: Verdict) -> int:
    """Lines of a verdict on a terminal of 80 columns, none of which is wider; what a map is granted does not count."""
    screen = io.StringIO()
    terminal.Screen(screen).verdict(verdict)
    lines = screen.getvalue().rstrip().split("\n")
    assert max(map(len, lines)) <= COLUMNS
    return len(lines) - PICTURE * any(line.startswith("  map ") for line in lines)


def test_a_pass_fits_a_screen(server: ForkServer, monkeypatch: pytest.MonkeyPatch) -> None:
    kata = catalog.katas()["softmax"]
    _, verdict = Meter(kata, server, monkeypatch).grade(master.read_text(kata.master))
    assert height(verdict) <= 8


LITTLE = 3.0  # seconds: in a kata that takes less than one, what is there besides its checks counts for more
# What the limits of time allow by themselves: a call, and three of a race.
LATE = {Outcome.TIMED_OUT: worker_handle.CPU_LIMIT, Outcome.SLOW: 3 * worker_handle.CPU_LIMIT}
AT_ONCE = "causal_mask"  # the others take long
EACH = [pytest.param(name, marks=() if name == AT_ONCE else pytest.mark.proof) for name in catalog.katas()]


@pytest.mark.parametrize("name", EACH)
def test_verdicts_on_wrong_attempts_fit_a_screen_and_cost_little_more_than_on_the_solution(
    name: str, server: ForkServer, core: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    kata = catalog.katas()[name]
    meter, right = Meter(kata, server, monkeypatch), master.read_text(kata.master)
    known = {bug.name: bug.plant(right) for bug in proofs.bugs(kata)}
    heights, costs = dict[str, int](), dict[str, tuple[float, float]]()
    with on_core(core):
        meter.grade(right)  # the first grading imports
        base, _ = meter.grade(right)
        for wrong, source in (known | proofs.mistakes(kata)).items():
            spent, verdict = meter.grade(source)
            late = [check.outcome for check in verdict.checks if check.outcome in LATE]
            most = max(3 * base, LITTLE) + sum(map(LATE.__getitem__, late))
            if spent > most:  # what else the machine does makes a second of its processors longer, never shorter
                spent = min(spent, meter.grade(source)[0])
            costs[wrong] = spent, most
            if wrong in known:
                heights[wrong] = height(verdict)
    dearest = sorted(costs, key=lambda wrong: -costs[wrong][0])[:5]
    print(
        *(f"{name}: {costs[wrong][0] / base:.1f} × the solution's {base:.1f} s: {wrong}" for wrong in dearest), sep="\n"
    )
    assert not {wrong: lines for wrong, lines in heights.items() if lines > terminal.ROWS}
    assert not {wrong: cost for wrong, cost in costs.items() if cost[0] > cost[1]}
