# ---
# jupyter:
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
# Activations grow and shrink from layer to layer. A norm brings every vector to the same length, up to a learned factor
# for each entry. RMSNorm divides by the root mean square of the last dimension and subtracts nothing. Llama, Qwen and
# most models since normalize so.
#
# **Write** `RMSNorm(d_model, eps=1e-5, *, device=None, dtype=None)` with `forward(x)`, from `(..., d_model)` to the
# same shape. Its one parameter is `weight`, of shape `(d_model,)`, ones at first.
#
# Not allowed: `nn.RMSNorm`, `F.rms_norm`, `nn.LayerNorm`, `F.layer_norm`.
#
# **Example.** $x = (3, 4)$ has the mean square 12.5 and the root 3.536. With ones as weight the result is
# $(0.849, 1.131)$. With `weight` = $(2, 1)$ it is $(1.697, 1.131)$.

# %% [markdown] tags=["contract"]
# - **Eps.** It stands inside the root, and is added to every mean square: inputs as small as `eps` show it. A vector of
#   zeros gives zeros, with finite gradients.
# - **Half precision.** Square, mean and root in float32: the square of 300 is beyond float16. The normed vector may be
#   rounded before the weight multiplies, as Llama does, or after it.

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
# **What it costs.** About 4 FLOPs an entry and, fused, one read and one write of the tensor: an arithmetic intensity of
# 1 FLOP a byte in bfloat16, where an H100 needs 300 to be busy. The norm is memory-bound, so what counts is how often
# the tensor goes to HBM. At a width of 4,096 and 8,192 tokens it has 67 MB in bfloat16: 40 µs at 3.35 TB/s for one read
# and one write, several times that in eager PyTorch. A fused kernel saves 4 bytes a vector for the backward: its root.
#
# ## The other formulation
#
# Llama rounds before the weight: `self.weight * normed.to(x.dtype)`. One rounding more, the same to within a unit in
# the last place; but a weight in float32 makes the result float32. $\sqrt n\, x / \lVert x \rVert$ is the same without
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
# - The paper's hypothesis: scaling is what steadies training, centering is not.
# - It saves one reduction and the bias. Quality was equal in their tests.
# - The mean can still carry information that LayerNorm would remove.
#
# Source: Zhang, Sennrich 2019, arXiv:1910.07467.
#
# ### What is the gradient, and what is kept for it?
#
# - With $r$ the root, $\hat x = x/r$ and $g$ the gradient times the weight:
#   $\frac1r (g - \hat x\,\mathrm{mean}(g\,\hat x))$.
# - The part along $x$ is removed, since scaling the input changes nothing.
# - Kept are the input and one number for each vector. The gradient of the weight sums $g\, \hat x$ over all tokens.
#
# Source: Zhang, Sennrich 2019, section 4, arXiv:1910.07467.
#
# ### How many µs does a fused kernel take at least for `tokens` tokens of width `width` in bfloat16, on an H100?
#
# - It reads and writes the tensor once: two times two bytes an entry.
# - HBM3 gives 3.35 TB/s. The FLOPs do not count: about 1 a byte.
# - In eager PyTorch square, mean, eps, root and two products are kernels of their own, with a cast before and after:
#   several times the traffic. Fuse it with the residual addition before it, whose sum has to be written anyway.
#
# Answer: `4 * tokens * width / 3.35e12 * 1e6` µs, within 10 %. Settings: `tokens` 2048, 8192, 32768; `width` 4096,
# 8192.
#
# Source: Hsu et al. 2024, Liger kernel, arXiv:2410.10989.
#
# ### A checkpoint was trained with eps 1e-6 and you run 1e-5: by how many percent is a vector of deviation `std` off?
#
# - Its mean square is $\sigma^2$, so the two results differ by $\sqrt{(\sigma^2 + 10^{-5})/(\sigma^2 + 10^{-6})} - 1$.
# - At a deviation of 1 nothing shows. Embeddings of deviation 0.02 are off by 1.1 percent at the first norm.
# - Compare the first layer, not the logits: later layers hide it.
#
# Answer: `100 * (sqrt((std**2 + 1e-5) / (std**2 + 1e-6)) - 1)` percent, within 15 %. Settings: `std` 0.01, 0.02, 0.05.
#
# Source: PyTorch documentation of `nn.RMSNorm`, https://docs.pytorch.org/docs/stable/generated/torch.nn.RMSNorm.html.
#
# ### What is QK-norm, and what does it change with a KV cache?
#
# - A norm on the queries and keys of each head. Without learned weights the scores stay within
#   $\pm\sqrt{\text{head\_dim}}$.
# - It keeps scores from growing in training until softmax is one-hot and the loss diverges.
# - It stands before the rotation, which keeps lengths. Normed and rotated keys go into the cache.
#
# Source: Dehghani et al. 2023, section 2, arXiv:2302.05442.
