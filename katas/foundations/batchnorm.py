# %% [markdown]
# # BatchNorm
#
# $$y = \frac{x - \mu_c}{\sqrt{\sigma_c^2 + \varepsilon}} \cdot w_c + b_c$$
#
# Each feature $c$ is shifted to mean 0 and scaled to variance 1: in training by mean and variance of the batch, over
# all axes but axis 1, in evaluation by those that training has gathered.
#
# **Write** `BatchNorm(num_features, eps=1e-5, momentum=0.1, *, device=None, dtype=None)` with `forward(x)`, from
# `(batch, features, ...)` to the same shape. All that it holds has shape `(num_features,)`: the parameters `weight`,
# ones at first, and `bias`, zeros; the buffers `running_mean`, zeros, and `running_var`, ones. Each call in training
# makes `running = (1 - momentum) * running + momentum * batch`.
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

# %% [markdown] tags=["contract"]
# <details><summary>Contract: Running statistics, No graph, Large means, Half precision, Errors</summary>
#
# - **Running statistics.** They move once in each call in training, with or without gradients, never in evaluation. The
#   variance that enters is unbiased, divided by $n - 1$, as in torch and in the paper, and has no `eps`; what $x$ is
#   divided by is biased. $n$ counts all values of a feature.
# - **No graph.** Running statistics have none. Gradients flow through those of the batch.
# - **Large means.** Running statistics stay accurate where the mean is $10^4$ times the spread.
# - **Half precision.** Statistics in float32. Running ones have the module's dtype, and are updated in float32.
# - **Errors.** In training a single value of each feature, or another number of features.
#
# </details>

# %% tags=["active-ipynb", "example"]
# # The example, in numbers
# import statistics
#
# values, momentum = [1.0, 3.0], 0.1
# mean, spread = statistics.mean(values), statistics.pstdev(values)
# print("normalized", [(v - mean) / spread for v in values])
# print("running mean", (1 - momentum) * 0 + momentum * mean)
# print("running variance", (1 - momentum) * 1 + momentum * statistics.variance(values))

# %%
import torch
from jaxtyping import Float
from torch import Tensor, nn


# %%
class BatchNorm(nn.Module):
    """(x - mean) / sqrt(variance + eps) · weight + bias for each feature, over all axes but 1.

    Mean and biased variance are the batch's in training, the running ones in evaluation. arXiv:1502.03167.
    """

    def __init__(self, num_features: int, eps: float = 1e-5, momentum: float = 0.1, *, device=None, dtype=None):
        raise NotImplementedError

    def forward(self, x: Float[Tensor, "batch features *place"]) -> Float[Tensor, "batch features *place"]:
        """Each feature of x with mean 0 and variance 1, then scaled and shifted.

        Raises ValueError if x has another number of features, or in training one value of each.
        """
        raise NotImplementedError


# %% tags=["active-ipynb"]
# import sys
#
# sys.path.append("../..")  # the project
# from dojo import check
#
# check("batchnorm")
