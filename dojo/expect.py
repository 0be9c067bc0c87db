"""The vocabulary that graders are written in: what a call is, what is expected of it, and how a failure reads.

`dojo.contract` builds the house rules out of these words.
"""

from __future__ import annotations

import ast
import math
import random
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn

import torch
from torch import Tensor

from dojo import rule
from dojo.explain import explain
from dojo.judge.faults import Fault, Forbidden, Raised
from dojo.judge.proxy import Attempt, Callee, Module
from dojo.verdict import Label, Outcome, Section


class Wrong(Fault):
    """An answer that is not what the contract asks for. `got` and `allowed` let it be compared with a known bug's."""

    def __init__(
        self,
        sentence: str,
        *sections: Section,
        got: Any = None,
        expected: Tensor | None = None,
        allowed: Tensor | None = None,
        axes: tuple[str, ...] = (),
        excess: float = 0.0,
        where: str = "",
    ) -> None:
        super().__init__(Outcome.WRONG, Section(Label.CONTRACT, sentence), *sections)
        self.sentence, self.got, self.expected, self.allowed = sentence, got, expected, allowed
        self.axes, self.where = axes, where
        self.excess = excess  # the largest error in units of the allowed error, 0 where none was measured


def fail(sentence: str, *facts: str) -> NoReturn:
    """End the check: the contract's sentence, then what was seen instead."""
    raise Wrong(sentence, *(Section(Label.FACTS, fact) for fact in facts))


