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
# - **Dtype.** The result has the dtype of the input. float16 and bfloat16 inputs are squared, averaged and divided in
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
# **What it costs.** $O(b d)$ time for $b$ vectors of width $d$. The squares and the normed vectors take $4 b d$ bytes
# each in float32. A fused kernel stores neither, only 4 bytes for each vector: its root.
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
# ### Why is no mean subtracted?
#
# - The paper's hypothesis: scaling is what steadies training, centring is not.
# - It saves one reduction and the bias. Quality was equal in their tests.
# - The mean can still carry information that LayerNorm would remove.
#
# Source: Zhang, Sennrich 2019, arXiv:1910.07467.
#
# ### What happens if the input is scaled?
#
# - $\mathrm{norm}(c\,x) = \mathrm{norm}(x)$ for $c > 0$, eps aside.
# - So the scale of a matrix right before it has no effect on the output. Its gradient is divided by $c$ when the matrix
#   grows by $c$.
# - The matrix grows under training, and its effective step shrinks. Weight decay works against that: it sets the step
#   size and does not restrict the model.
#
# Source: van Laarhoven 2017, arXiv:1706.05350.
#
# ### What is the gradient?
#
# - With $r$ the root, $\hat x = x/r$ and $g$ the gradient times the weight:
#   $\frac1r (g - \hat x\,\mathrm{mean}(g\,\hat x))$.
# - The part along $x$ is removed, since scaling changes nothing.
# - Kept are the input and one number for each vector. The gradient of the weight sums $g\, \hat x$ over all tokens.
#
# Source: Zhang, Sennrich 2019, section 4, arXiv:1910.07467.
#
# ### What breaks in half precision, and where do you round?
#
# - $256^2$ is beyond float16. So is a sum of smaller squares.
# - Entries of $10^{-4}$ have squares that are 0 in float16, and the result is $x/\sqrt{\varepsilon}$ instead of order
#   1.
# - Square, mean, root and product in float32. Llama rounds before the weight multiplies, others after it: one unit in
#   the last place.
# - A float32 weight times a bfloat16 vector is float32. Without a cast the whole rest of the model changes dtype.
#
# Source: Micikevicius et al. 2017, section 3.3, arXiv:1710.03740.
#
# ### A checkpoint was trained with eps 1e-6 and you run 1e-5. When does it matter?
#
# - Only where the mean square is near eps. At a mean square of 1 the change is $5 \cdot 10^{-6}$.
# - Embeddings of deviation 0.02 have a mean square of $4 \cdot 10^{-4}$: there the first norm is off by 1.1 percent.
# - PyTorch's own default is another one again: the machine epsilon, $1.2 \cdot 10^{-7}$ in float32.
# - Compare the first layer, not the logits: later layers hide it.
#
# Source: PyTorch documentation of `nn.RMSNorm`, https://docs.pytorch.org/docs/stable/generated/torch.nn.RMSNorm.html.
#
# ### What is QK-norm, and what does it change with a KV cache?
#
# - A norm on the queries and keys of each head. Without learned weights the scores stay within
#   $\pm\sqrt{\text{head\_dim}}$.
# - It keeps scores from growing in training until softmax is one-hot and the loss diverges.
# - It stands before the rotation, which keeps lengths. With a learned weight for each entry the order matters.
# - Normed and rotated keys go into the cache. Nothing is normed again when they are read.
#
# Source: Dehghani et al. 2023, section 2, arXiv:2302.05442.
#
# ### What would a profiler show, and what would you fuse?
#
# - In eager PyTorch six kernels: square, mean, eps added, root, two products. With half inputs two casts more.
# - All are limited by bandwidth: written out four reads and three writes of the tensor, fused one of each.
# - Fuse it with the residual addition before it. The sum has to be written anyway.
# - With the width split over devices it needs one more sum: a number for each token.
#
# Source: Hsu et al. 2024, Liger kernel, arXiv:2410.10989.
#
# ### How would you test it?
#
# - $\mathrm{norm}(3x) = \mathrm{norm}(x)$, and the mean square of the result is 1 where the weight is ones.
# - A vector with a large mean: otherwise LayerNorm passes as well.
# - Zeros: the result is 0 and the gradient finite. Entries of 300 in float16.
# - The dtype of the result for a float32 weight and a bfloat16 input.
#
# Source: PyTorch documentation of `gradcheck`,
# https://docs.pytorch.org/docs/stable/generated/torch.autograd.gradcheck.gradcheck.html.
