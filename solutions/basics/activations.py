# ---
# jupyter:
#   dojo:
#     title: sigmoid, silu and gelu
#     level: 2
#     minutes: 15
#     builds_on: []
#     sources:
#       - "Hendrycks, Gimpel 2016: Gaussian error linear units, arXiv:1606.08415"
#       - "Elfwing et al. 2017: Sigmoid-weighted linear units, arXiv:1702.03118"
# ---

# %% [markdown]
# # `sigmoid`, `silu` and `gelu`
#
# $$\sigma(x) = \frac{1}{1 + e^{-x}}, \qquad \mathrm{silu}(x) = x\,\sigma(x), \qquad
# \mathrm{gelu}(x) = x \cdot \tfrac12 \Big(1 + \mathrm{erf}\big(x / \sqrt 2\big)\Big)$$
#
# `silu` and `gelu` are soft gates: each multiplies its input by a share between 0 and 1 that grows with the input. The
# formulas are short. The hard part is far from zero, where $e^{-x}$ overflows: **values and gradients** must be right
# there too.
#
# **Write** three functions, `sigmoid(x)`, `silu(x)` and `gelu(x)`, elementwise on a floating tensor of any shape.
# `gelu` is the exact function with erf.
#
# Not allowed: `sigmoid`, `silu`, `gelu`, `glu`, `logsigmoid` and `softplus` of PyTorch, and their modules. `torch.exp`,
# `torch.erf` and `torch.tanh` are allowed.
#
# **Example.** At $x = \ln 3$: $e^{-x} = 1/3$, so `sigmoid` is $3/4$, and at $-\ln 3$ it is $1/4$. `silu(ln 3)` is
# $0.75 \cdot 1.0986 = 0.824$. A normal distribution has 84.13 percent below 1, so `gelu(1)` is 0.8413 and `gelu(-1)`
# is -0.1587.

# %% [markdown] tags=["contract"]
# - **Far from zero.** At 1e4 `sigmoid` is 1 with gradient 0, `silu` and `gelu` are `x` with gradient 1. At -1e4 all
#   three are 0 with gradient 0.
# - **Half precision.** Exponentials, erf and sums in float32: $e^{12}$ is infinite in float16. A product with `x` may
#   be rounded once more.

# %% tags=["active-ipynb", "example"]
# # The example, in numbers
# import math
# from statistics import NormalDist
#
# for x in (math.log(3), -math.log(3), 1.0, -1.0):
#     sigmoid, below = 1 / (1 + math.exp(-x)), NormalDist().cdf(x)
#     print(f"x {x:7.4f}   sigmoid {sigmoid:.4f}   silu {x * sigmoid:7.4f}   gelu {x * below:7.4f}")

# %% [markdown] tags=["hint"]
# At $x = -1000$ the number $e^{-x}$ is infinite. The value $1/\infty = 0$ is still right. What is the gradient, by the
# quotient rule, factor by factor?

# %% [markdown] tags=["hint"]
# $\sigma(x) = \frac{1}{1 + e^{-x}} = \frac{e^{x}}{1 + e^{x}}$. One form is safe for each sign. But `torch.where`
# computes **both** branches, and sends $0 \cdot \infty$ = nan back through the one that it does not take.

# %% [markdown] tags=["hint"]
# Clamp before you exponentiate: `exp(-x.clamp(min=0))` for the right branch, `exp(x.clamp(max=0))` for the left one.
# Or use $\tanh$, which never overflows: $\sigma(x) = \tfrac12 (1 + \tanh(x/2))$.

# %%
import math

import torch
from jaxtyping import Float
from torch import Tensor


# %%
def sigmoid(x: Float[Tensor, "*batch"]) -> Float[Tensor, "*batch"]:
    """1 / (1 + exp(-x)), with values and gradients that are right for every finite x. Computed in float32 at least."""
    ### BEGIN SOLUTION
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    # Each branch is kept finite where it is not taken: its gradient there is multiplied by 0, and 0 · inf is nan.
    positive, negative = wide.clamp(min=0), wide.clamp(max=0)
    right = 1 / (1 + torch.exp(-positive))
    left = torch.exp(negative) / (1 + torch.exp(negative))
    return torch.where(wide >= 0, right, left).to(x.dtype)
    ### END SOLUTION


# %%
def silu(x: Float[Tensor, "*batch"]) -> Float[Tensor, "*batch"]:
    """x · sigmoid(x). Computed in float32 at least. Elfwing et al. 2017, arXiv:1702.03118."""
    ### BEGIN SOLUTION
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    return (wide * sigmoid(wide)).to(x.dtype)
    ### END SOLUTION


# %%
def gelu(x: Float[Tensor, "*batch"]) -> Float[Tensor, "*batch"]:
    """x times the share of a standard normal distribution below x. Computed in float32 at least.

    Hendrycks, Gimpel 2016, arXiv:1606.08415.
    """
    ### BEGIN SOLUTION
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    share = 0.5 * (1 + torch.erf(wide / math.sqrt(2)))
    return (wide * share).to(x.dtype)
    ### END SOLUTION


