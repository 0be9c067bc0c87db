# %% [markdown]
# # Tensor parallel SwiGLU
#
# $$y = \sum_r W_2^{(r)} \big( \mathrm{silu}(W_1^{(r)} x) \odot W_3^{(r)} x \big)$$
#
# A feed-forward layer split over ranks, in Megatron's way. Every rank gets the same $x$ and returns the same $y$.
#
# **Write** `TensorParallelSwiGLU(d_model, d_ff, group, *, device=None, dtype=None)` with `forward(x)`, from
# `(..., d_model)` to the same shape. Each rank holds `d_ff / size` consecutive rows of `w1.weight` and `w3.weight`, and
# the same columns of `w2.weight`, of `nn.Linear`s without biases; rank 0 the first. The gradient of $x$ is the whole
# one on every rank, those of weights are slices.
#
# `group.all_reduce(x)` returns the sum over ranks. Autograd does not pass it, and all ranks must make the same calls.
#
# **Example.** With `d_ff` 8 on 4 ranks each holds 2 rows of `w1`, and $y$ is the sum of four partial results of `w2`.
#
# **Builds on** swiglu. **Sources:** Shoeybi et al. 2019: Megatron-LM, training multi-billion parameter language models,
# [arXiv:1909.08053](https://arxiv.org/abs/1909.08053).
#
# House rules hold: docs/house_rules.md.

# %% [markdown] tags=["contract"]
# <details><summary>Contract: Communication, Gradients, Half precision, Errors</summary>
#
# - **Communication.** One all-reduce of the size of $x$ in the forward, after `w2`, and one in the backward, before
#   the gradient of $x$ leaves. Nothing else; without autograd only the first.
# - **Gradients.** The upstream gradient is the same on every rank. So the forward's sum passes it on unchanged: summed
#   again, it would be `size` times too large.
# - **Half precision.** Partial results, and partial gradients, may be summed in the dtype of $x$.
# - **Errors.** `d_ff` no multiple of `group.size`.
#
# </details>

# %%
from typing import Any, Protocol

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn


# %%
class Group(Protocol):
    """What a rank knows of the others."""

    rank: int
    size: int

    def all_reduce(self, x: Tensor) -> Tensor:
        """The sum over ranks, once all have made this call; x stays as it is, and autograd does not pass."""


# %%
class TensorParallelSwiGLU(nn.Module):
    """One rank's part of a SwiGLU whose width is split over the ranks of a group.

    Raises:
        ValueError: d_ff is no multiple of the number of ranks.
    """

    def __init__(self, d_model: int, d_ff: int, group: Group, *, device=None, dtype=None):
        super().__init__()
        raise NotImplementedError

    def forward(self, x: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch d_model"]:
        """w2(silu(w1 x) ⊙ w3 x) of the undivided layer, the same on every rank."""
        raise NotImplementedError


# %% tags=["active-ipynb"]
# import sys
#
# sys.path.append("../..")  # the project
# from dojo import check
#
# check("tensor_parallel")
