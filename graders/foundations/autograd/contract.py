"""What a Value must do in a program. The oracle runs the same program on tensors, and asks torch for its gradients."""

from __future__ import annotations

import math
from typing import Any

from dojo.contracts import Attempt, Ban, Draw, GeneratorContract, assert_raises, core, fast
from dojo.contracts.plain.programs import Program, by_torch, name_of, program, simpler, told_of, written
from dojo.judge.worker.drivers import OPERATORS
from dojo.verdict.failures import Fault
from dojo.verdict.mismatch import plain
from dojo.verdict.types import Label, Section

METHODS = {"exp": math.exp, "log": math.log, "tanh": math.tanh, "relu": lambda x: max(0.0, x)}
POWERS = (2, 3, 1, 0, -1, -2, 2.0, 0.5, 1.5, -0.5)
MOST = 1e4  # a gradient beyond this is nothing to compare with


def fits(word: str, x: float, y: float) -> bool:
    """Whether an operation is far from its kinks and poles."""
    if word == "**":
        return abs(x) > 0.2 and (x > 0 or float(y).is_integer())
    far = {"log": x > 0.2, "exp": x < 3, "relu": abs(x) > 0.05, "/": abs(y) > 0.2}
    return far.get(word, True)


def drawn(d: Draw) -> list[tuple[Program]]:
    """Twenty programs of three leaves and up to a dozen operations, whose gradients are of a size to compare."""
    pick, found = d.random(), []
    while len(found) < 20:
        values = [round(pick.choice([-1, 1]) * pick.uniform(0.3, 2.0), 2) for _ in range(3)]
        lines: list[tuple] = [("leaf", value) for value in values]
        wanted = pick.randint(4, 15)
        while len(values) < wanted:
            word = pick.choice([*OPERATORS, "neg", *METHODS])
            first, second = (pick.choice([len(values) - 1, pick.randrange(len(values))]) for _ in range(2))
            number = pick.choice(POWERS) if word == "**" else pick.choice([-3, 2, round(pick.uniform(0.3, 3.0), 2)])
            sides: list[Any] = [first, second]
            if word in OPERATORS and (word == "**" or pick.random() < 0.4):
                sides[1 if word == "**" else pick.randrange(2)] = ("number", number)
            x, y = (side[1] if isinstance(side, tuple) else values[side] for side in sides)
            if not fits(word, x, y):
                continue
            operands = sides if word in OPERATORS else sides[:1]
            value = OPERATORS[word](x, y) if word in OPERATORS else METHODS[word](x) if word in METHODS else -x
            if abs(value) < 20:
                lines.append((word, *operands))
                values.append(value)
        lines += [("backward", wanted - 1), ("backward", pick.randrange(3, wanted))][: pick.randint(1, 2)]
        if max(map(abs, by_torch(tuple(lines)).values())) < MOST:
            found.append((tuple(lines),))
    return found


def one(text: str, **leaves: float) -> tuple[Program]:
    return (program(text, **leaves),)


