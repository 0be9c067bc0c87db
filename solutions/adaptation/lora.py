# ---
# jupyter:
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
# Its parameters are `weight` `(out_features, in_features)`, which is frozen: `requires_grad` is False; `lora_a`
# `(rank, in_features)`; and `lora_b` `(out_features, rank)`. No bias.
#
# Not allowed: an adapter library such as `peft`. `nn.Linear` and `F.linear` are allowed.
#
# **Example.** $W$ is the identity of size 2, $A = (1, 1)$, $B = (2, 0)^\top$, rank 1 and `alpha=0.5`. For $x = (1, 2)$
# the base gives $(1, 2)$, and $A x = 3$. The adapter adds $0.5 \cdot 3 \cdot (2, 0) = (3, 0)$: the result is $(4, 2)$.
# Merged, the weight is $((2, 1), (0, 1))$, and gives $(4, 2)$ too.

# %% [markdown] tags=["contract"]
# - **Start.** `lora_a` starts at random with mean 0 and a standard deviation of 0.001 to 0.5, such as uniform in
#   $\pm 1 / \sqrt{\text{in\_features}}$; `lora_b` with zeros: a new layer gives exactly $W x$.
# - **Merging.** `merge()` adds $\frac{\alpha}{r} B A$ to `weight`, and `forward` then uses the weight alone.
#   `unmerge()` takes it off again. To merge what is merged, or unmerge what is not, does nothing.
# - **The weight.** It stays the same `nn.Parameter` of the same dtype, and frozen. Its `.data` may be
#   rebound, as `peft` does.
# - **Cost.** `forward` makes no tensor of `out_features * in_features` entries: $B A$ is not multiplied out.
# - **Half precision.** Each of the three products may be rounded, and the sum once more.
# - **Errors.** A rank below 1, at construction.

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
# parameter says whether the layer is merged.

# %% [markdown] tags=["hint"]
# `F.linear(x, self.weight) + F.linear(self.scale * F.linear(x, self.lora_a), self.lora_b)`. Under `torch.no_grad()`,
# `self.weight.addmm_(self.lora_b, self.lora_a, alpha=self.scale)` writes into the parameter that is there; a new
# `nn.Parameter` would be one that no optimizer and no other layer knows.

# %% [markdown] tags=["idea"]
# A layer of a large model has 4,096 by 4,096 numbers, nearly 17 million. Training adds a gradient and two means each.
# What a task needs is often a simple change: from a few directions of the input to a few directions of the output.
#
# So the change gets a narrow waist. One small matrix squeezes 4,096 numbers into 64, a second one spreads these out
# again. Together they have 524,288 numbers, 32 times fewer than the layer. Only they learn, and the layer stays as it
# was trained. One starts as noise, the other with zeros: so the first result is the old one, and yet both learn.
#
# The price: a change through a waist of 64 has at most 64 directions. Where a task needs more, it falls short.

# %% tags=["active-ipynb", "figure"]
# """Three matrices drawn to scale. The layer is a hatched square of 4,096 by 4,096. The two that train are thin strips:
# one upright, 64 columns wide, and one flat, 64 rows high."""
# import matplotlib.pyplot as plt
#
# axes = plt.figure(figsize=(7.6, 3.2)).gca()
# axes.bar(0, 4096, 4096, align="edge", fill=False, edgecolor="C0", hatch="//", label="the layer, frozen: 16,777,216")
# axes.bar(4700, 4096, 64, align="edge", label="out of the waist: 262,144")
# axes.bar(5300, 64, 4096, align="edge", label="into the waist: 262,144")
# axes.set(xlabel="columns", ylabel="rows", aspect="equal", ylim=(4250, 0), yticks=(0, 4096))
# axes.set_xticks((2048, 4732, 7348), ("4,096", "64", "4,096"))
# axes.legend(loc="center right", title="numbers")

# %%
import math

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

# %% [markdown] tags=["step"]
# **The price.** How many numbers learn, if a layer of `in_features` to `out_features` gets an adapter of this rank?

# %% tags=["active-ipynb", "step"]
# def trained(in_features: int, out_features: int, rank: int) -> int:
#     """The entries of both matrices of the adapter."""
#     ### BEGIN SOLUTION
#     return rank * (in_features + out_features)
#     ### END SOLUTION

# %% [markdown] tags=["step-cases"]
# trained(6, 4, 2) = 20
# trained(6, 4, 2) ≠ 24: those of the weight, which is frozen
# trained(6, 4, 2) ≠ 48: every entry of the weight `rank` times; each matrix has one long side and one of `rank`
# trained(6, 4, 2) ≠ 12: lora_a alone; lora_b has rank * out_features more

