# ---
# jupyter:
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

# %% [markdown] tags=["contract"]
# - **Running statistics.** They move once in each call in training, with or without gradients, never in evaluation. The
#   variance that enters is unbiased, divided by $n - 1$, as in torch and in the paper, and has no `eps`; what $x$ is
#   divided by is biased. $n$ counts all values of a feature.
# - **No graph.** Running statistics have none. Gradients flow through those of the batch.
# - **Large means.** Running statistics stay accurate where the mean is $10^4$ times the spread.
# - **Half precision.** Statistics in float32. Running ones have the module's dtype, and are updated in float32.
# - **Errors.** In training a single value of each feature, or another number of features.

# %% tags=["active-ipynb", "example"]
# # The example, in numbers
# import statistics
#
# values, momentum = [1.0, 3.0], 0.1
# mean, spread = statistics.mean(values), statistics.pstdev(values)
# print("normalized", [(v - mean) / spread for v in values])
# print("running mean", (1 - momentum) * 0 + momentum * mean)
# print("running variance", (1 - momentum) * 1 + momentum * statistics.variance(values))

# %% [markdown] tags=["hint"]
# A buffer is what `register_buffer` makes: it moves with the module and is saved with it, but no optimizer sees it.

# %% [markdown] tags=["hint"]
# `x.mean(dim=[0, 2, 3])` for images, then the mean square of what is left; `running.lerp_(batch, momentum)` under
# `torch.no_grad()`, with the variance times $n / (n - 1)$; `weight.view(1, -1, 1, 1)` at the end.

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

        Raises ValueError if x has another number of features, or in training one value of each.
        """
        ### BEGIN SOLUTION
        count = x.numel() // x.shape[1]
        if x.shape[1] != len(self.weight):
            raise ValueError(f"x of shape {tuple(x.shape)} does not have {len(self.weight)} features")
        if self.training and count == 1:
            raise ValueError(f"x of shape {tuple(x.shape)} has 1 value of each feature, which has no variance")
        acc = torch.promote_types(x.dtype, torch.float32)
        wide, row = x.to(acc), (1, -1) + (1,) * (x.dim() - 2)
        if self.training:
            axes = [0, *range(2, x.dim())]
            mean = wide.mean(dim=axes)
            centered = wide - mean.view(row)
            var = centered.square().mean(dim=axes)
            with torch.no_grad():
                unbiased = var * (count / (count - 1))
                self.running_mean.copy_(self.running_mean.to(acc).lerp(mean, self.momentum))
                self.running_var.copy_(self.running_var.to(acc).lerp(unbiased, self.momentum))
        else:
            centered = wide - self.running_mean.to(acc).view(row)
            var = self.running_var.to(acc)
        scale = self.weight * torch.rsqrt(var + self.eps)
        return (centered * scale.view(row) + self.bias.view(row)).to(x.dtype)
        ### END SOLUTION


# %% [markdown] tags=["solution"]
# ## Why it is done this way
#
# **Two kinds of statistics.** The batch's are in the graph: the gradient knows that moving one value moves the mean.
# The running ones are only remembered, so that a single image in evaluation does not depend on its neighbors.
#
# **Two variances.** Normalizing gives these $n$ numbers the mean square 1, so it divides by $n$. The running variance
# estimates that of all data, so it divides by $n - 1$: with $n = 4$ a third more. Flax and Dive into Deep Learning keep
# the biased one.
#
# **Buffers.** They are saved, moved and cast with the module, and not trained: a plain attribute is none of it, and a
# parameter is given to the optimizer. Updated without a graph, or each batch of the epoch stays alive.
#
# **What it costs.** Memory-bound. A fused kernel reads $x$ twice and writes once, eager PyTorch also writes centered
# values, squares and scaled ones: ten passes. The first norm of a ResNet-50 has 64 features of 112 × 112 places, 822 MB
# in float32 for 256 images: 0.7 ms at 3.35 TB/s for three passes, 2.5 ms for ten.
#
# ## The other formulation
#
# In evaluation mean and variance are constants: $y = s x + t$ with $s = w / \sqrt{\sigma^2 + \varepsilon}$ and
# $t = b - s \mu$. That is one multiplication and one addition, and can be folded into the layer before.
#
# ## The usual mistakes
#
# - The unbiased variance in the result, the biased one in the running variance, or $\mathrm{mean}(x^2) - \mu^2$.
# - `momentum` the other way: here 0.1 is the weight of what is **new**, other than in an optimizer.
# - `weight` without its view: on square images it meets the last axis, and no error says so.
# - `model.eval()` forgotten: results depend on the rest of the batch, and evaluation moves the statistics.

# %% [markdown] tags=["solution", "questions"]
# ## What interviewers ask next
#
# ### After `steps` calls in training with `momentum`, what share of the running mean is still its start, 0?
#
# - Each call multiplies what was there by $1 - m$. With 0.1 and 10 calls a third is left, so short runs evaluate badly.
# - It is an exponential moving average: about $1 / m$ batches count.
#
# Answer: `(1 - momentum)**steps`, within 5 %. Settings: `momentum` 0.01, 0.1; `steps` 10, 20, 50.
#
# Source: PyTorch documentation of `torch.nn.BatchNorm1d`,
# https://docs.pytorch.org/docs/stable/generated/torch.nn.BatchNorm1d.html.
#
# ### With `n` values of a feature on a GPU: by what percentage is the unbiased variance larger than the biased one?
#
# - $n / (n - 1)$: with images $n$ counts their places, and nobody sees it. With 8 rows of a vector it is 14 percent.
# - Small batches are noise besides. Group norm does not depend on them; synchronized batch norm sums count, mean and
#   squares over all GPUs, an all-reduce in each layer.
#
# Answer: `100 / (n - 1)` percent, within 5 %. Settings: `n` 8, 16, 64.
#
# Source: Wu, He 2018, arXiv:1803.08494.
#
# ### How does it vanish at inference, and why is a bias in the layer before useless?
#
# - With constant statistics it is $s x + t$ for each channel: scale the rows of the weights before by $s$, add $t$.
# - In training the mean takes that bias off again: it has no influence, and a gradient of 0.
#
# Source: Jacob et al. 2017, section 3.2, arXiv:1712.05877.
#
# ### Why do transformers not use it?
#
# - The statistics of text vary much from batch to batch, so that training and evaluation disagree.
# - Padding and unequal lengths count too, and in a decoder later tokens would leak into earlier ones.
#
# Source: Shen et al. 2020, arXiv:2003.07845.
