# ---
# jupyter:
#   dojo:
#     title: A network in NumPy, from softmax to training
#     level: 2
#     minutes: 45
#     builds_on: [softmax, cross_entropy, manual_backprop]
#     sources:
#       - "Rumelhart, Hinton, Williams 1986: Learning representations by back-propagating errors, Nature 323"
#       - "Ba, Kiros, Hinton 2016: Layer Normalization, arXiv:1607.06450"
#       - "He et al. 2015: Delving Deep into Rectifiers, arXiv:1502.01852"
# ---

# %% [markdown]
# # A network in NumPy, from softmax to training
#
# NumPy and nothing else: no autograd, no library of layers. One file grows from a softmax to a network that trains.
# Arrays are float32 or float64. A backward gets what its forward got, and nothing that it computed.

# %% [markdown] tags=["stage"]
# ## Stage 1 · 8 min
#
# "Write softmax, and the cross-entropy of logits with class ids."
#
# ```python
# def softmax(x):
#     """Softmax of `x (..., classes)` over its last axis."""
#     ...
#
#
# def cross_entropy(logits, targets):
#     """Mean loss of `logits (..., classes)` and integer `targets (...)`, as a float."""
#     ...
# ```

# %% [markdown] tags=["contract"]
# - **Large logits.** At ±1000 both are finite and accurate, and NumPy warns of nothing: a loss of 2,000 is 2,000.
# - **Mean.** Over all targets, however many leading axes they have.
# - **Dtype.** Softmax gives float32 for float32, float64 for float64. The loss is a number of either kind.

# %% [markdown] tags=["hint"]
# A constant taken from all logits of a row changes no probability. Which one keeps every exponential at most 1?

# %% [markdown] tags=["hint"]
# $-\ln p_t = \ln \sum_j e^{z_j} - z_t$, with the maximum taken from all logits first: no small number meets a
# logarithm. `np.take_along_axis` picks $z_t$.

# %% [markdown] tags=["stage"]
# ## Stage 2 · 12 min
#
# "Now the gradient of that loss by the logits, and a linear layer, forward and backward." `dout` is the gradient of the
# layer's output.
#
# ```python
# def cross_entropy_grad(logits, targets):
#     """Gradient of the mean loss by `logits (..., classes)`, of their shape."""
#     ...
#
#
# def linear(x, w, b):
#     """`x (..., in)` times `w (out, in)` plus `b (out,)`, to `(..., out)`."""
#     ...
#
#
# def linear_grad(x, w, dout):
#     """Gradients dx, dw and db for `dout (..., out)`."""
#     ...
# ```

# %% [markdown] tags=["contract"]
# - **Leading axes.** One or more. `dw` and `db` are sums over all of them.
# - **Division by n.** The loss is a mean, so its gradient is divided by the number of all targets; nothing else is.
# - **Shapes.** Each gradient has the shape of what it belongs to, `dw` so `(out, in)`; where `out` equals `in` too.

# %% [markdown] tags=["hint"]
# The derivative of $\ln \sum_j e^{z_j}$ by $z_i$ is softmax. What does the target's own logit add?

# %% [markdown] tags=["hint"]
# Shapes decide the products: only one of `dout` and `x` is `(out, in)`. `x.reshape(-1, x.shape[-1])` makes all leading
# axes one.

# %% [markdown] tags=["stage"]
# ## Stage 3 · 10 min
#
# "LayerNorm over the last axis, forward and backward."
#
# ```python
# def layernorm(x, weight, bias, eps=1e-5):
#     """`x (..., d)` normalized over its last axis, times `weight (d,)`, plus `bias (d,)`."""
#     ...
#
#
# def layernorm_grad(x, weight, dout, eps=1e-5):
#     """Gradients dx, dweight and dbias for `dout (..., d)`."""
#     ...
# ```

# %% [markdown] tags=["contract"]
# - **Variance.** Biased, divided by `d`; `eps` is added to it under the root.
# - **Cancellation.** Accurate in float32 where the mean of a row is 300 times its spread.

# %% [markdown] tags=["hint"]
# Each entry moves the mean and the variance of its row, and with them all others: `dx` has three terms.

