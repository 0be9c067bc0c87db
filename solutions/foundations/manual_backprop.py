# ---
# jupyter:
#   dojo:
#     title: Backpropagation by hand
#     level: 3
#     minutes: 30
#     builds_on: [linear, layernorm, cross_entropy]
#     sources:
#       - "Rumelhart, Hinton, Williams 1986: Learning representations by back-propagating errors, Nature 323"
#       - "Ba, Kiros, Hinton 2016: Layer Normalization, arXiv:1607.06450"
# ---

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

# %% [markdown] tags=["contract"]
# - **Leading axes.** One or more. Gradients of weights and biases are sums over all of them, the loss is a mean.
# - **Large logits.** At ±1000 loss and gradient are finite, and NumPy warns of nothing.
# - **Large mean.** Layer norm is accurate in float32 where the mean of a row is 300 times its spread.
# - **Dtype.** float32 in, float32 out; float64 in, float64 out. Half precision is not asked for.
# - **Errors.** `targets` of another shape than `logits` without its last axis raise a `ValueError`, in forward and
#   backward.

# %% [markdown] tags=["hint"]
# Shapes decide most of it: `grad_weight` is `(out, in)`, and only one product of `grad_out` and `x` has that shape.
# What was broadcast in the forward is summed in the backward.

# %% [markdown] tags=["hint"]
# The derivative of $\ln \sum_j e^{z_j}$ by $z_i$ is softmax, so the loss of a token has the gradient $p - y$, where $y$
# is one-hot. A mean over $n$ tokens divides by $n$.

# %% [markdown] tags=["hint"]
# Write one function that gives $\hat{x}$ and $\sigma$, from centered rows, and one for the log-softmax, from logits
# less their maximum. Forward and backward both call them. `x.reshape(-1, x.shape[-1])` makes all leading axes one.

# %%
import numpy as np
from jaxtyping import Float, Int


# %%
def linear_forward(
    x: Float[np.ndarray, "*batch d_in"], weight: Float[np.ndarray, "d_out d_in"], bias: Float[np.ndarray, "d_out"]
) -> Float[np.ndarray, "*batch d_out"]:
    """x Wᵀ + b."""
    ### BEGIN SOLUTION
    return x @ weight.T + bias
    ### END SOLUTION


def linear_backward(
    x: Float[np.ndarray, "*batch d_in"],
    weight: Float[np.ndarray, "d_out d_in"],
    grad_out: Float[np.ndarray, "*batch d_out"],
) -> tuple[Float[np.ndarray, "*batch d_in"], Float[np.ndarray, "d_out d_in"], Float[np.ndarray, "d_out"]]:
    """Gradients of x, weight and bias."""
    ### BEGIN SOLUTION
    rows = x.reshape(-1, x.shape[-1])
    grad_rows = grad_out.reshape(-1, grad_out.shape[-1])
    return grad_out @ weight, grad_rows.T @ rows, grad_rows.sum(axis=0)
    ### END SOLUTION


# %%
### BEGIN SOLUTION
def standardize(x, eps):
    centered = x - x.mean(axis=-1, keepdims=True)
    std = np.sqrt(np.square(centered).mean(axis=-1, keepdims=True) + eps)
    return centered / std, std


### END SOLUTION
def layernorm_forward(
    x: Float[np.ndarray, "*batch d_model"],
    weight: Float[np.ndarray, "d_model"],
    bias: Float[np.ndarray, "d_model"],
    eps: float = 1e-5,
) -> Float[np.ndarray, "*batch d_model"]:
    """Rows of mean 0 and variance 1, times the weight, plus the bias; `eps` is added to the variance."""
    ### BEGIN SOLUTION
    normed, _ = standardize(x, eps)
    return normed * weight + bias
    ### END SOLUTION


def layernorm_backward(
    x: Float[np.ndarray, "*batch d_model"],
    weight: Float[np.ndarray, "d_model"],
    grad_out: Float[np.ndarray, "*batch d_model"],
    eps: float = 1e-5,
) -> tuple[Float[np.ndarray, "*batch d_model"], Float[np.ndarray, "d_model"], Float[np.ndarray, "d_model"]]:
    """Gradients of x, weight and bias."""
    ### BEGIN SOLUTION
    normed, std = standardize(x, eps)
    leading = tuple(range(x.ndim - 1))
    grad_normed = grad_out * weight
    along = (grad_normed * normed).mean(axis=-1, keepdims=True)
    grad_x = (grad_normed - grad_normed.mean(axis=-1, keepdims=True) - normed * along) / std
    return grad_x, (grad_out * normed).sum(axis=leading), grad_out.sum(axis=leading)
    ### END SOLUTION


# %%
### BEGIN SOLUTION
def log_softmax(logits):
    shifted = logits - logits.max(axis=-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))


def check_shapes(logits, targets):
    if targets.shape != logits.shape[:-1]:
        raise ValueError(f"targets of shape {targets.shape} do not fit logits of shape {logits.shape}")


