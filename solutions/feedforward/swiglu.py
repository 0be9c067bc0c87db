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
#     title: SwiGLU feed-forward
#     level: 2
#     minutes: 12
#     builds_on: [linear, activations]
#     sources:
#       - "Shazeer 2020: GLU variants improve transformer, arXiv:2002.05202"
#       - "Touvron et al. 2023: LLaMA, section 2.2, arXiv:2302.13971"
# ---

# %% [markdown]
# # SwiGLU feed-forward
#
# $$\mathrm{SwiGLU}(x) = W_2 \big( \mathrm{silu}(W_1 x) \odot W_3 x \big), \qquad
# \mathrm{silu}(z) = z \cdot \sigma(z) = \frac{z}{1 + e^{-z}}$$
#
# The feed-forward layer works on each token alone. It widens the token, multiplies two projections entry by entry,
# and narrows it again. One projection, passed through silu, is a gate for the other.
#
# **Write two things.**
#
# `hidden_size(d_model, multiple_of=64)` gives the usual width: $\tfrac{8}{3} d_{\mathrm{model}}$ rounded to an integer,
# and that rounded **up** to a multiple of `multiple_of`. It takes and gives Python integers (`int`, not `float`).
# Rounded up or down to the integer, a multiple of 8, 16, 24, … comes out the same, and no other is asked for.
#
# `SwiGLU(d_model, d_ff=None, *, device=None, dtype=None)` with `forward(x)`.
#
# - **`x`** has shape `(..., d_model)`, with any number of leading dimensions, none included. The result has the same.
# - **`d_ff`** is the inner width, taken as it is given. Without it, it is `hidden_size(d_model)`.
# - **Parameters**, and no others, stored `(out_features, in_features)`, without biases:
#   `w1.weight` and `w3.weight`, each `(d_ff, d_model)`, and `w2.weight`, `(d_model, d_ff)`.
#   `nn.Linear(bias=False)` is allowed. The initialisation is yours.
# - **The gate is `w1`.** Silu acts on `w1 x`, not on `w3 x`.
# - **Dtype.** The result has the dtype of the parameters. With float16 or bfloat16 silu is computed in float32
#   (`F.silu` does so by itself); the gated product may be rounded once more. float64 in, float64 out; float32 accuracy
#   is enough.
# - **Gradients** are finite, also where a gate is far below zero.
# - **The input is not modified**, and may be non-contiguous or expanded.
# - **Not graded:** sizes below 1, which deserve a `ValueError`.
#
# No operation is forbidden; `F.silu` is allowed.
#
# **Example.** `hidden_size(100)`: $800 / 3 = 266.7$, rounded up 267, and up to a multiple of 64: 320.
# `hidden_size(768)`: exactly 2048, which is a multiple of 64 already.
# For `SwiGLU(1, 1)` with `w1 = 1`, `w3 = 3`, `w2 = 10` and $x = 2$:
# $\mathrm{silu}(2) = 2 \cdot 0.8808 = 1.7616$, times $3 \cdot 2 = 6$, times $10$, is $105.70$.

# %% tags=["active-ipynb", "example"]
# # The example, in numbers
# import math
#
# for d_model in (100, 768):
#     exact = math.ceil(8 * d_model / 3)
#     print(f"d_model {d_model}: {8 * d_model / 3:.1f}, up to {exact}, up to a multiple of 64: {-(-exact // 64) * 64}")
# silu = 2 / (1 + math.exp(-2))
# print(f"silu(2) = {silu:.4f}, times 3 · 2, times 10: {silu * 6 * 10:.2f}")

# %% [markdown] tags=["hint"]
# Three matrices, one formula. Write the formula down as it stands; then look at the dtype of each step.

# %% [markdown] tags=["hint"]
# Rounding up in integers: `(a + b - 1) // b` is $a / b$ rounded up. Use it twice in `hidden_size`.
# Floats are not exact for every size.

