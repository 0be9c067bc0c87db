# %% [markdown]
# # Backpropagation by hand
#
# $$\frac{\partial L}{\partial x} = \frac{1}{\sigma} \big( g - \mathrm{mean}(g) - \hat{x} \cdot \mathrm{mean}(g \odot
# \hat{x}) \big), \qquad \hat{x} = \frac{x - \mu}{\sigma}, \quad g = w \odot \frac{\partial L}{\partial y}$$
#
# Three layers without autograd. The formula is the backward of layer norm, $y = w \odot \hat{x} + b$, with
# means over the last axis.
#
# **Write** in NumPy alone
#
# - `linear_forward(x, weight, bias)`: $y = x W^\top + b$ with `weight (out, in)`;
# - `layernorm_forward(x, weight, bias, eps=1e-5)`: over the last axis, with the biased variance;
# - `cross_entropy_forward(logits, targets)`: the mean loss over all targets;
# - `linear_backward(x, weight, grad_out)` and `layernorm_backward(x, weight, grad_out, eps=1e-5)`: each gives
#   `(grad_x, grad_weight, grad_bias)`;
# - `cross_entropy_backward(logits, targets, grad_out=1.0)`: `grad_logits`.
#
# `grad_out` is the gradient of the layer's output, for the loss a number. A backward gets what the forward got, and
# nothing that it computed.
#
# **Example.** For logits `[[0, 0]]` and targets `[1]` the loss is $\ln 2 = 0.6931$, and its gradient `[[0.5, -0.5]]`.
#
# **Builds on** linear, layernorm, cross_entropy. **Sources:** Rumelhart, Hinton, Williams 1986: Learning
# representations by back-propagating errors, Nature 323; Ba, Kiros, Hinton 2016: Layer Normalization,
# [arXiv:1607.06450](https://arxiv.org/abs/1607.06450).
#
# House rules hold: docs/house_rules.md.

# %% [markdown] tags=["contract"]
# <details><summary>Contract: Leading axes, Large logits, Large mean, Dtype, Errors</summary>
#
# - **Leading axes.** One or more. Gradients of weights and biases are sums over all of them, the loss is a mean.
# - **Large logits.** At ±1000 loss and gradient are finite, and NumPy warns of nothing.
# - **Large mean.** Layer norm is accurate in float32 where the mean of a row is 300 times its spread.
# - **Dtype.** float32 in, float32 out; float64 in, float64 out. Half precision is not asked for.
# - **Errors.** `targets` of another shape than `logits` without its last axis raise a `ValueError`, in forward and
#   backward.
#
# </details>

# %%
import numpy as np
from jaxtyping import Float, Int


# %%
def linear_forward(
    x: Float[np.ndarray, "*batch d_in"], weight: Float[np.ndarray, "d_out d_in"], bias: Float[np.ndarray, "d_out"]
) -> Float[np.ndarray, "*batch d_out"]:
    """x Wᵀ + b."""
    raise NotImplementedError


def linear_backward(
    x: Float[np.ndarray, "*batch d_in"],
    weight: Float[np.ndarray, "d_out d_in"],
    grad_out: Float[np.ndarray, "*batch d_out"],
) -> tuple[Float[np.ndarray, "*batch d_in"], Float[np.ndarray, "d_out d_in"], Float[np.ndarray, "d_out"]]:
    """Gradients of x, weight and bias."""
    raise NotImplementedError


# %%
def layernorm_forward(
    x: Float[np.ndarray, "*batch d_model"],
    weight: Float[np.ndarray, "d_model"],
    bias: Float[np.ndarray, "d_model"],
    eps: float = 1e-5,
) -> Float[np.ndarray, "*batch d_model"]:
    """Rows of mean 0 and variance 1, times the weight, plus the bias; `eps` is added to the variance."""
    raise NotImplementedError


def layernorm_backward(
    x: Float[np.ndarray, "*batch d_model"],
    weight: Float[np.ndarray, "d_model"],
    grad_out: Float[np.ndarray, "*batch d_model"],
    eps: float = 1e-5,
) -> tuple[Float[np.ndarray, "*batch d_model"], Float[np.ndarray, "d_model"], Float[np.ndarray, "d_model"]]:
    """Gradients of x, weight and bias."""
    raise NotImplementedError


# %%
def cross_entropy_forward(
    logits: Float[np.ndarray, "*batch vocab"], targets: Int[np.ndarray, "*batch"]
) -> Float[np.ndarray, ""]:
    """Mean of -log p(target). Raises ValueError where `targets` does not fit."""
    raise NotImplementedError


def cross_entropy_backward(
    logits: Float[np.ndarray, "*batch vocab"], targets: Int[np.ndarray, "*batch"], grad_out: float = 1.0
) -> Float[np.ndarray, "*batch vocab"]:
    """Gradient of the logits. Raises ValueError where `targets` does not fit."""
    raise NotImplementedError


# %% tags=["active-ipynb"]
# import sys
#
# sys.path.append("../..")  # the project
# from dojo import check
#
# check("manual_backprop")