# %% [markdown] tags=["step"]
# **What is added.** The rows of `x` go through `a`, then through `b`, and are multiplied by `alpha` over the rank.

# %% tags=["active-ipynb", "step"]
# def added(x: Float[Tensor, "n d"], a: Float[Tensor, "rank d"], b: Float[Tensor, "out rank"], alpha: float) -> Tensor:
#     """What the adapter adds to the layer's result, of shape (n, out)."""
#     ### BEGIN SOLUTION
#     return x @ a.mT @ b.mT * (alpha / len(a))
#     ### END SOLUTION

# %% [markdown] tags=["step-cases"]
# added([[1, 2]], [[1, 3], [0, 2]], [[1, 1], [2, 0]], 6) = [[33, 42]]
# added([[1, 2]], [[1, 3], [0, 2]], [[1, 1], [2, 0]], 6) ≠ [[66, 84]]: alpha is not divided by the rank
# added([[1, 2]], [[1, 3], [0, 2]], [[1, 1], [2, 0]], 6) ≠ [[46.669, 59.397]]: divided by the root of the rank
# added([[1, 2]], [[1, 3], [0, 2]], [[1, 1], [2, 0]], 6) ≠ [[11, 14]]: without the factor alpha / rank
# added([[1, 2]], [[1, 3], [0, 2]], [[1, 1], [2, 0]], 6) ≠ [[45, 3]]: rows meet `a.T`, then `b.T`; neither is transposed
# added([[1, 2]], [[1, 3], [0, 2]], [[1, 1], [2, 0]], 6) ≠ [[15, 51]]: `x @ (b @ a)`; rows meet the transposed product

# %% [markdown] tags=["step"]
# **The start.** For single numbers the adapter gives $b \cdot a \cdot x$. What are its derivatives by `a` and by `b`?

# %% tags=["active-ipynb", "step"]
# def slopes(x: float, a: float, b: float) -> tuple[float, float]:
#     """The derivative by a, and the one by b; if both are 0, nothing is ever learned."""
#     ### BEGIN SOLUTION
#     return b * x, a * x
#     ### END SOLUTION

# %% [markdown] tags=["step-cases"]
# slopes(3.0, 0.5, 0.0) = (0, 1.5)
# slopes(3.0, 0.5, 0.0) ≠ (1.5, 0): exchanged; the derivative by one holds the other
# slopes(3.0, 0.5, 0.0) ≠ (3, 3): x alone; the other number is a factor too
# slopes(3.0, 0.5, 0.0) ≠ (0, 0): the result, which is 0 at the start; `b` can leave 0 all the same

# %% [markdown] tags=["experiment"]
# The change to learn has rank 4. What is left of the error at each rank, and why? Make it 8. Then zero `lora_a` too.
# Read on: Hu et al. 2021, sections 4.1 and 7.2, arXiv:2106.09685.

# %% tags=["active-ipynb", "experiment"]
# x, change = torch.randn(128, 32), torch.randn(32, 4) @ torch.randn(4, 32) / 8
# for rank in (1, 2, 4, 8):
#     layer = LoRALinear(32, 32, rank)
#     optimizer = torch.optim.Adam([layer.lora_a, layer.lora_b], lr=0.02)
#     for _ in range(150):
#         optimizer.zero_grad()
#         loss = (layer(x) - x @ (layer.weight + change).mT).square().mean()
#         loss.backward()
#         optimizer.step()
#     print(f"rank {rank}: {loss:.4f}")


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
        self.scale = alpha / rank
        self.merged = False
        weight = torch.empty(out_features, in_features, device=device, dtype=dtype)
        self.weight = nn.Parameter(weight, requires_grad=False)
        self.lora_a = nn.Parameter(torch.empty(rank, in_features, device=device, dtype=dtype))
        self.lora_b = nn.Parameter(torch.empty(out_features, rank, device=device, dtype=dtype))
        bound = 1 / math.sqrt(in_features)
        nn.init.uniform_(self.weight, -bound, bound)
        nn.init.uniform_(self.lora_a, -bound, bound)
        nn.init.zeros_(self.lora_b)
        ### END SOLUTION

    def forward(self, x: Float[Tensor, "*batch in_features"]) -> Float[Tensor, "*batch out_features"]:
        """The product with the weight, and unless it is merged what the adapter adds."""
        ### BEGIN SOLUTION
        base = F.linear(x, self.weight)
        if self.merged:
            return base
        narrow = F.linear(x, self.lora_a)
        adapter = F.linear(self.scale * narrow, self.lora_b)
        return adapter + base
        ### END SOLUTION

    @torch.no_grad()
    def merge(self) -> None:
        """Add the adapter to the weight, in place, unless that is done."""
        ### BEGIN SOLUTION
        if not self.merged:
            self.weight.addmm_(self.lora_b, self.lora_a, alpha=self.scale)
            self.merged = True
        ### END SOLUTION

    @torch.no_grad()
    def unmerge(self) -> None:
        """Take the adapter off the weight, in place, if it is there."""
        ### BEGIN SOLUTION
        if self.merged:
            self.weight.addmm_(self.lora_b, self.lora_a, alpha=-self.scale)
            self.merged = False
        ### END SOLUTION