# %% [markdown] tags=["hint"]
# One line: `self.w2(F.silu(self.w1(x)) * self.w3(x))`. The gate is the branch of `w1`.

# %%
import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn


# %%
def hidden_size(d_model: int, multiple_of: int = 64) -> int:
    """8/3 of d_model, rounded up to an integer and then up to a multiple: the width that costs what 4 · d_model costs.

    Raises ValueError for an argument below 1. Touvron et al. 2023, arXiv:2302.13971, section 2.2.
    """
    ### BEGIN SOLUTION
    if d_model < 1 or multiple_of < 1:
        raise ValueError(f"need positive integers, got d_model {d_model} and multiple_of {multiple_of}")
    width = (8 * d_model + 2) // 3
    multiples = (width + multiple_of - 1) // multiple_of
    return multiples * multiple_of
    ### END SOLUTION


# %%
class SwiGLU(nn.Module):
    """Feed-forward layer gated by silu. silu is computed in float32 at least.

    Shazeer 2020, arXiv:2002.05202, equation 6.
    """

    def __init__(self, d_model: int, d_ff: int | None = None, *, device=None, dtype=None):
        ### BEGIN SOLUTION
        super().__init__()
        if d_ff is None:
            d_ff = hidden_size(d_model)
        self.w1 = nn.Linear(d_model, d_ff, bias=False, device=device, dtype=dtype)
        self.w2 = nn.Linear(d_ff, d_model, bias=False, device=device, dtype=dtype)
        self.w3 = nn.Linear(d_model, d_ff, bias=False, device=device, dtype=dtype)
        ### END SOLUTION

    def forward(self, x: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch d_model"]:
        """w2(silu(w1 x) ⊙ w3 x), for each token alone."""
        ### BEGIN SOLUTION
        return self.w2(F.silu(self.w1(x)) * self.w3(x))
        ### END SOLUTION


# %% [markdown] tags=["solution"]
# ## Why it is done this way
#
# A plain feed-forward layer has two matrices of $d \times 4d$: $8 d^2$ weights. SwiGLU has three.
# With the width $\tfrac{8}{3} d$ it has $3 \cdot \tfrac{8}{3} d^2 = 8 d^2$ as well, so the two can be compared fairly.
# The multiple of 64 is for the hardware: matrix units work on tiles, and an odd width leaves part of each tile idle.
#
# The sizes are integer arithmetic. `math.ceil(8 / 3 * d_model)` starts from a rounded 8/3. It happens to be right
# for every realistic size, but that takes a proof. Integers do not.
#
# A product of two projections grows with the **square** of the input. This makes it the first place where float16
# overflows in a large model. In bfloat16 the one line is safe, because bfloat16 has the range of float32. In float16
# it is safe because the input of this layer is normalised.
#
# ## The other formulation
#
# One weight of shape `(2 * d_ff, d_model)` and `gate, value = self.w13(x).chunk(2, dim=-1)`: one large product instead
# of two. Which half is the gate is a convention that a converted checkpoint has to get right.
#
# ## The usual mistakes
#
# - Silu on `w3 x`, or on the product, or on both. All have the right shape.
# - `sigmoid` instead of `silu`: that is GLU.
# - `int(8 * d_model / 3)` rounds down.
# - Rounding to a multiple when it is one already: `width + multiple_of - width % multiple_of`.
# - A default width of `4 * d_model`.

# %% [markdown] tags=["solution", "questions"]
# ## What interviewers ask next
#
# - **Why does gating help?** The layer can multiply two features of the token. The paper offers no theory: it credits
#   "divine benevolence".
# - **Silu or GELU?** Nearly the same curve. Silu is cheaper, and its gradient is simple.
# - **What share of the model is this?** Against $4 d^2$ in attention it is $8 d^2$: two thirds of each layer.
# - **How is it split over GPUs?** `w1` and `w3` by rows, `w2` by columns, one sum over the GPUs at the end.
# - **What is kept for the backward pass?** Both projections. Silu and the product are cheap to recompute.
