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
#
# **Sources:** Hendrycks, Gimpel 2016: Gaussian error linear units,
# [arXiv:1606.08415](https://arxiv.org/abs/1606.08415); Elfwing et al. 2017: Sigmoid-weighted linear units,
# [arXiv:1702.03118](https://arxiv.org/abs/1702.03118).
#
# House rules hold: docs/house_rules.md.

# %% [markdown] tags=["contract"]
# <details><summary>Contract: Far from zero, Half precision</summary>
#
# - **Far from zero.** At 1e4 `sigmoid` is 1 with gradient 0, `silu` and `gelu` are `x` with gradient 1. At -1e4 all
#   three are 0 with gradient 0.
# - **Half precision.** Exponentials, erf and sums in float32: $e^{12}$ is infinite in float16. A product with `x` may
#   be rounded once more.
#
# </details>

# %% tags=["active-ipynb", "example"]
# # The example, in numbers
# import math
# from statistics import NormalDist
#
# for x in (math.log(3), -math.log(3), 1.0, -1.0):
#     sigmoid, below = 1 / (1 + math.exp(-x)), NormalDist().cdf(x)
#     print(f"x {x:7.4f}   sigmoid {sigmoid:.4f}   silu {x * sigmoid:7.4f}   gelu {x * below:7.4f}")

# %%
import math

import torch
from jaxtyping import Float
from torch import Tensor


# %%
def sigmoid(x: Float[Tensor, "*batch"]) -> Float[Tensor, "*batch"]:
    """1 / (1 + exp(-x)), with values and gradients that are right for every finite x. Computed in float32 at least."""
    raise NotImplementedError


# %%
def silu(x: Float[Tensor, "*batch"]) -> Float[Tensor, "*batch"]:
    """x · sigmoid(x). Computed in float32 at least. Elfwing et al. 2017, arXiv:1702.03118."""
    raise NotImplementedError


# %%
def gelu(x: Float[Tensor, "*batch"]) -> Float[Tensor, "*batch"]:
    """x times the share of a standard normal distribution below x. Computed in float32 at least.

    Hendrycks, Gimpel 2016, arXiv:1606.08415.
    """
    raise NotImplementedError


# %% tags=["active-ipynb"]
# import sys
#
# sys.path.append("../..")  # the project
# from dojo import check
#
# check("activations")