# %% [markdown] tags=["hint"]
# With $\hat{x} = (x - \mu) / \sigma$ and $g = w \odot \mathrm{dout}$, and means over the last axis,
# $\mathrm{dx} = (g - \mathrm{mean}(g) - \hat{x} \cdot \mathrm{mean}(g \odot \hat{x})) / \sigma$.

# %% [markdown] tags=["stage"]
# ## Stage 4 · 15 min
#
# "Put it together: train a network with one hidden layer, linear, ReLU, linear, on all points at once."
#
# ```python
# def train(x, y, hidden, classes, steps, lr, rng):
#     """Train on `x (n, d)` and integer `y (n,)`, drawing from `rng`, a NumPy generator: gives params and losses.
#
#     params: {"w1": (hidden, d), "b1": (hidden,), "w2": (classes, hidden), "b2": (classes,)}
#     losses: the mean loss before each step, a list of `steps` numbers. With `steps=0` params are the initial ones.
#     """
#     ...
# ```

# %% [markdown] tags=["contract"]
# - **Initial values.** Weights are normal of variance 2 / fan-in (He), drawn from `rng` and from nowhere else, in the
#   dtype of `x`. Biases are 0.
# - **Activation.** ReLU after the first layer, none after the second.
# - **Steps.** Plain gradient descent: all parameters move at the same time, by `lr` times their gradient of the mean
#   loss.
# - **Check.** Gradients agree with central differences in float64: look before you train.
# - **Outcome.** On two spirals, 200 points of two classes, 64 hidden units and 2,000 steps at `lr=1` classify at least
#   95 %, whatever was drawn.
# - **Cost.** A step is a fixed number of operations on arrays: no loop over points or units.

# %% [markdown] tags=["hint"]
# All parts are there. New are the initial values and the backward of ReLU: what flows back through a unit that gave 0?

# %% [markdown] tags=["hint"]
# Compute all four gradients first, and only then move the parameters: the gradient of the hidden layer goes through the
# second weight as it was in the forward.

# %%
import math

import numpy as np

### BEGIN SOLUTION
from jaxtyping import Float, Int

### END SOLUTION


# %%
### BEGIN SOLUTION
def softmax(x: Float[np.ndarray, "*batch classes"]) -> Float[np.ndarray, "*batch classes"]:
    """Softmax over the last axis."""
    exps = np.exp(x - x.max(axis=-1, keepdims=True))
    return exps / exps.sum(axis=-1, keepdims=True)


def cross_entropy(logits: Float[np.ndarray, "*batch classes"], targets: Int[np.ndarray, "*batch"]) -> float:
    """Mean of -log p(target)."""
    shifted = logits - logits.max(axis=-1, keepdims=True)
    chosen = np.take_along_axis(shifted, targets[..., None], axis=-1)[..., 0]
    return float((np.log(np.exp(shifted).sum(axis=-1)) - chosen).mean())


### END SOLUTION


# %%
### BEGIN SOLUTION
def cross_entropy_grad(
    logits: Float[np.ndarray, "*batch classes"], targets: Int[np.ndarray, "*batch"]
) -> Float[np.ndarray, "*batch classes"]:
    """Gradient of the mean loss by the logits."""
    one_hot = targets[..., None] == np.arange(logits.shape[-1])
    return (softmax(logits) - one_hot) / targets.size


def linear(
    x: Float[np.ndarray, "*batch d_in"], w: Float[np.ndarray, "d_out d_in"], b: Float[np.ndarray, "d_out"]
) -> Float[np.ndarray, "*batch d_out"]:
    """x wᵀ + b."""
    return x @ w.T + b


def linear_grad(
    x: Float[np.ndarray, "*batch d_in"], w: Float[np.ndarray, "d_out d_in"], dout: Float[np.ndarray, "*batch d_out"]
) -> tuple[Float[np.ndarray, "*batch d_in"], Float[np.ndarray, "d_out d_in"], Float[np.ndarray, "d_out"]]:
    """Gradients of x, w and b."""
    rows, drows = x.reshape(-1, x.shape[-1]), dout.reshape(-1, dout.shape[-1])
    return dout @ w, drows.T @ rows, drows.sum(axis=0)


