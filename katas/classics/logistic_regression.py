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
#
# **Sources:** Cox 1958: The regression analysis of binary sequences, Journal of the Royal Statistical Society B 20.
#
# House rules hold: docs/house_rules.md.

# %% [markdown] tags=["contract"]
# <details><summary>Contract: Labels, Large logits, Dtype, Errors</summary>
#
# - **Labels.** bool, integers or floats.
# - **Large logits.** With $z$ in the hundreds `fit` and `loss` are finite and accurate: no logarithm of a sigmoid.
# - **Dtype.** That of `x`, float32 or float64, whatever the labels are.
# - **Errors.** `y` of another shape than `(n,)`: a `ValueError` with the shape, in both. `(n, 1)` would broadcast to
#   `(n, n)`.
#
# </details>

# %%
import torch
import torch.nn.functional as F
from jaxtyping import Float, Shaped
from torch import Tensor


# %%
def fit(
    x: Float[Tensor, "n d"], y: Shaped[Tensor, "n"], steps: int, lr: float, l2: float = 0.0
) -> tuple[Float[Tensor, "d"], Float[Tensor, ""]]:
    """Weight and bias after so many steps of gradient descent from 0. Raises ValueError for other labels."""
    raise NotImplementedError


# %%
def loss(
    x: Float[Tensor, "n d"],
    y: Shaped[Tensor, "n"],
    weight: Float[Tensor, "d"],
    bias: Float[Tensor, ""],
    l2: float = 0.0,
) -> Float[Tensor, ""]:
    """Mean cross-entropy, and the penalty of the weight. Raises ValueError for other labels."""
    raise NotImplementedError


# %% tags=["active-ipynb"]
# import sys
#
# sys.path.append("../..")  # the project
# from dojo import check
#
# check("logistic_regression")
