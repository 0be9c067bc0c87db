"""What a Value must do in a program. The oracle runs the same program on tensors, and asks torch for its gradients."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dojo.contracts import Attempt, Ban, Draw, GeneratorContract, core, fast
from dojo.contracts.plain.programs import Program, by_torch, name_of, program, simpler, told_of, written
from dojo.verdict.failures import Fault
from dojo.verdict.mismatch import plain
from dojo.verdict.types import Label, Section


def one(text: str, **leaves: float) -> tuple[Program]:
    return (program(text, **leaves),)


def drawn(d: Draw) -> Iterator[tuple[Program]]:
    """Programs of three leaves whose values stay small: an operation of any two, and its tanh."""
    pick = d.random()
    for size in range(4, 24, 2):
        lines: list[tuple] = [("leaf", round(pick.uniform(-2.0, 2.0), 2)) for _ in range(3)]
        for last in range(3, size, 2):
            sides: list[Any] = [pick.randrange(last), pick.randrange(max(0, last - 4), last)]
            if pick.random() < 0.3:
                sides[pick.randrange(2)] = ("number", pick.choice([2, -3, 0.5]))
            lines += [(pick.choice("+-*"), *sides), ("tanh", last)]
        yield ((*lines, ("backward", len(lines) - 1)),)


HALF = (("*", -1, ("number", 0.5)), ("+", -1, -1))  # two paths for each of these
LINK = program(  # a piece of a chain through every operator, whose slopes leave something to compare at its other end
    "b = a + 1; c = b ** 2; d = c ** 0.5; e = d.relu(); f = 1 / e; g = 1 / f; h = g - 1; i = -h; j = 0 - i;"
    "k = j.exp(); l = k.log(); m = l * 2; n = m / 2; o = 3 + n; p = o - 3; q = 1.0 * p; r = q.tanh()",
    a=0.5,
)
CHAIN = tuple((word, *(-1 if isinstance(each, int) else each for each in rest)) for word, *rest in LINK[1:])
JOINED = (("+", -1, 0), ("-", -1, ("number", 0.5)), ("*", -1, 1), ("/", -1, 1))  # with Values that all links share


class TestValue(GeneratorContract):
    name = "Value"
    relative = absolute = 1e-8
    simpler = staticmethod(simpler)
    off = {
        "test_arguments_may_be_given_by_name": "a program makes its Values from numbers by position",
        "test_global_state_is_left_alone": "what is kept of a program are numbers, and PyTorch is not allowed",
    }
    holds = {
        "Operations": ("test_each", "test_numbers", "test_powers", "test_functions", "test_slopes_at"),
        "Shared values": ("test_the_uses", "test_a_Value", "test_any_program"),
        "Second call": ("test_a_second",),
        "Deep graphs": ("test_chains",),
        "Cost": ("test_time_grows",),
        "Plain Python": ("test_uses_only",),
    }
    claims = {
        "each operator has its slopes": [
            *(one(f"c = a {word} b; c.backward()", a=2.0, b=-3.0) for word in ("+", "-", "*", "/")),
            one("b = -a; b.backward()", a=2.0),
        ],
        "numbers may stand on either side": [
            *(one(f"b = a {word} 3.0; b.backward()", a=2.0) for word in ("+", "-", "*", "/")),
            *(one(f"b = 3.0 {word} a; b.backward()", a=2.0) for word in ("+", "-", "*", "/")),
        ],
        "powers have their slopes": [
            one(f"b = a ** {power}; b.backward()", a=a) for power, a in ((2, -1.7), (3, 1.7), (-1, -1.7), (0.5, 1.7))
        ],
        "functions have their slopes": [
            *(one(f"b = a.{word}(); b.backward()", a=0.7) for word in ("exp", "log", "tanh", "relu")),
            *(one(f"b = a.{word}(); b.backward()", a=-0.7) for word in ("exp", "tanh", "relu")),
        ],
        "the uses of a Value are summed": [
            one("b = a + a; b.backward()", a=3.0),
            one("b = a - a; c = a / a; d = b + c; d.backward()", a=3.0),
            one("c = (a * b + a ** 2) * a; c.backward()", a=2.0, b=-3.0),
        ],
        "a Value passes on the sum of all its uses": [
            one("b = a.exp(); c = -b; d = -b; e = c + d; e.backward()", a=0.6),
            one("c = a * b; d = c + a; e = c * d; e.backward()", a=2.0, b=-3.0),
            one("c = a * b; d = c.tanh(); e = d * 2; f = e + c; g = f * d; h = g + c; h.backward()", a=0.6, b=0.7),
        ],
        "any program": drawn,
    }
    edges = {
        "slopes at 0 and far from it": [
            *(one(f"c = a {word} b; c.backward()", a=0.0, b=3.0) for word in ("+", "-", "*", "/")),
            *(one(f"b = a.{word}(); b.backward()", a=a) for word, a in (("tanh", 5.0), ("relu", 0.0), ("relu", -0.0))),
        ],
        "a second call adds the same again": [
            one("c = (a * b + a ** 2) * a; c.backward(); c.backward()", a=2.0, b=-3.0),
            one("b = a.exp(); c = b * b; c.backward(); c.backward(); c.backward()", a=0.5),
            one("c = a * b; d = c * a; c.backward(); d.backward(); c.backward(); b.backward()", a=2.0, b=-3.0),
            one("c = a * b; c.backward(); c.backward(); d = c.tanh(); e = d + d; e.backward()", a=0.6, b=0.7),
            one("b = a * a; c = b * a; c.backward(); a.grad = 0.0; b.grad = 5.0; c.grad = 7.0; c.backward()", a=2.0),
        ],
        "chains of 50,000 operations work": [
            ((("leaf", 0.5), ("leaf", 1.0), ("again", 2500, CHAIN + JOINED), ("backward", -1)),),
        ],
    }
    oracle = staticmethod(by_torch)

    def answer(self, attempt: Attempt, args: tuple, kwargs: dict) -> Any:
        """`data` and `grad` by the name of the object."""
        try:
            reply = attempt.ask_of([getattr(attempt, self.name)], self.request(args[0]))
        except Fault as fault:
            fault.failure.inputs.append(written(args[0]))
            raise
        names = [name_of(number) for number in told_of(args[0])]
        return {
            f"{name}.{part}": float(each) if type(each) is int else each
            for part in ("data", "grad")
            for name, each in zip(names, reply[part], strict=False)
        }

    def request(self, lines: Program) -> dict[str, Any]:
        return {"do": "program", "target": self.name, "instructions": lines, "told": told_of(lines)}

    def words(self, args: tuple, kwargs: dict) -> str:
        return written(args[0])

    def picture(self, call: tuple, got: Any, exact: Any) -> list[Section]:
        """Every object, with what it holds and what it should."""
        rows = [f"{'':6}{'data':>12}{'expected':>12}{'grad':>14}{'expected':>12}"]
        for name in (name_of(number) for number in told_of(call[0])):
            cells = [plain.shown(where.get(f"{name}.{part}")) for part in ("data", "grad") for where in (got, exact)]
            wrong = any(cells[k] != cells[k + 1] for k in (0, 2))
            rows.append(f"{'→' if wrong else ' '} {name:4}{cells[0]:>12}{cells[1]:>12}{cells[2]:>14}{cells[3]:>12}")
        return [Section(Label.MAP, "\n".join(rows))]

    @core
    def test_uses_only_python_and_no_torch(self, attempt: Attempt) -> None:
        asked = {"do": "observe", "inner": [self.request((*LINK, ("backward", len(LINK) - 1)))], "watched": []}
        Ban(".").judge(attempt.ask_of([], asked)["readings"], attempt.parts)

    @fast
    def test_time_grows_with_values_and_not_with_paths(self, attempt: Attempt) -> None:
        claim = "time grows with the number of Values, and not with the paths through the graph"
        self.agrees(attempt, claim, ((("leaf", 0.5), ("again", 200, HALF), ("backward", -1)),))
