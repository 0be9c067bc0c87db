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
# ---

# %% [markdown]
# # Sigmoid, SiLU and GELU
#
# $$\sigma(x) = \frac{1}{1 + e^{-x}}, \qquad \mathrm{silu}(x) = x\,\sigma(x), \qquad
# \mathrm{gelu}(x) = x \cdot \tfrac12 \Big(1 + \mathrm{erf}\big(x / \sqrt 2\big)\Big)$$
#
# SiLU and GELU are soft gates: each lets its input through by a share between 0 and 1 that grows with the input. The
# formulas are short. What makes the kata is that **values and gradients** must be right far from zero, where $e^{-x}$
# overflows.
#
# **Write** three functions, `sigmoid(x)`, `silu(x)` and `gelu(x)`. Each works on every element of a floating tensor
# of any shape, and returns a tensor of the same shape and dtype.
#
# - **gelu** is the exact one, by the error function, not the approximation by tanh.
# - **Far from zero** everything is finite and right, values and gradients, as at ±1e4: `sigmoid` is 1 and 0 there with
#   gradient 0, `silu` and `gelu` are `x` and 0 with gradients 1 and 0.
# - **Dtype.** float16 and bfloat16 are computed in float32 and rounded once, at the end. float64 in, float64 out;
#   float32 accuracy is enough.
# - **`x` is not modified**, and may be non-contiguous or expanded. No loops.
# - **Not graded:** the last digits of values that are as good as 0, such as `gelu(-5)`, and what inf and nan give.
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
