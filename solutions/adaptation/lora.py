# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
#   dojo:
#     title: LoRA
#     level: 2
#     minutes: 20
#     builds_on: [linear]
#     sources:
#       - "Hu et al. 2021: LoRA, low-rank adaptation of large language models, arXiv:2106.09685"
# ---

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

# %% tags=["active-ipynb", "example"]
# # The example, in numbers
# import torch
#
# w, a, b = torch.eye(2), torch.tensor([[1.0, 1]]), torch.tensor([[2.0], [0]])
# x = torch.tensor([1.0, 2])
# print("base", w @ x, "adapter", 0.5 * (b @ (a @ x)), "together", w @ x + 0.5 * (b @ (a @ x)))
# print("merged weight", (w + 0.5 * b @ a).tolist())

# %% [markdown] tags=["hint"]
# There are two ways to compute $B A x$: $(B A) x$ and $B (A x)$. Which of them never holds more than `rank` numbers for
# each vector in between?

# %% [markdown] tags=["hint"]
# `nn.Parameter(..., requires_grad=False)` freezes the weight, and it still stands in the state dict. A flag that is no
# parameter tells whether the layer is merged.

# %% [markdown] tags=["hint"]
# `x @ self.weight.T + self.scale * (x @ self.lora_a.T @ self.lora_b.T)`. Under `torch.no_grad()`,
# `self.weight.add_(...)` writes into the parameter that is there; a new `nn.Parameter` would be one that no optimiser
# and no other layer knows.

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
        ### BEGIN SOLUTION
        if rank < 1:
            raise ValueError(f"rank {rank} is below 1")
        super().__init__()
        self.scale, self.merged = alpha / rank, False
        weight = torch.empty(out_features, in_features, device=device, dtype=dtype)
        self.weight = nn.Parameter(weight, requires_grad=False)
        self.lora_a = nn.Parameter(torch.empty(rank, in_features, device=device, dtype=dtype))
        self.lora_b = nn.Parameter(torch.zeros(out_features, rank, device=device, dtype=dtype))
        bound = 1 / math.sqrt(in_features)
        nn.init.uniform_(self.weight, -bound, bound)
        nn.init.uniform_(self.lora_a, -bound, bound)
        ### END SOLUTION

    def forward(self, x: Float[Tensor, "*batch in_features"]) -> Float[Tensor, "*batch out_features"]:
        """The product with the weight, and unless it is merged what the adapter adds."""
        ### BEGIN SOLUTION
        base = x @ self.weight.T
        if self.merged:
            return base
        narrow = x @ self.lora_a.T
        adapter = self.scale * (narrow @ self.lora_b.T)
        return adapter + base
        ### END SOLUTION

    def merge(self) -> None:
        """Add the adapter to the weight, in place, unless that is done."""
        ### BEGIN SOLUTION
        if not self.merged:
            self.shift(self.scale)
            self.merged = True
        ### END SOLUTION

    def unmerge(self) -> None:
        """Take the adapter off the weight, in place, if it is there."""
        ### BEGIN SOLUTION
        if self.merged:
            self.shift(-self.scale)
            self.merged = False
        ### END SOLUTION

    ### BEGIN SOLUTION
    @torch.no_grad()
    def shift(self, factor: float) -> None:
        """Add this multiple of B A to the weight."""
        self.weight.add_(self.lora_b @ self.lora_a, alpha=factor)

    ### END SOLUTION


# %% [markdown] tags=["solution"]
# ## Why it is done this way
#
# **Why one matrix of zeros and one of noise.** With $B = 0$ the adapted model starts as the model that was trained. The
# gradient of $B$ is $\frac{\alpha}{r}\, g\,(A x)^\top$ and that of $A$ is $\frac{\alpha}{r}\, B^\top g\, x^\top$: with
# $A = 0$ as well both vanish, and nothing is ever learnt.
#
# **Why $\alpha / r$.** Each entry of $B A$ is a sum of $r$ products. Dividing by $r$ lets one change the rank and keep
# the learning rate.
#
# **Why in place.** The parameter may be shared with another layer, sharded, or known to an optimiser or a captured
# graph. A new object would leave them with the old values.
#
# **What it costs.** $O(b\, i\, o + b\, r\, (i + o))$ time for $b$ vectors. Weights of 4,096 by 4,096 with rank 16 take
# 0.8 % more operations, and $4\, r\,(i + o)$ bytes of parameters in float32: 0.5 MB beside 67 MB. Adam keeps 8 bytes
# for each trained number, so its state shrinks by the factor 128. The gradient of $W$ is never made.
#
# ## The other formulation
#
# `torch.addmm(base, narrow, self.lora_b.T, alpha=self.scale)` for matrices, one kernel instead of three. Libraries keep
# the base as a `nn.Linear` and wrap it, so that it may be quantised: the adapter does not need to know.
#
# Merging may keep a copy of the weight instead of taking the change off again. Then nothing is lost to rounding, and
# the weight takes its memory twice.
#
# ## The usual mistakes
#
# - `x @ (self.weight + self.scale * self.lora_b @ self.lora_a).T`: right, but each call makes a matrix as large as the
#   weight, and autograd keeps it.
# - The factor forgotten in `merge()`: the merged model is not the one that was trained.
# - `self.weight = nn.Parameter(self.weight + ...)`: another object, and trainable.
# - `self.weight += ...` with gradients on: the weight becomes a result with a history, which is no leaf any more.
# - No flag: a second `merge()` adds the change twice.

