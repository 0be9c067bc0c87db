"""What an attempt may use, and how many operations it may take."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch

from dojo.contracts.checks.assertions import fail, too_much
from dojo.verdict.failures import Forbidden

RECOUNTS = 5
NAMESPACES = frozenset(name.split("::")[0] for name in torch._C._dispatch_get_all_op_names()) | {"autograd"}


@dataclass(frozen=True)
class Ban:
    """What an attempt may not use: operations by regular expression, Python functions and modules by dotted name.

    Nor may it leave PyTorch: but for what it does once, when it is built.
    """

    operations: str
    functions: tuple[str, ...] = ()

    def __or__(self, other: Ban) -> Ban:
        """What either of two bans."""
        return Ban("|".join(filter(None, (self.operations, other.operations))), self.functions + other.functions)

    def judge(self, reading: dict, parts: dict[str, str], once: bool = False) -> None:
        """Raise `Forbidden` if a reading shows something banned, naming the line where the source shows it."""
        pattern = re.compile(self.operations) if self.operations else None
        ran = {name.partition("::evaluate_function")[0] for name in reading["profiled"]}  # which autograd's engine adds
        ran |= {name if "::" in name else f"aten::{name}" for name in reading["operations"]}
        # What the attempt itself calls softmax, a scripted function or an operation of its own, is not torch's.
        used = sorted(name for name in ran if pattern and pattern.search(name) and name.split("::")[0] in NAMESPACES)
        used = sorted(reading["entered"]) or used
        if reading["foreign"] and not once:
            raise Forbidden(f"the computation on inputs stays in PyTorch: it was handed a {reading['foreign'][0]}")
        if used:
            name = min(used, key=lambda n: (n.startswith("aten::_"), len(n)))
            shown = f"all that ran of it: {', '.join(used)}"
            places = source_lines(parts, {n.rpartition(":")[2].rpartition(".")[2].strip("_") for n in used})
            lines = "\n".join(f"{label}line {number}: {text}" for label, number, text in places)
            line = next((number for label, number, _ in places[:1] if not label), 0)
            raise Forbidden(f"`{name}` is not allowed: it does the work of this kata", shown, lines=lines, line=line)


NOTHING_BANNED = Ban("")
# Autograd in any form: its engine, in whichever thread and by whatever name, and forward mode, which has none. It is
# for katas that take no gradients: where they are taken, it is the judge who runs the engine.
AUTOGRAD = Ban(
    r"^autograd::engine|_make_dual$",
    ("torch.autograd.grad", "torch.autograd.backward",
     *(f"torch.func.{name}" for name in "grad grad_and_value vjp jvp jacrev jacfwd hessian linearize".split())),
)  # fmt: skip


def operation_count(reading: dict) -> int:
    """How many operations ran, in whichever thread; the profiler counts those within others besides.

    Raises Wrong when there were none: what needs no operation was not computed.
    """
    count = max(sum(reading["operations"].values()), sum(reading["profiled"].values()))
    if count == 0:
        fail("the result is computed by PyTorch's operations", "not one was seen")
    return count


def assert_constant_op_count(
    axis: str,
    sizes: tuple[int, int],
    count: Callable[[int], int],
    where: str = "",
    what: str = "tensor operations",
) -> None:
    """The number of operations that `count(size)` sees is the same at both sizes.

    A few more or less are a matter of shapes; one more for each further element is a loop. Code that picks elements by
    a boolean mask takes fewer operations where none is picked: what grows is counted again, with other inputs of a
    size between the two, and only a loop grows from there on.
    """
    small, large = sizes
    before, after = count(small), count(large)
    if after - before >= large - small:
        small = (small + large) // 2
        before = max(count(small) for _ in range(RECOUNTS))
    if after - before >= large - small:
        sentence = f"the number of {what}{where} does not grow with {axis}"
        too_much(sentence, f"{before} {what.partition(' ')[2]} with {axis} {small}, {after} with {axis} {large}")


def source_lines(parts: dict[str, str], names: Iterable[str]) -> list[tuple[str, int, str]]:
    """The first lines that mention one of these names as a name or attribute: part of the source, number and text."""
    wanted = set(names)
    return [(label, *each) for label, source in parts.items() for each in _mentions(source, wanted)][:5]


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
