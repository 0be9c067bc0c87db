"""Names for the axes of a tensor, in the vocabulary of the signatures: batch, heads, seq, dim."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


def axis_names(count: int, names: Sequence[str]) -> tuple[str, ...]:
    """`count` distinct names for the axes of a tensor: the last ones of `names`, with numbered batch axes before them.

    A name with a star takes up what is left, as in jaxtyping.
    """
    found = list(names)
    star = next((i for i, name in enumerate(found) if name.startswith(("*", "..."))), None)
    if star is not None:
        stem, room = found[star].strip("*.") or "batch", count - len(found) + 1
        found[star : star + 1] = [stem] if room == 1 else [f"{stem} axis {i}" for i in range(room)]
    found = [f"batch axis {i}" for i in range(count - len(found))] + found[max(0, len(found) - count) :]
    return tuple(name + "'" * found[:i].count(name) for i, name in enumerate(found))


def named_shape(tensor: Tensor, names: str) -> str:
    """The shape of a tensor in words: `batch 2, seq 5, dim 8`."""
    known = axis_names(tensor.dim(), names.split())
    return ", ".join(f"{name} {size}" for name, size in zip(known, tensor.shape, strict=True)) or "scalar"