# %% [markdown] tags=["solution"]
# ## Why it is done this way
#
# **Why one matrix of zeros and one of noise.** With $B = 0$ the adapted model starts as the model that was trained. The
# gradient of $B$ is $\frac{\alpha}{r}\, g\,(A x)^\top$ and that of $A$ is $\frac{\alpha}{r}\, B^\top g\, x^\top$: with
# $A = 0$ as well both vanish, and nothing is ever learned. The paper draws $A$ from a normal, `peft` and we uniform in
# $\pm 1 / \sqrt{\text{in\_features}}$. Starting with $A$ at zero instead allows only smaller learning rates: Hayou,
# Ghosh, Yu 2024, arXiv:2406.08447.
#
# **Why $\alpha / r$.** Each entry of $B A$ is a sum of $r$ products. Dividing by $r$ lets one change the rank and keep
# the learning rate.
#
# **Why the same parameter.** It may be tied to another layer, sharded, or known to an optimizer. A new object would
# leave them with the old values.
#
# **What it costs.** With weights of 4,096 by 4,096, rank 16 adds 0.8 % to the FLOPs, and 0.5 MB of float32 parameters
# to 67 MB. Adam keeps 8 bytes for each trained number, so its state shrinks by the factor 128, and the gradient of $W$
# is never made. Decoding is memory-bound: unmerged, $A$ and $B$ add 0.8 % to the bytes of the weights, and four small
# kernels a layer, which are launch-bound. Merged they add nothing.
#
# ## The other formulation
#
# `torch.addmm(base, narrow, self.lora_b.T, alpha=self.scale)` for matrices, one kernel instead of three. Libraries keep
# the base as a `nn.Linear` and wrap it, so that it may be quantized: the adapter does not need to know.
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

# %% [markdown] tags=["solution", "questions"]
# ## What interviewers ask next
#
# ### How many million numbers train, with rank `rank` on queries and values, in `layers` layers of width `d`?
#
# - An adapter has $r\,(\text{in} + \text{out})$ numbers, $2 r d$ for a square matrix, and there are two in each layer.
# - GPT-3 has 96 layers of 12,288: 18.9 million at rank 4, 38 MB in float16, beside 175 billion.
# - Later work adapts all linear layers: that matters more than the rank.
#
# Answer: `4 * rank * d * layers / 1e6` million, within 5 %. Settings: `rank` 4, 16; `layers` 32, 96; `d` 4096, 12288.
#
# Source: Hu et al. 2021, section 7, arXiv:2106.09685.
#
# ### How many GB of gradients and Adam moments does it save, on `billions` billion parameters in bfloat16?
#
# - Gradients of the base, 2 bytes each, and two float32 moments, 8. What the adapters need instead is some tens of MB.
# - Not the weights, unless they are quantized, and not the activations: gradients flow through every layer, and the
#   input of each adapted layer is kept for the gradient of $A$.
#
# Answer: `10 * billions` GB, within 5 %. Settings: `billions` 7, 13, 70.
#
# Source: Dettmers et al. 2023, QLoRA, arXiv:2305.14314.
#
# ### What is wrong with α / r at large ranks?
#
# - It shrinks the change faster than the sum over $r$ grows: gradients collapse, and more rank brings nothing.
# - $\alpha / \sqrt r$ keeps their size: rank-stabilized LoRA.
#
# Source: Kalajdzievski 2023, arXiv:2312.03732.
#
# ### When do you merge, and when not?
#
# - For one task merge: no cost at all in serving.
# - For many adapters over one base do not: each row of a batch may then have its own, with kernels that gather them.
# - Not into a quantized weight: the change is smaller than a step of the quantizer, and is lost in part.
#
# Source: Sheng et al. 2023, S-LoRA, arXiv:2311.03285.
#
# ### What happens on merging in bfloat16?
#
# - A change below 1/512 of an entry is rounded away, and unmerging does not bring back what rounding took.
# - Add in float32 and round once, as `addmm_` does, or merge into a float32 copy of the checkpoint.
#
# Source: PEFT, LoRA developer guide, https://huggingface.co/docs/peft/developer_guides/lora.
