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
#   dojo:
#     title: BatchNorm
#     level: 2
#     minutes: 15
#     builds_on: [layernorm]
#     sources:
#       - "Ioffe, Szegedy 2015: Batch normalization, arXiv:1502.03167"
# ---

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

# %% tags=["active-ipynb", "example"]
# # The example, in numbers
# import statistics
#
# values, momentum = [1.0, 3.0], 0.1
# mean, spread = statistics.mean(values), statistics.pstdev(values)
# print("normalised", [(v - mean) / spread for v in values])
# print("running mean", (1 - momentum) * 0 + momentum * mean)
# print("running variance", (1 - momentum) * 1 + momentum * statistics.variance(values))

# %% [markdown] tags=["hint"]
# `self.training` says in which mode the module is. What differs is only where mean and variance come from.

# %% [markdown] tags=["hint"]
# A buffer is what `register_buffer` makes: it moves with the module and is saved with it, but no optimiser sees it.

# %% [markdown] tags=["hint"]
# `x.mean(dim=[0, 2, 3], keepdim=True)` for images; `running.copy_(...)` under `torch.no_grad()`, with the variance
# times $n / (n - 1)$; `weight.view(1, -1, 1, 1)` at the end.

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
        ### BEGIN SOLUTION
        super().__init__()
        self.eps, self.momentum = eps, momentum
        self.weight = nn.Parameter(torch.ones(num_features, device=device, dtype=dtype))
        self.bias = nn.Parameter(torch.zeros(num_features, device=device, dtype=dtype))
        self.register_buffer("running_mean", torch.zeros(num_features, device=device, dtype=dtype))
        self.register_buffer("running_var", torch.ones(num_features, device=device, dtype=dtype))
        ### END SOLUTION

    def forward(self, x: Float[Tensor, "batch features *place"]) -> Float[Tensor, "batch features *place"]:
        """Each feature of x with mean 0 and variance 1, then scaled and shifted.

        Raises:
            ValueError: x has another number of features or fewer than two axes, or in training one value of each.
        """
        ### BEGIN SOLUTION
        features = len(self.weight)
        if x.dim() < 2 or x.shape[1] != features:
            raise ValueError(f"x of shape {tuple(x.shape)} is not (batch, {features}, ...)")
        count = x.numel() // features
        if self.training and count == 1:
            raise ValueError(f"x of shape {tuple(x.shape)} has 1 value of each feature, which has no variance")
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        row = (1, features) + (1,) * (x.dim() - 2)
        if self.training:
            axes = [0, *range(2, x.dim())]
            mean = wide.mean(dim=axes, keepdim=True)
            variance = (wide - mean).square().mean(dim=axes, keepdim=True)
            with torch.no_grad():
                unbiased = variance * (count / (count - 1))
                for running, batch in ((self.running_mean, mean), (self.running_var, unbiased)):
                    running.copy_((1 - self.momentum) * running.to(wide.dtype) + self.momentum * batch.flatten())
        else:
            mean = self.running_mean.to(wide.dtype).view(row)
            variance = self.running_var.to(wide.dtype).view(row)
        normed = (wide - mean) * torch.rsqrt(variance + self.eps)
        return (normed * self.weight.view(row) + self.bias.view(row)).to(x.dtype)
        ### END SOLUTION


