"""A failing call as a script of its own: literal tensors, the attempt from its file, what came and what must come."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dojo.content import files
from dojo.verdict.screen.text import clean

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import Tensor

MOST = 100_000  # numbers that a script may hold: an editor must open it

HEAD = """# The failing call by itself: python {file}
import sys
from importlib.util import module_from_spec, spec_from_file_location
from math import inf, nan  # noqa: F401

import torch
from torch import tensor

sys.path[:0] = {folders}
spec = spec_from_file_location("attempt", {attempt!r})
attempt = sys.modules["attempt"] = module_from_spec(spec)
spec.loader.exec_module(attempt)
"""


@dataclass
class FailingCall:
    """What was called when a check failed: a function, or a module that was built and given parameters."""

    name: str
    built: tuple[tuple[Any, ...], dict[str, Any]] | None  # the constructor's arguments; None for a function
    params: dict[str, Tensor]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    names: tuple[str, ...]  # of the arguments that go by position
    training: bool = False  # a module is called as in training, with the buffers of a new one
    part: str = ""  # of several results the one that fails, as an index
    gradient_of: str = ""  # what fails is the gradient of this input or parameter, pulled back from the cotangents
    cotangents: dict[str, Tensor] = field(default_factory=dict)  # by the index of the result
    expected: Tensor | None = None
    in_numpy: bool = False  # arrays go in where a tensor stands, and come back

    def tell(self, place: str, results: tuple[str, ...], cotangents: Mapping[str, Tensor]) -> None:
        """Take in what fails, a result or `gradient of NAME`, and the cotangents, both by the names of the results."""

        def index(path: str) -> str:
            name, bracket, rest = path.partition("[")
            return f"[{results.index(name)}]{bracket}{rest}" if name in results else ""

        self.part = index(place)
        if place.startswith("gradient of ") and cotangents:
            self.gradient_of = place.removeprefix("gradient of ")
            self.cotangents = {index(name): each for name, each in cotangents.items()}

    def script(self, *notes: str) -> str:
        """What the script does once it has imported the attempt, behind what is told of the failure.

        Raises:
            ValueError: its tensors hold more than MOST numbers.
        """
        if (count := sum(_numbers(v) for v in (*self.args, *self.kwargs.values(), *self.params.values()))) > MOST:
            raise ValueError(f"the failing call has {count} numbers, more than the {MOST} that a script may hold")
        # An exception's text may hold anything, even the end of a docstring.
        lines = ["", *(f"# {line}" for text in notes for line in clean(text))]
        given = [*zip(self.names, self.args, strict=True), *self.kwargs.items()]
        arrays = {name for name, value in given if self.in_numpy and hasattr(value, "numel")}
        lines += [f"{name} = {literal(value)}{'.numpy()' * (name in arrays)}" for name, value in given]
        call = ", ".join([*self.names, *(f"{name}={name}" for name in self.kwargs)])
        callee = f"attempt.{self.name}"
        if self.built is not None:
            args, kwargs = self.built
            words = ", ".join([*map(literal, args), *(f"{k}={literal(v)}" for k, v in kwargs.items())])
            lines += [f"module = {callee}({words}).{'train' if self.training else 'eval'}()"]
            if self.params:
                dtype = next(iter(self.params.values())).dtype
                lines += [f"module.to({dtype})", "module.load_state_dict({"]
                lines += [f"    {name!r}: {literal(value)}," for name, value in self.params.items()]
                lines += ["}, strict=False)" if self.training else "})"]
            callee = "module"
        lines += self._compared(f"{callee}({call})")
        return "\n".join(lines) + "\n"

    def _compared(self, call: str) -> list[str]:
        lines = [f"got = torch.as_tensor({call}{self.part})" if self.in_numpy else f"got = {call}{self.part}"]
        if self.gradient_of:
            held = self.gradient_of in self.params
            source = f"dict(module.named_parameters())[{self.gradient_of!r}]" if held else self.gradient_of
            lines = [f"source = {source}", "source.requires_grad_()", *lines]
            total = " + ".join(f"(got{part} * {literal(each)}).sum()" for part, each in self.cotangents.items())
            lines += [f"(got,) = torch.autograd.grad({total}, source)  # of {self.gradient_of}"]
        lines += ['print("got", got, sep="\\n")']
        if self.expected is not None:
            lines += [f"expected = {literal(self.expected)}", 'print("expected", expected, sep="\\n")']
            lines += ['print("largest difference", (got.double() - expected.double()).abs().max().item())']
        return lines


def literal(value: Any) -> str:
    """A value as Python writes it; a tensor with its dtype, and its shape where a list cannot hold that."""
    if isinstance(value, (tuple, list)):
        parts = ", ".join(map(literal, value))
        return f"[{parts}]" if isinstance(value, list) else f"({parts}{',' * (len(value) == 1)})"
    if not hasattr(value, "numel"):
        return repr(value)
    whole = f"tensor({value.tolist()}, dtype={value.dtype})"
    return whole if value.numel() else f"torch.zeros({tuple(value.shape)}, dtype={value.dtype})"


def _numbers(value: Any) -> int:
    """How many numbers the tensors of an argument hold."""
    if isinstance(value, (tuple, list)):
        return sum(map(_numbers, value))
    return int(value.numel()) if hasattr(value, "numel") else 0


def write(path: Path, script: str, attempt: Path, root: Path) -> None:
    """Write the script, behind what imports the attempt."""
    folders = [str(attempt.resolve().parent), str(root / "katas"), str(root)]
    head = HEAD.format(file=path.name, folders=folders, attempt=str(attempt.resolve()))
    files.write_atomic(path, head + script)