class Draw:
    """Random inputs of one check; the same seed draws the same."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.generator = torch.Generator().manual_seed(seed)

    def normal(self, *shape: int, scale: float = 1.0) -> Tensor:
        """Float32 normal of this standard deviation."""
        return torch.randn(shape, generator=self.generator) * scale

    def uniform(self, *shape: int, low: float = 0.0, high: float = 1.0) -> Tensor:
        """Float32 uniform in [low, high)."""
        return torch.rand(shape, generator=self.generator) * (high - low) + low

    def integers(self, low: int, high: int, *shape: int, dtype: torch.dtype = torch.int64) -> Tensor:
        """Integers in [low, high)."""
        return torch.randint(low, high, shape, generator=self.generator, dtype=dtype)

    def positions(self, high: int, *shape: int) -> Tensor:
        """Distinct, unsorted integers in [0, high) along the last axis."""
        *leading, seq = shape
        rows = [torch.randperm(high, generator=self.generator)[:seq] for _ in range(max(1, _product(leading)))]
        return torch.stack(rows).reshape(shape)

    def random(self) -> random.Random:
        """A source of plain random choices."""
        return random.Random(self.seed)

    def mask(self, *shape: int, share: float = 0.6) -> Tensor:
        """True with this probability; some row of every mask of more than one row attends to nothing."""
        mask = torch.rand(shape, generator=self.generator) < share
        mask[..., -1] |= ~mask.any(-1)
        if mask.dim() > 1 and mask.shape[-2] > 1:
            mask[..., 1, :] = False
        return mask


@dataclass(frozen=True)
class Call:
    """One use of a callable: constructor arguments, parameters by name, and inputs by name in their order."""

    inputs: dict[str, Any]
    init: dict[str, Any] = field(default_factory=dict)
    params: dict[str, Tensor] = field(default_factory=dict)

    def cast(self, dtype: torch.dtype) -> Call:
        """The same call with all floating tensors rounded to `dtype`."""
        return replace(self, inputs=rule.cast(self.inputs, dtype), params=rule.cast(self.params, dtype))

    def with_inputs(self, **inputs: Any) -> Call:
        """The same call with some inputs replaced."""
        return replace(self, inputs=self.inputs | inputs)

    def describe(self, axes: dict[str, str], device: str) -> str:
        """The input in words: constructor arguments, then each tensor with its axes by name."""
        parts = [f"{k}={v}" for k, v in self.init.items()]
        for name, value in self.inputs.items():
            if isinstance(value, Tensor):
                value = f"({named_shape(value, axes.get(name, ''))}) {str(value.dtype).removeprefix('torch.')}"
                parts.append(f"{name} {value}")
            elif value is not None:
                parts.append(f"{name}={value}")
        return ", ".join(parts) + ("" if device == "cpu" else f", on {device}")


def axis_names(count: int, names: str) -> tuple[str, ...]:
    """`count` names for the axes of a tensor: the last ones of `names`, with batch axes before them."""
    known = tuple(names.split())[-count:] if count else ()
    return tuple(f"batch axis {i}" for i in range(count - len(known))) + known


def named_shape(tensor: Tensor, names: str) -> str:
    """`batch 2, seq 5, dim 8`."""
    return ", ".join(f"{n} {s}" for n, s in zip(axis_names(tensor.dim(), names), tensor.shape, strict=True)) or "scalar"


def tensor(value: Any, device: str = "cpu") -> Tensor:
    """`value`, once it is sure to be a tensor with data on this device.

    Raises:
        Wrong: it is none.
    """
    if not isinstance(value, Tensor):
        fail("the result is a tensor", f"got a {type(value).__name__}, not a torch.Tensor")
    if value.device.type != torch.device(device).type:
        fail("the result is on the device of the input", f"got it on {value.device}, expected it on {device}")
    return value


def match(got: Any, expected: Tensor, allowed: Tensor | None, sentence: str, axes: str, *context: Section) -> float:
    """Compare a tensor with the oracle's; returns the largest error in units of the allowed error.

    `allowed=None` asks for equality. The dtype is the caller's to check.

    Raises:
        Wrong: with facts, elements, pattern and map.
    """
    got = tensor(got)
    exact = allowed is None
    allowed = torch.zeros(expected.shape, dtype=torch.float64) if exact else allowed
    worst = 0.0
    if got.shape == expected.shape and got.is_complex() == expected.is_complex():
        used = rule.usage(got, expected, allowed) if not got.is_complex() else (got != expected).double() * torch.inf
        worst = float(used.max()) if used.numel() else 0.0
        if worst <= 1:
            return worst
    names = axis_names(expected.dim(), axes)
    sections = explain(got, expected, allowed, names)
    raise Wrong(sentence, *context, *sections, got=got, expected=expected, allowed=allowed, axes=names, excess=worst)


def refuses(call: Callable[[], Any], *values: Any, sentence: str, error: str = "ValueError") -> None:
    """The call raises this error, or one derived from it, whose text holds each of `values`; of a tuple, one."""

    def held(value: Any, text: str) -> bool:
        return re.search(rf"(?<!\w)(?<!\d\.){re.escape(str(value))}(?!\w)", text) is not None

    try:
        call()
    except Raised as raised:
        if error not in raised.bases:
            fail(sentence, f"it raised {raised.kind}: {raised.text}", f"expected {error}")
        choices = [value if isinstance(value, tuple) else (value,) for value in values]
        missing = [" or ".join(map(str, each)) for each in choices if not any(held(v, raised.text) for v in each)]
        if missing:
            said = f"the message does not hold {' or '.join(missing)}: {raised.text!r}"
            fail(f"{sentence} whose message holds the offending values", said)
        return
    fail(sentence, "nothing was raised")


def parameters_are(module: Module, expected: dict[str, tuple[int, ...]]) -> None:
    """The module holds exactly these parameters, by name and shape, all of them trainable."""
    outline_holds(expected, module.outline())


def outline_holds(expected: dict[str, tuple[int, ...]], found: dict) -> None:
    """The same of a module's outline."""
    got = {name: tuple(shape) for name, shape in found["shapes"].items()}
    facts = [f"missing: {n} {s}" for n, s in expected.items() if n not in got]
    facts += [f"not in the contract: {n} {s}" for n, s in got.items() if n not in expected]
    facts += [f"{n}: got {got[n]}, expected {s}" for n, s in expected.items() if n in got and got[n] != s]
    facts += [f"not trainable: {n}" for n in got if n in expected and n not in found["trainable"]]
    if facts:
        fail("the module holds exactly the parameters that the contract names", *facts)


def drawn_from_normal(make: Callee, sizes: tuple[int, int], std: float, bound: float, sentence: str) -> None:
    """The weight of the module that `make(*sizes)` builds is drawn from a normal, truncated at ± `bound`, each anew.

    Kolmogorov's test, which rejects right values once in 10⁹ draws: https://en.wikipedia.org/wiki/Kolmogorov–Smirnov_test
    """
    drawn = []
    for watch in (True, False):  # watching starts from a seeded generator, so that every run draws the same
        with torch.no_grad():
            module = make.request(sizes, {}, watch=watch)["value"]
        drawn.append(module.describe()["parameters"].get("weight") if isinstance(module, Module) else None)
        if drawn[-1] is None or drawn[-1].numel() != sizes[0] * sizes[1]:
            fail("the module holds a parameter `weight` of the shape that the contract names")
    if torch.equal(*drawn):
        fail(sentence, "two modules have the same weights: they are not drawn at random")
    found = drawn[0].detach().double().cpu().flatten().sort().values
    count, (lowest, highest) = found.numel(), torch.special.ndtr(torch.tensor([-bound, bound]).double() / std)
    below = (torch.special.ndtr(found / std) - lowest) / (highest - lowest)
    ranks = torch.arange(count + 1) / count
    gap = float(torch.maximum((ranks[1:] - below).abs(), (below - ranks[:-1]).abs()).max())
    seen = f"standard deviation {found.std():.3g}, from {found[0]:.3g} to {found[-1]:.3g}"
    inside = found.isfinite().all() and found.abs().max() <= bound * (1 + 1e-6)
    piled = int((found.abs() >= bound * (1 - 1e-6)).sum())  # clamped is not truncated: it leaves a share at the ends
    full = math.isinf(bound) or min(-found[0], found[-1]) > 0.95 * bound  # some of 60,000 draws come near both ends
    if not inside or not full or gap > 3.3 / count**0.5:
        fail(sentence, f"{count} values have {seen}", f"expected standard deviation {std:.3g}, within ±{bound:.3g}")
    if piled > 8:
        fail(sentence, f"{piled} of {count} values are at ±{bound:.3g}: values beyond are drawn anew, not clamped")