# %% [markdown] tags=["solution"]
# ## Why it is done this way
#
# **The naive sigmoid is right in the forward and nan in the backward.** The derivative of $1/(1+e^{-x})$ is
# $e^{-x} / (1+e^{-x})^2$, and autograd multiplies its factors one after another: at $x = -1000$ that is
# $\infty \cdot 0$.
#
# **`where` does not protect the branch that is not taken.** Its gradient is multiplied by 0, and $0 \cdot \infty$ is
# nan. So the argument of each branch is clamped first. The trick has a name, the double where.
#
# **At exactly 0** the slope must be $1/4$. $e^{-|x|}$ looks like a shorter way, but PyTorch gives $|x|$ the slope 0
# there.
#
# **Where digits are lost.** For very negative x, $1 + \mathrm{erf}$ subtracts two numbers near 1. Few digits of the
# product with x are then right. But the product is tiny, and so is its absolute error, which is what counts for a
# layer.
#
# **What it costs.** A dozen FLOPs an entry for 4 bytes moved in bfloat16: memory-bound. Each step in eager PyTorch is a
# kernel that reads and writes the tensor in HBM, and autograd saves several of them. Fused it is one read and one
# write: for 8,192 tokens of width 14,336 70 + 70 µs on an H100, and only the input is saved.
#
# ## The other formulation
#
# $\tfrac12 (1 + \tanh(x/2))$ is the sigmoid in one line, safe in both directions. $\mathrm{gelu}$ by
# $\tfrac12 x\,\mathrm{erfc}(-x/\sqrt 2)$ keeps relative accuracy on the left side.
#
# ## The usual mistakes
#
# - `1 / (1 + exp(-x))`: nan gradients below about -88 in float32.
# - `torch.where` with an overflowing branch: the values are right and the gradients nan.
# - `erf(x)` without the root of 2, or the factor 1/2 forgotten.
# - The tanh approximation, or $x\,\sigma(1.702x)$, called gelu.
# - Computing in float16: $e^{12}$ is already infinite.

# %% [markdown] tags=["solution", "questions"]
# ## What interviewers ask next
#
# ### Which one would you choose: silu, exact gelu, or gelu with tanh?
#
# - For a trained checkpoint the one it was trained with. There is no choice.
# - silu and gelu differ by at most 0.20, the tanh form from exact gelu by at most $5 \cdot 10^{-4}$,
#   $x\,\sigma(1.702x)$ by 0.02.
# - For a new model quality is about the same. Gated layers mostly take silu.
# - Against ReLU both pass some gradient below 0, so no unit is off for all data.
#
# Source: Hendrycks, Gimpel 2016, section 2, arXiv:1606.08415.
#
# ### Why does `torch.where` not save a branch that overflows?
#
# - Both branches are computed, and autograd goes back through both.
# - The branch not taken gets the gradient 0, times an infinite local derivative: $0 \cdot \infty$ is nan.
# - Its argument must be made safe first, by a clamp or an inner `where`.
# - A test of values alone never sees it. Test the gradient far from 0.
#
# Source: JAX documentation, frequently asked questions, https://docs.jax.dev/en/latest/faq.html.
#
# ### How is a loss on a sigmoid kept stable, and what is it for the logit `x` and the label `y`?
#
# - Never take the logarithm of a sigmoid: $\ln \sigma(x) = -\mathrm{softplus}(-x)$ in one step.
# - The loss is $\max(x, 0) - x y + \ln(1 + e^{-|x|})$: 1,000 at a logit of 1,000 and label 0, where the naive one is
#   infinite.
# - The gradient is $\sigma(x) - y$, bounded for every logit.
#
# Answer: `x * (1 - y) + log(1 + exp(-x))`, within 5 %. Settings: `x` 2, 5, 30; `y` 0, 0.5.
#
# Source: PyTorch documentation of `nn.BCEWithLogitsLoss`,
# https://docs.pytorch.org/docs/stable/generated/torch.nn.BCEWithLogitsLoss.html.
#
# ### How many MB does autograd save for one fused silu over `tokens` tokens of width `d_ff` in bfloat16?
#
# - Its input alone, two bytes an entry. The output is saved again by the product that follows.
# - Written out, each of five kernels may save a tensor of its own.
# - Recomputing it from the input is cheap: that is the first thing to drop when memory is short.
#
# Answer: `2 * tokens * d_ff / 1e6` MB, within 10 %. Settings: `tokens` 4096, 8192; `d_ff` 11008, 14336, 28672.
#
# Source: Korthikanti et al. 2022, section 4.1, arXiv:2205.05198.
#
# ### What breaks in half precision?
#
# - $e^{-x}$ is infinite in float16 from $x = -11.1$ on. The value survives as $1/\infty = 0$, its gradient does not.
# - bfloat16 has eight significant bits: $\sigma(6.5)$ is already 1, and its slope as computed from the output is 0.
# - Every intermediate that is rounded adds an error. Compute in float32 and round once.
# - It costs no time: the kernel is memory-bound, and its traffic stays the same.
#
# Source: Kalamkar et al. 2019, arXiv:1905.12322.
