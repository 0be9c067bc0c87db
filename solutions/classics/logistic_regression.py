# ---
# jupyter:
#   dojo:
#     title: Logistic regression
#     level: 1
#     minutes: 15
#     builds_on: []
#     sources:
#       - "Cox 1958: The regression analysis of binary sequences, Journal of the Royal Statistical Society B 20"
# ---

# %% [markdown]
# # Logistic regression
#
# $$L = \frac{1}{n} \sum_i \left[ -y_i \ln \sigma(z_i) - (1 - y_i) \ln (1 - \sigma(z_i)) \right]
# + \frac{\lambda}{2} \lVert w \rVert^2, \qquad z_i = x_i \cdot w + b$$
#
# A linear classifier of two classes, trained by gradient descent on all samples at once: a probe, a reward head.
#
# **Write**
#
# - `fit(x, y, steps, lr, l2=0.0)`, for `x (n, d)` and labels `y (n,)` of 0 and 1, to `(weight (d,), bias ())`. Both
#   start from 0. A step moves weight and bias at the same time, each by its gradient of $L$ times `lr`, where $\lambda$
#   is `l2`. The bias is not penalized;
# - `loss(x, y, weight, bias, l2=0.0)`, which is $L$.
#
# Everything in PyTorch is allowed; the results need no gradients.
#
# **Example.** For `x = [[1], [3]]`, `y = [0, 1]`, one step and `lr = 1` all probabilities are 0.5. The gradient of the
# weight is $(0.5 \cdot 1 - 0.5 \cdot 3) / 2 = -0.5$, that of the bias 0: weight 0.5, bias 0.

# %% [markdown] tags=["contract"]
# - **Labels.** bool, integers or floats.
# - **Large logits.** With $z$ in the hundreds `fit` and `loss` are finite and accurate: no logarithm of a sigmoid.
# - **Dtype.** That of `x`, float32 or float64, whatever the labels are.
# - **Errors.** `y` of another shape than `(n,)`: a `ValueError` with the shape, in both. `(n, 1)` would broadcast to
#   `(n, n)`.

# %% [markdown] tags=["hint"]
# The derivative of a sample's loss by $z$ is $\sigma(z) - y$. By the weight it is that times $x$, and a mean over
# samples.

# %% [markdown] tags=["hint"]
# $-\ln \sigma(z) = \ln(1 + e^{-z})$, which `F.binary_cross_entropy_with_logits` takes without overflow.

# %%
import torch
import torch.nn.functional as F
from jaxtyping import Float, Shaped
from torch import Tensor


# %%
### BEGIN SOLUTION
def targets(x, y):
    if y.shape != x.shape[:1]:
        raise ValueError(f"labels of shape {tuple(y.shape)} for x of shape {tuple(x.shape)}")
    return y.to(x.dtype)


### END SOLUTION
def fit(
    x: Float[Tensor, "n d"], y: Shaped[Tensor, "n"], steps: int, lr: float, l2: float = 0.0
) -> tuple[Float[Tensor, "d"], Float[Tensor, ""]]:
    """Weight and bias after so many steps of gradient descent from 0. Raises ValueError for other labels."""
    ### BEGIN SOLUTION
    y = targets(x, y)
    weight, bias = x.new_zeros(x.shape[1]), x.new_zeros(())
    for _ in range(steps):
        error = torch.sigmoid(x @ weight + bias) - y
        weight, bias = weight - lr * (error @ x / len(x) + l2 * weight), bias - lr * error.mean()
    return weight, bias
    ### END SOLUTION


# %%
def loss(
    x: Float[Tensor, "n d"],
    y: Shaped[Tensor, "n"],
    weight: Float[Tensor, "d"],
    bias: Float[Tensor, ""],
    l2: float = 0.0,
) -> Float[Tensor, ""]:
    """Mean cross-entropy, and the penalty of the weight. Raises ValueError for other labels."""
    ### BEGIN SOLUTION
    cross_entropy = F.binary_cross_entropy_with_logits(x @ weight + bias, targets(x, y))
    return cross_entropy + l2 / 2 * weight.square().sum()
    ### END SOLUTION


# %% [markdown] tags=["solution"]
# ## Why it is done this way
#
# The derivative of $\ln(1 + e^{-z})$ is $\sigma(z) - 1$, that of $\ln(1 + e^z)$ is $\sigma(z)$: both are
# $\sigma(z) - y$. It needs no logarithm, so training is stable whatever $z$ is. Only the loss needs care:
# $\sigma(200)$ is 1 in float32, and $\ln(1 - 1)$ is $-\infty$.
#
# The problem is convex, with one minimum if `l2` is positive. With a learning rate below $2 / \lambda_{\max}$ of the
# Hessian, at most $\lambda_{\max}(X^\top X) / 4n + \lambda$, gradient descent comes to it. Newton's method, which
# scikit-learn and most libraries take or approximate, needs tens of steps.
#
# **What it costs.** A step is two products of a matrix and a vector, `4 · n · d` FLOPs. It reads `x` twice, `8 · n · d`
# bytes in float32: half a FLOP a byte, memory-bound.
#
# ## The usual mistakes
#
# - A bias that moves by the gradient at the new weight: both are moved at the same time.
# - Labels of shape `(n, 1)` less probabilities of shape `(n,)`: a matrix, and its mean trains too.
# - The bias penalized: predictions then depend on where 0 is on the scale of the features.

# %% [markdown] tags=["solution", "questions"]
# ## What interviewers ask next
#
# ### How many GFLOP do `steps` steps take, for `n` samples of `d` features?
#
# - $x w$ is $2nd$ FLOPs, and so is the product of the errors with $x$.
# - At an intensity of about half a FLOP a byte in float32 it is the bytes that count: `x` is read twice a step.
#
# Answer: `4 * n * d * steps / 1e9` GFLOP, within 5 %. Settings: `n` 100000, 1000000; `d` 768, 4096; `steps` 100.
#
# Source: Kaplan et al. 2020, section 2.1, arXiv:2001.08361.
#
# ### The data are separable and `l2` is 0: where does the weight go?
#
# - To infinity, as the logarithm of the number of steps: a larger weight always lowers the loss.
# - In the direction of the largest margin, that of a support vector machine.
# - A penalty, or stopping early, keeps it finite.
#
# Source: Soudry et al. 2018, arXiv:1710.10345.
#
# ### Why not the squared error of the sigmoid?
#
# - Its gradient has a factor $p (1 - p)$: a sample that is wrong by far, $z = 10$ with $y = 0$, moves nothing, as
#   $p (1 - p)$ is 4.5e-5 there.
# - The cross-entropy's gradient is $p - y$, nearly 1 for it, and it is convex in the weight.
#
# Source: Bishop 2006, Pattern Recognition and Machine Learning, section 4.3.2,
# https://www.microsoft.com/en-us/research/people/cmbishop/prml-book/.
#
# ### What is the loss of a sample with label 0 and the logit `z`?
#
# - $\ln(1 + e^z)$: about $z$ far above 0, about $e^z$ far below.
# - At 0 it is $\ln 2$, the loss that training starts at.
# - It is the softmax cross-entropy of two classes with the logits 0 and $z$.
#
# Answer: `log(1 + exp(z))`, within 5 %. Settings: `z` 1, 2, 4, 8.
#
# Source: PyTorch documentation of `BCEWithLogitsLoss`,
# https://docs.pytorch.org/docs/stable/generated/torch.nn.BCEWithLogitsLoss.html.