# %% [markdown] tags=["solution"]
# ## Why it is done this way
#
# **Two kinds of statistics.** The batch's are in the graph: the gradient knows that moving one value moves the mean.
# The running ones are only remembered, so that a single image in evaluation does not depend on its neighbours.
#
# **Two variances.** Normalising gives these $n$ numbers the mean square 1, so it divides by $n$. The running variance
# estimates that of all data, so it divides by $n - 1$. With $n$ in the thousands nobody sees it; with $n = 4$ it is a
# third.
#
# **Buffers.** They must be saved, moved and cast with the module, and must not be trained. A plain attribute is none of
# it, a parameter is given to the optimiser.
#
# **Subtract first.** $\mathrm{mean}(x^2) - \mu^2$ loses all digits when the mean is large, as in LayerNorm.
#
# **In place, without a graph.** `copy_` under `no_grad`: a running mean that hangs on the graph keeps every batch of
# the epoch alive.
#
# **What it costs.** $O(n f)$ time for $f$ features of $n$ values, in two passes. The float32 copy, the centred values,
# their squares and the result take $4 n f$ bytes each; a fused kernel keeps the input and 8 bytes a feature.
#
# ## The other formulation
#
# In evaluation mean and variance are constants: $y = s x + t$ with $s = w / \sqrt{\sigma^2 + \varepsilon}$ and
# $t = b - s \mu$. That is one multiplication and one addition, and can be folded into the layer before.
#
# ## The usual mistakes
#
# - The unbiased variance in the result, or the biased one in the running variance.
# - `momentum` the other way: here 0.1 is the weight of what is **new**, other than in an optimiser.
# - Statistics over the batch alone, for each pixel; or over the features, which is LayerNorm.
# - `model.eval()` forgotten: results depend on who else is in the batch, and evaluation moves the statistics.
# - The running mean attached to the graph: memory grows from step to step.

# %% tags=["active-ipynb", "solution"]
# # What momentum means: the mean of 60 batches of 8 values, and the running mean behind it
# import torch
# from matplotlib import pyplot as plt
#
# batches = 3 + 2 * torch.randn(60, 8, 1)
# plt.plot(batches.mean(dim=(1, 2)), ".", color="grey", label="mean of the batch")
# for momentum in (0.02, 0.1, 0.5):
#     norm, seen = BatchNorm(1, momentum=momentum), []
#     for batch in batches:
#         norm(batch)
#         seen.append(norm.running_mean.item())
#     plt.plot(seen, label=f"running mean, momentum = {momentum}")
# plt.axhline(3, color="black", linewidth=0.5)
# plt.xlabel("call in training")
# plt.title("A small momentum is smooth and late, a large one fast and noisy")
# plt.legend()
# plt.show()

# %% [markdown] tags=["solution", "questions"]
# ## What interviewers ask next
#
# ### Why not use the batch's statistics in evaluation too?
#
# - The answer for one input would depend on the others in its batch.
# - A batch of one value of each feature has no variance at all.
#
# Source: Ioffe, Szegedy 2015, section 3.1, arXiv:1502.03167.
#
# ### Why is a bias in the layer before useless?
#
# - The mean takes it off again: it has no influence, and a gradient of 0.
# - Frameworks write `bias=False` there; the norm's own bias takes its place.
#
# Source: Ioffe, Szegedy 2015, section 3.2, arXiv:1502.03167.
#
# ### What goes wrong with small batches?
#
# - Mean and variance of two or four images are noise, and the running ones fit them badly.
# - Group norm takes them over channels of one image and does not depend on the batch.
#
# Source: Wu, He 2018, arXiv:1803.08494.
#
# ### Why do transformers not use it?
#
# - The statistics of text vary much from batch to batch, so that training and evaluation disagree.
# - Padding and unequal lengths count too, and in a decoder later tokens would leak into earlier ones.
#
# Source: Shen et al. 2020, arXiv:2003.07845.
#
# ### What changes on several GPUs?
#
# - Each normalises with its own share: the batch that counts is the one of a GPU.
# - Synchronised batch norm sums count, sums and squares over all ranks, at the cost of a collective in each layer.
#
# Source: PyTorch, torch.nn.SyncBatchNorm, https://docs.pytorch.org/docs/stable/generated/torch.nn.SyncBatchNorm.html.
#
# ### How does it vanish at inference?
#
# - With constant statistics it is $s x + t$ for each channel: scale the rows of the weights before by $s$, add $t$.
# - Quantisation needs it folded, since the scaled weights are what is rounded.
#
# Source: Jacob et al. 2017, section 3.2, arXiv:1712.05877.
#
# ### Does it help because inputs keep their distribution?
#
# - That was the idea; with noise added behind the norm, which moves the distribution, training is as fast.
# - Measured instead: a smoother loss, so that larger steps are safe.
#
# Source: Santurkar et al. 2018, arXiv:1805.11604.