# %% tags=["active-ipynb", "solution"]
# # What merging adds to the weight: a matrix of as many singular values as the rank
# import torch
# from matplotlib import pyplot as plt
#
# torch.manual_seed(0)
# for rank in (1, 4, 16):
#     layer = LoRALinear(64, 48, rank)
#     torch.nn.init.normal_(layer.lora_b)
#     before = layer.weight.clone()
#     layer.merge()
#     plt.semilogy(torch.linalg.svdvals(layer.weight - before).detach(), marker=".", label=f"rank {rank}")
# plt.title("singular values of the change of a 48 × 64 weight; the rest is rounding")
# plt.legend()
# plt.show()

# %% [markdown] tags=["solution", "questions"]
# ## What interviewers ask next
#
# ### Why does a change of such low rank suffice?
#
# - Fine-tuning moves a pretrained model little, and most of the movement lies in few directions: models reach 90 % of
#   full fine-tuning in some hundreds of random dimensions.
# - It is an empirical finding about adapting, not about training from scratch.
#
# Source: Aghajanyan, Zettlemoyer, Gupta 2020, arXiv:2012.13255.
#
# ### Which matrices get adapters, and of which rank?
#
# - The paper adapts queries and values alone, with a rank of 4 or 8: for GPT-3 18.9 million numbers, 38 MB in float16.
# - Later work adapts all linear layers: that matters more than the rank.
#
# Source: Dettmers et al. 2023, QLoRA, appendix A, arXiv:2305.14314.
#
# ### Why start B with zeros, and not A?
#
# - Either makes a new layer the base alone. With both at zero no gradient flows.
# - With A random the narrow vectors are of use from the first step on. Starting with A at zero allows less large
#   learning rates, and trained slightly worse in experiments.
#
# Source: Hayou, Ghosh, Yu 2024, the impact of initialization on LoRA, arXiv:2406.08447.
#
# ### What is wrong with α / r at large ranks?
#
# - It shrinks the change faster than the sum over $r$ grows: gradients collapse, and more rank brings nothing.
# - $\alpha / \sqrt r$ keeps their size: rank-stabilised LoRA.
#
# Source: Kalajdzievski 2023, arXiv:2312.03732.
#
# ### When do you merge, and when not?
#
# - For one task merge: no cost at all in serving.
# - For many adapters over one base do not: each row of a batch may then have its own, with kernels that gather them.
# - Not into a quantised weight: the change is smaller than a step of the quantiser, and is lost in part.
#
# Source: Sheng et al. 2023, S-LoRA, arXiv:2311.03285.
#
# ### What memory does it save in training, and what not?
#
# - The gradients and the optimiser's state of the base: for a 7B model in bfloat16 with Adam in float32 14 + 56 GB.
# - Not the weights, 14 GB, unless they are quantised, and not the activations, since gradients flow through every
#   layer.
# - The input of each adapted layer is kept for the gradient of A.
#
# Source: Dettmers et al. 2023, QLoRA, arXiv:2305.14314.
#
# ### Is it as good as full fine-tuning?
#
# - On instruction tuning and small data sets nearly. On continued pretraining on code and mathematics it learns less.
# - It also forgets less of what the base could do: the low rank is a regulariser.
#
# Source: Biderman et al. 2024, LoRA learns less and forgets less, arXiv:2405.09673.
#
# ### What happens on merging in bfloat16?
#
# - A change below 1/256 of an entry is rounded away, and unmerging does not bring back what rounding took.
# - Add in float32 and round once, or merge into a float32 copy of the checkpoint.
#
# Source: PEFT, LoRA developer guide, https://huggingface.co/docs/peft/developer_guides/lora.
