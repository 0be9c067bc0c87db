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
# and that rounded **up** to a multiple of `multiple_of`. It takes and returns Python integers (`int`, not `float`).
# Only multiples of 8 are asked for as `multiple_of`. For them it makes no difference whether the first rounding is up
# or down.
#
# `SwiGLU(d_model, d_ff=None, *, device=None, dtype=None)` with `forward(x)`.
#
# - **`x`** has shape `(..., d_model)`, with any number of leading dimensions, also none. The result has the same.
# - **`d_ff`** is the inner width, taken as it is given. Without it, it is `hidden_size(d_model)`.
# - **Parameters**, and no others, stored `(out_features, in_features)`, without biases: `w1.weight` and `w3.weight`,
#   each `(d_ff, d_model)`, and `w2.weight`, `(d_model, d_ff)`. `nn.Linear(bias=False)` is allowed. Initialise them as
#   you like.
# - **The gate is `w1`.** Silu acts on `w1 x`, not on `w3 x`.
# - **Dtype.** The result has the dtype of the parameters. In half precision silu and the gated product may be computed
#   in the dtype of `x`. float64 in, float64 out; float32 accuracy is enough.
# - **Gradients** are finite, also where a gate is far below zero.
# - **The input is not modified**, and may be non-contiguous or expanded.
# - **Not graded:** what happens for sizes below 1.
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
    """Feed-forward layer gated by silu.

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
# The sizes are integer arithmetic. `math.ceil(8 / 3 * d_model)` starts from a rounded 8/3. It happens to be right for
# every realistic size, but only a proof shows it. Integers need none.
#
# A product of two projections grows with the **square** of the input. This makes it the first place where float16
# overflows in a large model. In bfloat16 the one line is safe, because bfloat16 has the range of float32. In float16
# it is safe because the input of this layer is normalised.
#
# **What it costs.** $O(n\, d\, d_{\mathrm{ff}})$ time for $n$ tokens: $6\, n\, d\, d_{\mathrm{ff}}$ operations. The
# weights take $12\, d\, d_{\mathrm{ff}}$ bytes in float32. Both projections, silu and the product take
# $4\, n\, d_{\mathrm{ff}}$ bytes each.
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
# ### What does the gate do?
#
# - It multiplies two projections of the token, so the layer can form products of features and not only sums.
# - Where silu is near 0 it closes a channel for this token, where it is large it opens it linearly.
# - The paper finds a better loss at equal size and gives no theory for it.
#
# Source: Shazeer 2020, arXiv:2002.05202.
#
# ### Why is the width 8/3 of d_model, rounded up?
#
# - Three matrices of $\frac83 d^2$ hold $8 d^2$ weights, as many as two of $4 d^2$. So the comparison is fair.
# - Multiples of 64 or more fill the tiles of the matrix units, and divide by the devices that share the layer.
# - Models differ: Llama 7B rounds 10,923 up to 11,008, a multiple of 256, and others choose wider on purpose. Read it
#   from the checkpoint.
#
# Source: Touvron et al. 2023, section 2.2, arXiv:2302.13971.
#
# ### silu, gelu or sigmoid as the gate: which would you choose?
#
# - The paper's differences between silu and gelu are within the noise. Both beat the plain sigmoid a little.
# - For a new model the one that kernels and other models have: silu.
# - For a checkpoint its own. A swap costs quality although every shape fits.
#
# Source: Shazeer 2020, section 3, arXiv:2002.05202.
#
# ### What does it cost, and what is kept for the backward pass?
#
# - $6\, n\, d\, d_{\mathrm{ff}}$ operations, the same as an ungated layer of $\frac32$ the width.
# - Kept are the input, both projections and their product: $2 n d + 6\, n\, d_{\mathrm{ff}}$ bytes in bfloat16. silu
#   makes one more of $2\, n\, d_{\mathrm{ff}}$ if it is not fused.
# - The product and silu are cheap to recompute from the projections.
#
# Source: Hsu et al. 2024, Liger kernel, arXiv:2410.10989.
#
# ### What breaks in half precision?
#
# - The product of two projections grows with the square of the input: 256 times 256 is beyond float16.
# - A few channels grow to thousands in trained models. So float16 fails first in the second matrix of a late layer.
# - bfloat16 has the range. Its rounding of the product is one of many.
# - For 8-bit formats these same channels decide the scale of a whole tensor.
#
# Source: Fishman et al. 2024, arXiv:2409.12517.
#
# ### How is it split over devices?
#
# - `w1` and `w3` by outputs, `w2` by inputs, one sum at the end.
# - Merged into one matrix, gate and value must be cut so that each device holds matching rows of both.
# - A cut through the middle of `(2 * d_ff, d_model)` gives one device all gates and the other all values.
# - The same mistake in a converted checkpoint swaps gate and value, and no shape reveals it.
#
# Source: Shoeybi et al. 2019, section 3, arXiv:1909.08053.
#
# ### What would a profiler show?
#
# - Three products take nearly all the time in training. silu and the product are two kernels that move
#   $10\, n\, d_{\mathrm{ff}}$ bytes in bfloat16, fused one with $6\, n\, d_{\mathrm{ff}}$.
# - One merged product instead of two reads the input once and fills the device better at small batches.
# - In decoding all three wait for their weights: the time is the bytes by the bandwidth.
# - Widths that are no multiple of 8 may fall back to slower kernels.
#
# Source: NVIDIA, Matrix multiplication background,
# https://docs.nvidia.com/deeplearning/performance/dl-performance-matrix-multiplication/index.html.
#
# ### How would you test it?
#
# - Against the formula in float64, with `w1` and `w3` different: equal matrices hide a swapped gate.
# - `w3 = 0` gives 0, and doubling `w3` doubles the result. Doubling `w1` does not.
# - A gate far below zero gives 0 with finite gradients.
# - `hidden_size` against exact fractions over thousands of widths.
#
# Source: PyTorch documentation of `gradcheck`,
# https://docs.pytorch.org/docs/stable/generated/torch.autograd.gradcheck.gradcheck.html.
