# %% [markdown]
# # LoRA
#
# $$y = W x + \frac{\alpha}{r}\, B A x$$
#
# A large model is adapted to a task without touching its weights: $W$ stays as it was trained, and beside it two small
# matrices, $A$ and $B$, learn a change of rank $r$. Afterwards the change can be added to $W$, and the layer costs what
# it did before.
#
# **Write** `LoRALinear(in_features, out_features, rank, alpha=16.0, *, device=None, dtype=None)` with `forward(x)`,
# from `(..., in_features)` to `(..., out_features)`, and with the methods `merge()` and `unmerge()`.
#
# - **Parameters**, and no others: `weight` `(out_features, in_features)`, which takes no gradient
#   (`requires_grad` is False); `lora_a` `(rank, in_features)`; `lora_b` `(out_features, rank)`. No bias.
# - **`lora_a` starts** uniform in $\pm 1 / \sqrt{\text{in\_features}}$, and **`lora_b` starts** with zeros, so that a
#   new layer gives exactly $W x$.
# - **`forward(x)`** is the formula, with the factor `alpha / rank`. It makes no tensor of `out_features * in_features`
#   entries: $B A$ is never multiplied out.
# - **`merge()`** adds $\frac{\alpha}{r} B A$ to `weight`. From then on `forward` uses the weight alone.
# - **`unmerge()`** takes it off again: the weight is what it was, up to rounding, and `forward` is the formula.
# - **In place.** Both change the values of `weight`: it stays the same parameter, of its dtype, and frozen.
# - **Again.** Merging what is merged, or unmerging what is not, does nothing.
# - **Dtype and device.** The parameters have those that the constructor is given, and the result has the dtype of the
#   parameters. In half precision each of the three products may be rounded, and the sum once more. float64 in, float64
#   out; float32 accuracy is enough.
# - **Inputs are not modified**, and may be non-contiguous or expanded. Gradients flow to `x`, `lora_a` and `lora_b`. No
#   loops.
# - **A `ValueError`** that holds the rank: a rank below 1.
# - **Not graded:** how `weight` is initialised; changes of `lora_a` or `lora_b` while merged; an input of another dtype
#   than the parameters.
#
# Not allowed: an adapter library such as `peft`. `nn.Linear` and `F.linear` are allowed.
#
# **Example.** $W$ is the identity of size 2, $A = (1, 1)$, $B = (2, 0)^\top$, rank 1 and `alpha=0.5`. For $x = (1, 2)$
# the base gives $(1, 2)$, and $A x = 3$. The adapter adds $0.5 \cdot 3 \cdot (2, 0) = (3, 0)$: the result is $(4, 2)$.
# Merged, the weight is $((2, 1), (0, 1))$, and gives $(4, 2)$ too.
#
# **Builds on** linear. **Sources:** Hu et al. 2021: LoRA, low-rank adaptation of large language models,
# [arXiv:2106.09685](https://arxiv.org/abs/2106.09685).
#
# House rules hold: docs/house_rules.md.

# %% tags=["active-ipynb", "example"]
# # The example, in numbers
# import torch
#
# w, a, b = torch.eye(2), torch.tensor([[1.0, 1]]), torch.tensor([[2.0], [0]])
# x = torch.tensor([1.0, 2])
# print("base", w @ x, "adapter", 0.5 * (b @ (a @ x)), "together", w @ x + 0.5 * (b @ (a @ x)))
# print("merged weight", (w + 0.5 * b @ a).tolist())

# %%
import math

import torch
from jaxtyping import Float
from torch import Tensor, nn


# %%
class LoRALinear(nn.Module):
    """A frozen matrix and a trainable change of low rank beside it, which merge() adds to the matrix.

    Raises ValueError for a rank below 1. Hu et al. 2021, arXiv:2106.09685.
    """

    def __init__(self, in_features: int, out_features: int, rank: int, alpha: float = 16.0, *, device=None, dtype=None):
        raise NotImplementedError

    def forward(self, x: Float[Tensor, "*batch in_features"]) -> Float[Tensor, "*batch out_features"]:
        """The product with the weight, and unless it is merged what the adapter adds."""
        raise NotImplementedError

    def merge(self) -> None:
        """Add the adapter to the weight, in place, unless that is done."""
        raise NotImplementedError

    def unmerge(self) -> None:
        """Take the adapter off the weight, in place, if it is there."""
        raise NotImplementedError


# %% tags=["active-ipynb"]
# import sys
#
# sys.path.append("../..")  # the project
# from dojo import check
#
# check("lora")