@dataclass(frozen=True)
class Ban:
    """What an attempt may not use: operations by regular expression, Python functions and modules by dotted name."""

    operations: str
    functions: tuple[str, ...] = ()

    def judge(self, reading: dict, parts: dict[str, str]) -> None:
        """Raise `Forbidden` if a meter reading shows something banned, naming the line where the source shows it."""
        pattern = re.compile(self.operations) if self.operations else None
        ran = {*reading["profiled"], *(n if "::" in n else f"aten::{n}" for n in reading["operations"])}
        # What the attempt itself calls softmax, a scripted function or an operation of its own, is not torch's.
        used = sorted(name for name in ran if pattern and pattern.search(name) and name.split("::")[0] in NAMESPACES)
        used = sorted(reading["entered"]) or used
        if reading["foreign"]:
            raise Forbidden(f"the computation must stay in PyTorch: it was handed a {reading['foreign'][0]}")
        if used:
            name = min(used, key=lambda n: (n.startswith("aten::_"), len(n)))
            shown = Section(Label.FACTS, f"all that ran of it: {', '.join(used)}")
            lines = source_lines(parts, {n.rpartition(":")[2].rpartition(".")[2].strip("_") for n in used})
            places = [Section(Label.TRACEBACK, lines)] if lines else []
            raise Forbidden(f"`{name}` is not allowed: it does the work of this kata", shown, *places)


def operation_count(reading: dict) -> int:
    """How many operations ran, in whichever thread; the profiler counts those within others besides.

    Raises Wrong when there were none: what needs no operation was not computed.
    """
    count = max(sum(reading["operations"].values()), sum(reading["profiled"].values()))
    if count == 0:
        fail("the result is computed by PyTorch's operations", "not one was seen")
    return count


def steady(axis: str, sizes: tuple[int, int], counts: list[int], where: str = "") -> None:
    """The number of operations is the same at both sizes.

    A few more or less are a matter of shapes; one more for each further element is a loop.
    """
    if counts[1] - counts[0] >= sizes[1] - sizes[0]:
        sentence = f"the number of tensor operations{where} does not grow with {axis}"
        seen = f"{counts[0]} operations with {axis} {sizes[0]}, {counts[1]} with {axis} {sizes[1]}"
        raise Fault(Outcome.SLOW, Section(Label.CONTRACT, sentence), Section(Label.FACTS, seen))


NAMESPACES = frozenset(name.split("::")[0] for name in torch._C._dispatch_get_all_op_names())
NOTHING_BANNED = Ban("")


def source_lines(parts: dict[str, str], names: Iterable[str]) -> str:
    """The lines that mention one of these names as a name or attribute, each part of the source by its label."""
    wanted = set(names)
    found = [f"{label}line {n}: {line}" for label, source in parts.items() for n, line in _mentions(source, wanted)]
    return "\n".join(found[:5])


def _mentions(source: str, wanted: set[str]) -> list[tuple[int, str]]:
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    numbers = {
        node.lineno
        for node in ast.walk(tree)
        if (isinstance(node, ast.Attribute) and node.attr.strip("_") in wanted)
        or (isinstance(node, ast.Name) and node.id.strip("_") in wanted)
    }
    lines = source.splitlines()
    return [(n, lines[n - 1].strip()) for n in sorted(numbers)]


def build(attempt: Attempt, name: str, call: Call, **keywords: Any) -> Callee:
    """The callable under test: the function itself, or a module built with the call's constructor arguments."""
    target = getattr(attempt, name)
    return target.build(**call.init, **keywords) if call.init or call.params else target


def _product(numbers: Iterable[int]) -> int:
    total = 1
    for number in numbers:
        total *= number
    return total
