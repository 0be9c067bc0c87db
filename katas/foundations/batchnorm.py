# %% [markdown]
# # BatchNorm
#
# $$y = \frac{x - \mu_c}{\sqrt{\sigma_c^2 + \varepsilon}} \cdot w_c + b_c$$
#
# Each feature $c$ is shifted to mean 0 and scaled to variance 1 over the whole batch. In training $\mu_c$ and
# $\sigma_c^2$ are those of the batch, in evaluation those that training has gathered.
#
# **Write** `BatchNorm(num_features, eps=1e-5, momentum=0.1, *, device=None, dtype=None)` with `forward(x)`, from
# `(batch, features, ...)` to the same shape: no, one or more axes behind the features.
#
# - **Training**: mean and variance run over all axes but axis 1. The variance is **biased**, divided by $n$, the count
#   of values of a feature. $\varepsilon$ is `eps`, and stands inside the root.
# - **Running statistics**: each call in training makes `running = (1 - momentum) * running + momentum * batch`, once,
#   with or without gradients. The variance that enters here is **unbiased**, divided by $n - 1$.
# - **Evaluation** normalises with the running statistics and leaves them as they are.
# - **Parameters**, and no others: `weight`, ones, and `bias`, zeros, both of shape `(num_features,)`.
# - **Buffers**: `running_mean`, zeros, and `running_var`, ones, both of shape `(num_features,)` and both in the state
#   dict. Batches are not counted.
# - **Gradients** flow to `x`, `weight` and `bias`, in training through mean and variance too. Running statistics have
#   no graph.
# - **Accuracy**: result and running statistics are accurate even when the mean is $10^4$ times the spread.
# - **Dtype.** The result has the dtype of the input. With float16 or bfloat16 inputs, mean, variance and division are
#   computed in float32. Before weight and bias the normalised values may be rounded once more. float64 in, float64 out;
#   float32 accuracy is enough.
# - **Running statistics' dtype** is the module's. In half precision they are updated in float32 and rounded once.
# - **Inputs are not modified**, and may be non-contiguous or expanded. No loops.
# - **A `ValueError`** whose message holds the values, before running statistics move: `x` with fewer than two axes,
#   with another number of features, or in training with a single value of each feature.
# - **Not graded:** empty batches, an `x` of another dtype than `weight`, and arguments that make no sense, such as an
#   `eps` below 0.
#
# Not allowed: `nn.BatchNorm1d` and its kin, `F.batch_norm`, and instance, group and layer norms.
#
# **Example.** One feature with the values 1 and 3 has mean 2 and variance 1: in training it becomes $(-1, 1)$. Unbiased
# the variance is 2, so the running mean is now $0.9 \cdot 0 + 0.1 \cdot 2 = 0.2$ and the running variance
# $0.9 \cdot 1 + 0.1 \cdot 2 = 1.1$.
#
# **Builds on** layernorm. **Sources:** Ioffe, Szegedy 2015: Batch normalization,
# [arXiv:1502.03167](https://arxiv.org/abs/1502.03167).
#
# House rules hold: docs/house_rules.md.

# %% tags=["active-ipynb", "example"]
# # The example, in numbers
# import statistics
#
# values, momentum = [1.0, 3.0], 0.1
# mean, spread = statistics.mean(values), statistics.pstdev(values)
# print("normalised", [(v - mean) / spread for v in values])
# print("running mean", (1 - momentum) * 0 + momentum * mean)
# print("running variance", (1 - momentum) * 1 + momentum * statistics.variance(values))

# %%
import torch
from jaxtyping import Float
from torch import Tensor, nn


# %%
class BatchNorm(nn.Module):
    """(x - mean) / sqrt(variance + eps) · weight + bias for each feature, over all axes but 1, in float32 at least.

    In training mean and biased variance are the batch's, and move the running ones; in evaluation they are the running
    ones. Ioffe, Szegedy 2015, arXiv:1502.03167.
    """

    def __init__(self, num_features: int, eps: float = 1e-5, momentum: float = 0.1, *, device=None, dtype=None):
        raise NotImplementedError

    def forward(self, x: Float[Tensor, "batch features *place"]) -> Float[Tensor, "batch features *place"]:
        """Each feature of x with mean 0 and variance 1, then scaled and shifted.

        Raises:
            ValueError: x has another number of features or fewer than two axes, or in training one value of each.
        """
        raise NotImplementedError


# %% tags=["active-ipynb"]
# import sys
#
# sys.path.append("../..")  # the project
# from dojo import check
#
# check("batchnorm")
