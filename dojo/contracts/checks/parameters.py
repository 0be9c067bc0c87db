"""What a module holds when it is built: names, shapes and first values of its parameters."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from functools import partial

import torch
from torch import Tensor

from dojo.contracts.checks.assertions import fail
from dojo.judge.protocol import Message
from dojo.judge.proxy import Callee, Module
from dojo.verdict.types import Kind


def parameters_are(
    module: Module, expected: dict[str, tuple[int, ...]], frozen: Collection[str] = (), buffers: Collection[str] = ()
) -> None:
    """The module holds exactly these parameters, by name and shape, all of them trainable but for the frozen ones.

    Of what is expected, `buffers` are no parameters; it may hold other buffers.
    """
    outline_holds(expected, frozen, buffers, module.outline())


def fits(
    params: dict[str, Tensor], frozen: Collection[str] = (), buffers: Collection[str] = ()
) -> Callable[[Message], None]:
    """A judge of a module's outline: it holds parameters, or buffers, of these names and shapes."""
    return partial(outline_holds, {name: tuple(value.shape) for name, value in params.items()}, frozen, buffers)


def outline_holds(
    expected: dict[str, tuple[int, ...]], frozen: Collection[str], buffers: Collection[str], found: Message
) -> None:
    """The same of a module's outline."""
    held = {name: shape for name, shape in found["buffers"].items() if name in expected and name in buffers}
    got = {name: tuple(shape) for name, shape in (held | found["shapes"]).items()}
    facts = [f"missing: {n} {s}" for n, s in expected.items() if n not in got]
    facts += [f"not in the contract: {n} {s}" for n, s in got.items() if n not in expected]
    facts += [f"{n}: got {got[n]}, expected {s}" for n, s in expected.items() if n in got and got[n] != s]
    trainable = set(found["trainable"])
    facts += [f"not trainable: {n}" for n in got if n in expected and n not in {*trainable, *frozen, *buffers}]
    facts += [f"trainable, though it is frozen: {n}" for n in frozen if n in trainable and n not in buffers]
    facts += [f"a parameter, though it is a buffer: {n}" for n in buffers if n in found["shapes"]]
    if facts:
        fail("the module holds exactly the parameters that the contract names", *facts, kind=Kind.PARAMETERS)


def same_shapes(wanted: dict[str, tuple[int, ...]], found: dict[str, tuple[int, ...]]) -> dict[str, str]:
    """What parameters are called that the contract calls otherwise, if their shapes leave no doubt; else nothing."""
    missing = {name: shape for name, shape in wanted.items() if name not in found}
    others = {name: tuple(shape) for name, shape in found.items() if name not in wanted}
    by_shape = {shape: name for name, shape in others.items()}
    if len(by_shape) < len(others) or sorted(missing.values()) != sorted(others.values()):
        return {}
    return {name: by_shape[shape] for name, shape in missing.items()}


def drawn_from_normal(make: Callee, sizes: tuple[int, int], std: float, bound: float, sentence: str) -> None:
    """The weight of the module that `make(*sizes)` builds is drawn from a normal, truncated at ± `bound`, each anew.

    Kolmogorov's test, which rejects right values once in 10⁹ draws: https://en.wikipedia.org/wiki/Kolmogorov–Smirnov_test
    """
    drawn: list[Tensor] = []
    for watch in (True, False):  # watching starts from a seeded generator, so that every run draws the same
        with torch.no_grad():
            module = make.request(sizes, {}, watch=watch)["value"]
        weight = module.describe()["parameters"].get("weight") if isinstance(module, Module) else None
        if weight is None or weight.numel() != sizes[0] * sizes[1]:
            fail("the module holds a parameter `weight` of the shape that the contract names")
        drawn.append(weight)
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