KNOWN = "c = (a * b + a ** 2) * a"
SAME = ("a + 0", "0 + a", "a - 0", "a * 1", "1 * a", "a / 1", "a ** 1", "a.relu()")  # equal to a, and yet new Values
HALF = (("*", -1, ("number", 0.5)), ("+", -1, -1))  # two ways for each of these
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
    claims = {
        "data is what was computed and grad is 0 at first": [
            one("c = a + b; d = a - b; e = a * b; f = a / b; g = -a; h = a ** 3", a=2.0, b=-3.0),
            one("b = a.exp(); c = a.log(); d = a.tanh(); e = a.relu(); f = -a; g = f.relu(); h = f.tanh()", a=0.7),
        ],
        "each operator has its slopes": [
            *(one(f"c = a {word} b; c.backward()", a=2.0, b=-3.0) for word in ("+", "-", "*", "/")),
            one("b = -a; b.backward()", a=2.0),
        ],
        "numbers may stand on either side": [
            *(one(f"b = a {word} 3.0; b.backward()", a=2.0) for word in ("+", "-", "*", "/")),
            *(one(f"b = 3.0 {word} a; b.backward()", a=2.0) for word in ("+", "-", "*", "/")),
            one("b = 1 + a; c = 2 * b; d = c - 7; e = d / 2; f = 3 - e; g = 5 / f; g.backward()", a=2.0),
        ],
        "powers have their slopes": [
            *(one(f"b = a ** {power}; b.backward()", a=1.7) for power in (2, 3, -1, 0.5, -1.5, 1, 2.0)),
            *(one(f"b = a ** {power}; b.backward()", a=-1.7) for power in (2, 3, -1)),
        ],
        "functions have their slopes": [
            *(one(f"b = a.{word}(); b.backward()", a=0.7) for word in METHODS),
            *(one(f"b = a.{word}(); b.backward()", a=-0.7) for word in ("exp", "tanh", "relu")),
        ],
        "the uses of a Value are summed": [
            one("b = a + a; b.backward()", a=3.0),
            one("b = a * a; c = b * a; c.backward()", a=3.0),
            one("b = a - a; c = a / a; d = b + c; d.backward()", a=3.0),
            one(f"{KNOWN}; c.backward()", a=2.0, b=-3.0),
        ],
        "a Value hands on the sum of all its uses": [
            one("c = a * b; d = c + a; e = c * d; e.backward()", a=2.0, b=-3.0),
            one("c = a * b; d = c.tanh(); e = d * 2; f = e + c; g = f * d; h = g + c; h.backward()", a=0.6, b=0.7),
            one("c = a * b; d = -c; e = d + 1; f = e * d; g = f + c; h = c * g; h.backward()", a=0.6, b=0.7),
        ],
        "a second call adds the same again": [
            one(f"{KNOWN}; c.backward(); c.backward()", a=2.0, b=-3.0),
            one("b = a.exp(); c = b * b; c.backward(); c.backward(); c.backward()", a=0.5),
        ],
    }
    edges = {
        "a power of 0 has no slope": [
            *(one(f"b = a ** {power}; b.backward()", a=a) for power in ("0", "0.0") for a in (0.0, 1.7, -2.0)),
            *(one(f"b = a ** {power}; b.backward()", a=0.0) for power in (1, 2, 3)),
        ],
        "a Value of 0 has the slopes of any other": [
            *(one(f"c = a {word} b; c.backward()", a=0.0, b=3.0) for word in ("+", "-", "*", "/")),
            *(one(f"c = a {word} b; c.backward()", a=3.0, b=0.0) for word in ("+", "-", "*")),
        ],
        "tanh has a small slope far from 0": [one("b = a.tanh(); b.backward()", a=5.0)],
        "relu has no slope at 0": [one("b = a.relu(); b.backward()", a=0.0), one("b = a.relu(); b.backward()", a=-0.0)],
        "one may go back from any Value": [
            one("a.backward()", a=2.0),
            one("c = a * b; d = c * a; c.backward(); d.backward(); c.backward()", a=2.0, b=-3.0),
            one("c = a * b; d = c * a; d.backward(); c.backward(); b.backward()", a=2.0, b=-3.0),
        ],
        "one may go on computing after backward": [
            one("c = a * b; c.backward(); d = c * c + a; d.backward()", a=2.0, b=-3.0),
            one("c = a * b; c.backward(); c.backward(); d = c.tanh(); e = d + d; e.backward()", a=0.6, b=0.7),
        ],
        "Values that it was not made of keep their grad": [
            one("d = a * b; e = b * c; f = e.exp(); d.backward(); g = d + f", a=2.0, b=-3.0, c=0.5),
            one("c = a * b; d = c * a; e = c * b; d.backward()", a=2.0, b=-3.0),
            *(one(f"b = {same}; c = a * 3; c.backward()", a=2.0) for same in SAME),
        ],
        "whatever stands in a grad is added to": [
            one("b = a * a; c = b * a; c.backward(); a.grad = 0.0; b.grad = 5.0; c.grad = 7.0; c.backward()", a=2.0),
            one("b = a * a; a.grad = 4.0; b.grad = -1.0; b.backward()", a=3.0),
        ],
        "chains of 50,000 operations work": [
            ((("leaf", 0.5), ("leaf", 1.0), ("again", 2500, CHAIN + JOINED), ("backward", -1)),),
        ],
        "any program": drawn,
    }
    refused = {"a Value as a power is a TypeError": [one("c = a ** b", a=2.0, b=3.0), one("b = a ** a", a=2.0)]}
    oracle = staticmethod(by_torch)

    def answer(self, attempt: Attempt, args: tuple, kwargs: dict) -> Any:
        """`data` and `grad` by the name of the object."""
        try:
            reply = attempt.ask_of([getattr(attempt, self.name)], self.request(args[0]))
        except Fault as fault:
            fault.failure.inputs.append(written(args[0]))
            raise
        names = [name_of(number) for number in told_of(args[0])]
        parts = {part: dict(zip(names, reply[part], strict=False)) for part in ("data", "grad")}
        return {f"{name}.{part}": each for part, found in parts.items() for name, each in found.items()}

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

    def refuses(self, attempt: Attempt, claim: str, call: tuple) -> None:
        assert_raises(lambda: self.answer(attempt, call, {}), sentence=claim, error="TypeError")

    @core
    def test_uses_only_python_and_no_torch(self, attempt: Attempt) -> None:
        every = one(
            "c = a * b + 1; d = 2 - c; e = d / a; f = 1 / e; g = f ** 2 - b; h = -g; i = h.tanh(); j = i.exp();"
            "k = j.log(); l = k.relu(); m = l + 3; n = 2 * m; n.backward(); n.backward()",
            a=0.6,
            b=0.7,
        )
        asked = {"do": "observe", "inner": [self.request(*every)], "watched": []}
        Ban(".").judge(attempt.ask_of([], asked)["readings"], attempt.parts)

    @fast
    def test_time_grows_with_values_and_not_with_ways(self, attempt: Attempt) -> None:
        self.agrees(
            attempt,
            "time grows with the number of Values, and not with the ways through the graph",
            ((("leaf", 0.5), ("again", 200, HALF), ("backward", -1)),),
        )