### END SOLUTION
def cross_entropy_forward(
    logits: Float[np.ndarray, "*batch vocab"], targets: Int[np.ndarray, "*batch"]
) -> Float[np.ndarray, ""]:
    """Mean of -log p(target). Raises ValueError where `targets` does not fit."""
    ### BEGIN SOLUTION
    check_shapes(logits, targets)
    chosen = np.take_along_axis(log_softmax(logits), targets[..., None], axis=-1)
    return -chosen.mean()
    ### END SOLUTION


def cross_entropy_backward(
    logits: Float[np.ndarray, "*batch vocab"], targets: Int[np.ndarray, "*batch"], grad_out: float = 1.0
) -> Float[np.ndarray, "*batch vocab"]:
    """Gradient of the logits. Raises ValueError where `targets` does not fit."""
    ### BEGIN SOLUTION
    check_shapes(logits, targets)
    probs = np.exp(log_softmax(logits))
    one_hot = targets[..., None] == np.arange(logits.shape[-1])
    return (probs - one_hot) * (grad_out / targets.size)
    ### END SOLUTION


# %% [markdown] tags=["solution"]
# ## Why it is done this way
#
# **Linear.** $y_{ro} = \sum_i x_{ri} w_{oi} + b_o$. A weight meets every row, so its gradient is a sum over rows, which
# is one matrix product: `grad_out.T @ x`.
#
# **Layer norm.** $\hat{x}$ is unchanged when a constant is added to the row, and nearly so when the row is scaled. So
# none flows along the vector of ones, nor along $\hat{x}$: the two means take these two components out of $g$, and
# what is left is scaled by $1 / \sigma$. With `eps` the second statement is not exact, yet the formula is, as long as
# $\hat{x}$ and $\sigma$ both hold the `eps`.
#
# **Cross-entropy.** Softmax, logarithm and mean together have the gradient $(p - y) / n$. Written apart the backward of
# the logarithm divides by $p$, which is 0 in float32 from about 104 below the largest logit on.
#
# **Numbers.** The maximum is subtracted before the exponential. The variance is that of centered rows: with a mean of
# 300 and a spread of 1, $E[x^2] - E[x]^2$ takes 90,000 from 90,001, where neighboring float32 numbers
# are 0.008 apart.
#
# **What it costs.** The backward of linear is two products of the forward's size, so twice its FLOPs. That of layer
# norm reads `x` and `grad_out` and writes `grad_x`: 12 bytes an entry in float32 if it is fused, and memory-bound.
#
# ## The usual mistakes
#
# - A `.mean` where the backward of a broadcast is a sum.
# - The weight of layer norm left out of $g$, or applied after the means.
# - A batch of sequences: `shape[0]` is not the number of tokens.
#
# Central differences in float64 find all three: with a step of $10^{-5}$ some nine digits agree.

# %% [markdown] tags=["solution", "questions"]
# ## What interviewers ask next
#
# ### How many TFLOP does a training step of one linear layer take, `d` by `d` features, `tokens` tokens?
#
# - A product of `tokens × d` and `d × d` takes $2 \cdot \text{tokens} \cdot d^2$ FLOPs: multiply and add.
# - The forward is one product, the backward two: one for the input, one for the weight.
# - Over a whole model this is the rule of 6 FLOPs a parameter and token.
#
# Answer: `6 * tokens * d**2 / 1e12` TFLOP, within 3 %. Settings: `tokens` 2048, 8192; `d` 4096, 8192.
#
# Source: Kaplan et al. 2020, section 2.1, arXiv:2001.08361.
#
# ### What does layer norm keep for its backward?
#
# - The input, and a mean and a $\sigma$ for each row; or $\hat{x}$ and $\sigma$.
# - PyTorch keeps the input, which the residual stream holds anyhow, and two float32 numbers a row.
# - $\hat{x}$ from the output needs a division by the weight, which may be 0.
#
# Source: Ba, Kiros, Hinton 2016, arXiv:1607.06450.
#
# ### Why are softmax and cross-entropy one operation?
#
# - The gradient $p - y$ lies between -1 and 1, and no small $p$ is divided by.
# - $\ln p$ of the target is its logit less the logsumexp: nothing underflows.
# - Fused, the probabilities need not go to memory: a row of logits is read, and its gradient may take its place.
#
# Source: Hsu et al. 2024, section 3.2, arXiv:2410.10989.
#
# ### How many GB does the gradient of the logits take in float32, for `tokens` tokens and a vocabulary of `vocab`?
#
# - It has an entry for each token and each id: as large as the logits, which stand beside it.
# - Chunks of tokens need a part of it at a time: loss and gradient of a chunk, and its share of the head's gradient.
# - In bfloat16 it is half of that.
#
# Answer: `4 * tokens * vocab / 1e9` GB, within 5 %. Settings: `tokens` 4096, 8192, 16384; `vocab` 50257, 128256.
#
# Source: Hsu et al. 2024, section 3.2, arXiv:2410.10989.