### END SOLUTION


# %%
### BEGIN SOLUTION
def standardize(x, eps):
    centered = x - x.mean(axis=-1, keepdims=True)
    std = np.sqrt(np.square(centered).mean(axis=-1, keepdims=True) + eps)
    return centered / std, std


def layernorm(
    x: Float[np.ndarray, "*batch d_model"],
    weight: Float[np.ndarray, "d_model"],
    bias: Float[np.ndarray, "d_model"],
    eps: float = 1e-5,
) -> Float[np.ndarray, "*batch d_model"]:
    """Rows of mean 0 and variance 1, times the weight, plus the bias."""
    normed, _ = standardize(x, eps)
    return normed * weight + bias


def layernorm_grad(
    x: Float[np.ndarray, "*batch d_model"],
    weight: Float[np.ndarray, "d_model"],
    dout: Float[np.ndarray, "*batch d_model"],
    eps: float = 1e-5,
) -> tuple[Float[np.ndarray, "*batch d_model"], Float[np.ndarray, "d_model"], Float[np.ndarray, "d_model"]]:
    """Gradients of x, weight and bias."""
    normed, std = standardize(x, eps)
    leading = tuple(range(x.ndim - 1))
    dnormed = dout * weight
    along = (dnormed * normed).mean(axis=-1, keepdims=True)
    dx = (dnormed - dnormed.mean(axis=-1, keepdims=True) - normed * along) / std
    return dx, (dout * normed).sum(axis=leading), dout.sum(axis=leading)


### END SOLUTION


# %%
### BEGIN SOLUTION
def train(
    x: Float[np.ndarray, "n d"],
    y: Int[np.ndarray, "n"],
    hidden: int,
    classes: int,
    steps: int,
    lr: float,
    rng: np.random.Generator,
) -> tuple[dict[str, np.ndarray], list[float]]:
    """Parameters after so many steps of gradient descent, and the mean loss before each."""

    def he(fan_out, fan_in):
        return rng.standard_normal((fan_out, fan_in), dtype=x.dtype) * math.sqrt(2 / fan_in)

    params = {
        "w1": he(hidden, x.shape[1]),
        "b1": np.zeros(hidden, dtype=x.dtype),
        "w2": he(classes, hidden),
        "b2": np.zeros(classes, dtype=x.dtype),
    }
    losses = []
    for _ in range(steps):
        before = linear(x, params["w1"], params["b1"])
        active = np.maximum(before, 0)
        logits = linear(active, params["w2"], params["b2"])
        losses.append(cross_entropy(logits, y))
        grads = {}
        dactive, grads["w2"], grads["b2"] = linear_grad(active, params["w2"], cross_entropy_grad(logits, y))
        _, grads["w1"], grads["b1"] = linear_grad(x, params["w1"], dactive * (before > 0))
        for name, grad in grads.items():
            params[name] -= lr * grad
    return params, losses


### END SOLUTION


# %% [markdown] tags=["solution"]
# ## What each stage is about
#
# **Stage 1.** $e^{z}$ overflows float32 from $z = 89$ on, and $p$ underflows to 0 from 104 below the maximum. Taking
# the maximum away mends the first. The second is mended by never making $p$: the loss is the logarithm of a sum that is
# at least 1, less a logit. A `1e-12` inside the logarithm stops every loss at 27.6, and there its gradient vanishes.
#
# **Stage 2.** The gradient of softmax and loss together is $(p - y) / n$, between $-1/n$ and $1/n$. A weight meets
# every row, so its gradient is a sum over rows, which is one product.
#
# **Stage 3.** The output hardly changes when a row is shifted or scaled, so nothing flows along the vector of ones nor
# along $\hat{x}$: the two means take these out. With a mean of 300, $E[x^2] - E[x]^2$ takes 90,000 from 90,001, where
# neighboring float32 numbers are 0.008 apart.
#
# **Stage 4.** A ReLU halves the second moment of what it gets, so weights of variance 2 / fan-in keep it from layer to
# layer. Zeros would leave all units alike, and here without any gradient: each gives 0, and none gets anything back.
#
# **What it costs.** The forward is one product a layer, 2 FLOPs a weight and row, the backward two, for the input and
# for the weight; the first layer's `dx` goes nowhere and could be spared. A language model's logits, 4,096 tokens by
# 128,256 ids, take 2.1 GB in float32, and their gradient as many.
#
# ## The usual mistakes
#
# - The logarithm of softmax; a maximum over the whole array.
# - `len(logits)` for the number of targets: with leading axes it is the batch.
# - The second weight moved before the gradient of the first has gone through it.
# - `rng.normal` is float64: `x @ w` is then float64 too, at half the speed.

