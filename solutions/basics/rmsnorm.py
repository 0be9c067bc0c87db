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
#     title: RMSNorm
#     level: 1
#     minutes: 8
#     builds_on: []
#     sources:
#       - "Zhang, Sennrich 2019: Root mean square layer normalization, arXiv:1910.07467"
# ---

# %% [markdown]
# # RMSNorm
#
# $$y_i = \frac{x_i}{\sqrt{\frac1n \sum_j x_j^2 + \varepsilon}} \cdot w_i$$
#
# Activations grow and shrink from layer to layer. A norm gives every vector the same length, up to a learned factor
# for each entry. RMSNorm divides by the root of the mean square, and subtracts nothing.
#
# **Write** `RMSNorm(d_model, eps=1e-5, *, device=None, dtype=None)` with `forward(x)`, from `(..., d_model)` to the
# same shape.
#
# - The mean runs over the **last dimension**. $\varepsilon$ is `eps`, and stands **inside** the root.
# - **Parameter**, and no other: `weight`, of shape `(d_model,)`, initialised to ones.
# - **Dtype.** The result has the dtype of the input. float16 and bfloat16 are squared, averaged and divided in
#   float32: the square of 300 is beyond float16. Before the weight multiplies, the normed vector may be rounded once
#   more. float64 in, float64 out; float32 accuracy is enough.
# - **Inputs are not modified**, and may be non-contiguous or expanded. Gradients flow to `x` and `weight`. No loops.
# - **Not graded:** an `x` of another dtype than `weight`, and arguments that make no sense, such as an `eps` below 0.
#
# Not allowed: `nn.RMSNorm`, `F.rms_norm`, `nn.LayerNorm`, `F.layer_norm`.
#
# **Example.** $x = (3, 4)$ has the mean square 12.5 and the root 3.536. With ones as weight the result is
# $(0.849, 1.131)$. With `weight` = $(2, 1)$ it is $(1.697, 1.131)$.

# %% tags=["active-ipynb", "example"]
# # The example, in numbers
# import math
#
# x = (3.0, 4.0)
# root = math.sqrt(sum(v * v for v in x) / len(x))
# print("root mean square", round(root, 3))
# print([round(v / root, 3) for v in x], "with weight (2, 1):", [round(w * v / root, 3) for w, v in zip((2, 1), x)])

# %% [markdown] tags=["hint"]
# Four steps: square, mean over the last dimension (kept), root of that plus eps, divide. Then the weight.

# %% [markdown] tags=["hint"]
# `x.square().mean(dim=-1, keepdim=True)` keeps an axis of size 1, so that the division broadcasts.

# %% [markdown] tags=["hint"]
# Upcast first, `x.to(torch.float32)` for half precision, and go back to the dtype of `x` at the end.
# `torch.rsqrt(v)` is $1/\sqrt v$.

# %%
import torch
from jaxtyping import Float
from torch import Tensor, nn


# %%
class RMSNorm(nn.Module):
    """x / sqrt(mean(x²) + eps) · weight over the last dimension, computed in float32 at least.

    Zhang, Sennrich 2019, arXiv:1910.07467.
    """

    def __init__(self, d_model: int, eps: float = 1e-5, *, device=None, dtype=None):
        ### BEGIN SOLUTION
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(d_model, device=device, dtype=dtype))
        ### END SOLUTION

    def forward(self, x: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch d_model"]:
        """Each vector of x, scaled to a root mean square of 1 and then by the weight."""
        ### BEGIN SOLUTION
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        mean_square = wide.square().mean(dim=-1, keepdim=True)
        normed = wide * torch.rsqrt(mean_square + self.eps)
        return (normed * self.weight).to(x.dtype)
        ### END SOLUTION


# %% [markdown] tags=["solution"]
# ## Why it is done this way
#
# **Why no mean is subtracted.** LayerNorm removes the mean and divides by the deviation. The paper found that the
# division does the work. Leaving out the mean saves one reduction, and quality does not suffer.
#
# **Why eps, and where.** A vector of zeros must not divide by zero. Inside the root, eps limits the gradient too:
# near zero the norm is $x/\sqrt\varepsilon$. Outside the root it would weigh far less, $10^{-5}$ against
# $\sqrt{10^{-5}} = 0.003$.
#
# **Why float32.** Squares overflow float16 from 256 on, and a mean of thousands of bfloat16 numbers keeps two digits.
#
# ## The other formulation
#
# Llama rounds before the weight: `weight * normed.to(x.dtype)`. One rounding more, the same to within a unit in the
# last place; but a weight in float32 makes the result float32. $\sqrt n\, x / \lVert x \rVert$ is the same without
# eps.
#
# ## The usual mistakes
#
# - The sum instead of the mean: off by $\sqrt n$.
# - `eps` outside the root, or the root forgotten.
# - The mean subtracted: that is LayerNorm.
# - Squaring in float16.
# - A float32 result for a half input, because the weight was kept in float32.

# %% [markdown] tags=["solution", "questions"]
# ## What interviewers ask next
#
# - **What happens to scale?** $\mathrm{norm}(c\,x) = \mathrm{norm}(x)$ for any $c > 0$, eps aside. So the weights
#   before it can grow without effect, and their gradients shrink as they do.
# - **What is the gradient?** The part of $g$ along $x$ is removed: $\frac1r (g - \hat x\,\mathrm{mean}(g\,\hat x))$
#   with $\hat x = x/r$.
# - **What is QK-norm?** An RMSNorm on queries and keys of each head. It bounds the scores and steadies training.
# - **Is it slow?** It moves memory and hardly computes: one read and one write when fused, four of each in eager
#   PyTorch.
