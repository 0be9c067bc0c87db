# ---
# jupyter:
#   dojo:
#     title: Tensor parallel SwiGLU
#     level: 4
#     minutes: 30
#     builds_on: [swiglu]
#     sources:
#       - "Shoeybi et al. 2019: Megatron-LM, training multi-billion parameter language models, arXiv:1909.08053"
# ---

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

# %% [markdown] tags=["contract"]
# - **Communication.** One all-reduce of the size of $x$ in the forward, after `w2`, and one in the backward, before
#   the gradient of $x$ leaves. Nothing else; without autograd only the first.
# - **Gradients.** The upstream gradient is the same on every rank. So the forward's sum passes it on unchanged: summed
#   again, it would be `size` times too large.
# - **Half precision.** Partial results, and partial gradients, may be summed in the dtype of $x$.
# - **Errors.** `d_ff` no multiple of `group.size`.

# %% [markdown] tags=["hint"]
# Silu needs whole entries of $W_1 x$. How must $W_1$ be cut for that, and how must $W_2$ then be cut?

# %% [markdown] tags=["hint"]
# Every rank uses all of $x$ for a part of the result. What is the gradient of a tensor that is used in several places?
# Two functions with a backward of their own: each sums in one direction and does nothing in the other.

# %% [markdown] tags=["hint"]
# `class CopyToRanks(torch.autograd.Function)`: `forward(ctx, x, group)` keeps `ctx.group = group` and gives
# `x.view_as(x)`; `backward(ctx, grad)` gives `ctx.group.all_reduce(grad), None`. Its mirror image goes after `w2`.

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
### BEGIN SOLUTION
class CopyToRanks(torch.autograd.Function):
    """x, which every rank uses: its gradient is the sum of what they all find. Megatron's f."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, group: Group) -> Tensor:
        ctx.group = group
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return ctx.group.all_reduce(grad), None


class SumOverRanks(torch.autograd.Function):
    """The sum of partial results: the gradient of each is that of the sum, which all ranks have. Megatron's g."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, group: Group) -> Tensor:
        return group.all_reduce(x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return grad, None


### END SOLUTION


# %%
class TensorParallelSwiGLU(nn.Module):
    """One rank's part of a SwiGLU whose width is split over the ranks of a group.

    Raises:
        ValueError: d_ff is no multiple of the number of ranks.
    """

    def __init__(self, d_model: int, d_ff: int, group: Group, *, device=None, dtype=None):
        super().__init__()
        ### BEGIN SOLUTION
        if d_ff % group.size:
            raise ValueError(f"d_ff {d_ff} is no multiple of the {group.size} ranks")
        self.group = group
        own = d_ff // group.size
        self.w1 = nn.Linear(d_model, own, bias=False, device=device, dtype=dtype)
        self.w2 = nn.Linear(own, d_model, bias=False, device=device, dtype=dtype)
        self.w3 = nn.Linear(d_model, own, bias=False, device=device, dtype=dtype)
        ### END SOLUTION

    def forward(self, x: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch d_model"]:
        """w2(silu(w1 x) ⊙ w3 x) of the undivided layer, the same on every rank."""
        ### BEGIN SOLUTION
        x = CopyToRanks.apply(x, self.group)
        partial = self.w2(F.silu(self.w1(x)) * self.w3(x))
        return SumOverRanks.apply(partial, self.group)
        ### END SOLUTION


# %% [markdown] tags=["solution"]
# ## Why it is done this way
#
# **Rows, then columns.** A rank with whole rows of $W_1$ and $W_3$ has whole entries of the hidden vector, so silu and
# the gate need nobody else, and the same columns of $W_2$ turn them into a partial result. The other way round, $W_1 x$
# itself would be a sum over ranks, with an all-reduce of the wider tensor before silu.
#
# **Two functions.** Copying $x$ to all ranks and summing their results are each other's transpose: the backward of a
# copy is a sum, the backward of a sum is a copy. Were the forward's sum summed again in the backward, copies of one
# upstream gradient would add up, and all gradients would be `size` times too large.
#
# **What it costs.** Two all-reduces a layer and step, of `tokens · d_model` numbers each. For 4,096 tokens of width
# 8,192 in bfloat16 one has 67 MB; on 8 ranks each sends 117 MB, 0.26 ms at NVLink's 450 GB/s. A rank's share of the
# forward, `6 · tokens · d_model · d_ff / 8` FLOPs, takes 0.73 ms on an H100 at `d_ff` 28,672, and the all-reduce waits
# for it: a quarter of the time nothing is computed.
#
# ## The other formulation: sequence parallelism
#
# An all-reduce is a reduce-scatter and an all-gather. With the gather moved after the next norm the residual stream
# and the norms are split by tokens in between: the same bytes, and activations that are `size` times smaller.
#
# ## The usual mistakes
#
# - No sum in the backward: `w1` and `w3` here learn rightly, and every layer below gets a part of its gradient.
# - A sum of the gradient in each of the two branches: right, and twice the communication.
# - A merged `(2 · d_ff, d_model)` cut in the middle: one rank gets all gates, another all values.
# - A bias of `w2` added on every rank before the sum.
# - All ranks seeded alike: their slices start out as copies of each other.

# %% [markdown] tags=["solution", "questions"]
# ## What interviewers ask next
#
# ### Why are `w1` and `w3` cut by rows and `w2` by columns?
#
# - Silu is not linear: it needs whole entries of $W_1 x$, which whole rows give.
# - The slices of the hidden vector are just what the columns of $W_2$ take, so one sum at the end is enough.
#
# Source: Shoeybi et al. 2019, section 3, arXiv:1909.08053.
#
# ### How many MB does each of `ranks` ranks send in one ring all-reduce of `tokens` tokens of width 8,192 in bfloat16?
#
# - The tensor has $2 \cdot 8192$ bytes a token, of which a ring sends $2\,(R - 1) / R$.
# - It hardly depends on the number of ranks, while the work of each shrinks: the share of communication grows.
#
# Answer: `4 * (ranks - 1) / ranks * tokens * 8192 / 1e6` MB, within 5 %. Settings: `ranks` 2, 8; `tokens` 2048, 8192.
#
# Source: Shoeybi et al. 2019, section 3, arXiv:1909.08053.
#
# ### How many all-reduces are in a step of `layers` transformer layers over `micro` microbatches?
#
# - Attention is cut by heads and has one after its output projection, as the feed-forward layer has after `w2`.
# - So two a layer in the forward, two in the backward. Recomputing the forward adds two.
#
# Answer: `4 * layers * micro` all-reduces, within 1 %. Settings: `layers` 32, 80; `micro` 1, 8.
#
# Source: Shoeybi et al. 2019, section 3, arXiv:1909.08053.
#
# ### Why are there rarely more than 8 ranks?
#
# - The all-reduces lie on the critical path. NVLink has 450 GB/s each way, the network between nodes about 50.
# - Matrices become too narrow to fill tensor cores.
# - Beyond a node pipeline and data parallelism talk less often, and overlap with the work.
#
# Source: Narayanan et al. 2021, section 3, arXiv:2104.04473.
