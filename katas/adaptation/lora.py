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
# Its parameters are `weight` `(out_features, in_features)`, which is frozen: `requires_grad` is False; `lora_a`
# `(rank, in_features)`; and `lora_b` `(out_features, rank)`. No bias.
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

# %% [markdown] tags=["contract"]
# <details><summary>Contract: Start, Merging, The weight, Cost, Half precision, Errors</summary>
#
# - **Start.** `lora_a` starts at random with mean 0 and a standard deviation of 0.001 to 0.5, such as uniform in
#   $\pm 1 / \sqrt{\text{in\_features}}$; `lora_b` with zeros: a new layer gives exactly $W x$.
# - **Merging.** `merge()` adds $\frac{\alpha}{r} B A$ to `weight`, and `forward` then uses the weight alone.
#   `unmerge()` takes it off again. To merge what is merged, or unmerge what is not, does nothing.
# - **The weight.** It stays the same `nn.Parameter` of the same dtype, and frozen. Its `.data` may be
#   rebound, as `peft` does.
# - **Cost.** `forward` makes no tensor of `out_features * in_features` entries: $B A$ is not multiplied out.
# - **Half precision.** Each of the three products may be rounded, and the sum once more.
# - **Errors.** A rank below 1, at construction.
#
# </details>

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
import torch.nn.functional as F
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

    @torch.no_grad()
    def merge(self) -> None:
        """Add the adapter to the weight, in place, unless that is done."""
        raise NotImplementedError

    @torch.no_grad()
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