# %% [markdown] tags=["solution", "questions"]
# ## What interviewers ask next
#
# ### Why is the gradient of softmax and cross-entropy p − y?
#
# - The loss is $\ln \sum_j e^{z_j} - z_t$: the first term has softmax for its gradient, the second the one-hot row.
# - It is linear in the error, as for least squares: a confident mistake gets a gradient of nearly 1, not of nearly 0.
# - Apart, the backward of the logarithm divides by a $p$ that may have underflowed.
#
# Source: Goodfellow, Bengio, Courville 2016, section 6.2.2.3, https://www.deeplearningbook.org/contents/mlp.html.
#
# ### How many GFLOP does a step need at least, for `n` points of `features`, `hidden` units and `classes`?
#
# - A product of `n × a` and `a × b` takes $2 n a b$ FLOPs: the forward has one a layer.
# - The backward has two a layer, for the weight and for the input: 2 : 1.
# - The gradient of the first layer's input is not needed: two products there, three in the second layer.
#
# Answer: `(4 * features + 6 * classes) * n * hidden / 1e9` GFLOP, within 5 %. Settings: `n` 4096, 16384;
# `features` 784, 3072; `hidden` 1024, 4096; `classes` 10, 1000.
#
# Source: Kaplan et al. 2020, section 2.1, arXiv:2001.08361.
#
# ### How many MB wait in float32 for the backward, beside the `n` points, with `hidden` units and `classes`?
#
# - The second layer's weight needs its input, the activations; they also tell where ReLU let through.
# - The loss needs the probabilities, or the logits to make them again.
# - Checkpointing would keep neither, and run the forward twice.
#
# Answer: `4 * n * (hidden + classes) / 1e6` MB, within 5 %. Settings: `n` 4096, 16384; `hidden` 1024, 4096;
# `classes` 10, 1000.
#
# Source: Chen et al. 2016, section 3, arXiv:1604.06174.
#
# ### How do you know that a backward is right?
#
# - Central differences in float64: an error of $h^2$ from the curve and of $\varepsilon / h$ from rounding, least near
#   $h = 10^{-5}$, where some ten digits agree.
# - A random direction tests all parameters with two forwards, each parameter by itself says where the mistake is.
# - At a kink of ReLU differences and gradients part: a few wrong entries there are no mistake.
#
# Source: Goodfellow, Bengio, Courville 2016, section 11.5, https://www.deeplearningbook.org/contents/guidelines.html.

# %% [markdown] tags=["solution", "signals"]
# ### Stage 1
#
# Strong: takes the maximum away unasked, per row; writes the loss as logsumexp less the logit; tries logits of 1000.
#
# Weak: takes the logarithm of softmax and adds 1e-12 to it; indexes with `np.arange(n)` and is lost with a second axis.
#
# ### Stage 2
#
# Strong: derives p − y in one line; lets shapes decide the products; asks who divides by n, and does it once.
#
# Weak: builds the Jacobian of softmax; transposes until shapes fit, and fails where the weight is square.
#
# ### Stage 3
#
# Strong: centers before squaring; says why two means are taken from the gradient; shares the forward's code.
#
# Weak: treats mean or variance as constants; uses a variance divided by d − 1; takes `x` for the normalized row.
#
# ### Stage 4
#
# Strong: checks gradients by differences before training; computes all gradients, then moves; keeps float32 float32.
#
# Weak: turns the learning rate until it trains; starts from zeros or from `np.random`; forgets the mask of ReLU.
