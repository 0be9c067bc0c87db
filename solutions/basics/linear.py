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
#     title: Linear layer
#     level: 1
#     minutes: 8
#     builds_on: []
#     sources:
#       - "Glorot, Bengio 2010: Understanding the difficulty of training deep feedforward neural networks,
#         https://proceedings.mlr.press/v9/glorot10a.html"
# ---

# %% [markdown]
# # Linear layer
#
# $$y = W x, \qquad y_o = \sum_i W_{oi}\, x_i, \qquad
# W_{oi} \sim \mathcal N\!\Big(0,\ \sigma^2 = \frac{2}{n_{\mathrm{in}} + n_{\mathrm{out}}}\Big)
# \text{ truncated at } \pm 3\sigma$$
#
# Nearly all weights of a transformer sit in layers like this one. It mixes the entries of each vector, the same way for
# every token. Modern models leave out the bias.
#
# **Write** `Linear(in_features, out_features, *, device=None, dtype=None)` with `forward(x)`, from `(..., in_features)`
# to `(..., out_features)`, with any number of leading dimensions, also none.
#
# - **Parameter**, and no other: `weight`, stored `(out_features, in_features)`. No bias.
# - **Initialisation**: a normal of mean 0 and variance $2 / (\text{in\_features} + \text{out\_features})$, truncated
#   at three standard deviations. `nn.init.trunc_normal_` draws such numbers. Two layers draw different ones.
# - **Dtype and device.** The parameter has the dtype and the device that the constructor is given. The result has the
#   dtype of the parameter. float64 in, float64 out; float32 accuracy is enough.
# - **Inputs are not modified**, and may be non-contiguous or expanded. Gradients flow to `x` and to `weight`. No loops.
# - **Not graded:** an input of another dtype than the weight, or of another width.
#
# Not allowed: `nn.Linear`, `F.linear`, `nn.Bilinear`. Products such as `@`, `torch.matmul` and `torch.einsum` are
# allowed.
#
# **Example.** With `weight` = `[[1, 2, 0], [0, 1, -1]]` and $x = (1, 1, 3)$ the result is $(1 + 2, 1 - 3) = (3, -2)$.

# %% tags=["active-ipynb", "example"]
# # The example, in numbers
# import torch
#
# weight, x = torch.tensor([[1.0, 2, 0], [0, 1, -1]]), torch.tensor([1.0, 1, 3])
# for row in weight:
#     print(row, "·", x, "=", (row * x).sum())

# %% [markdown] tags=["hint"]
# The weight is stored as `(out, in)`, but vectors stand in rows: which of the two has to be turned?

# %% [markdown] tags=["hint"]
# `x @ self.weight.T` serves any number of leading dimensions. `torch.empty(out, in, device=device, dtype=dtype)`
# makes room for the weight.

# %% [markdown] tags=["hint"]
# `nn.init.trunc_normal_(weight, mean=0.0, std=sigma, a=-3 * sigma, b=3 * sigma)`. The bounds are numbers, not
# multiples of the standard deviation.

# %%
import math

import torch
from jaxtyping import Float
from torch import Tensor, nn


# %%
class Linear(nn.Module):
    """A matrix applied to the last dimension of x, without a bias.

    The weight is normal with variance 2 / (in_features + out_features), truncated at three standard deviations:
    Glorot, Bengio 2010, https://proceedings.mlr.press/v9/glorot10a.html.
    """

    def __init__(self, in_features: int, out_features: int, *, device=None, dtype=None):
        ### BEGIN SOLUTION
        super().__init__()
        self.weight = nn.Parameter(torch.empty(out_features, in_features, device=device, dtype=dtype))
        std = math.sqrt(2 / (in_features + out_features))
        nn.init.trunc_normal_(self.weight, std=std, a=-3 * std, b=3 * std)
        ### END SOLUTION

    def forward(self, x: Float[Tensor, "*batch in_features"]) -> Float[Tensor, "*batch out_features"]:
        """The product of the weight with each vector of x."""
        ### BEGIN SOLUTION
        return x @ self.weight.T
        ### END SOLUTION


# %% [markdown] tags=["solution"]
# ## Why it is done this way
#
# **Why this variance.** A sum of $n_{\mathrm{in}}$ products keeps the size of its inputs if the weights have variance
# $1/n_{\mathrm{in}}$. On the way back the sum has $n_{\mathrm{out}}$ terms and wants $1/n_{\mathrm{out}}$. The mean of
# the two widths is a compromise for both.
#
# **Why truncated.** In a matrix of ten million normal numbers a few are five times too large. Cutting the tails removes
# them; at $3\sigma$ the standard deviation shrinks by about one percent.
#
# **Why `(out, in)`.** One row holds all that makes one output: `weight[o] @ x`. Checkpoints are stored that way.
#
# **What it costs.** $O(b\, n_{\mathrm{in}}\, n_{\mathrm{out}})$ time for $b$ vectors. The weight takes
# $4\, n_{\mathrm{in}}\, n_{\mathrm{out}}$ bytes in float32. Nothing is stored but the result: the backward pass needs
# the input and the weight, which are there anyway.
#
# ## The other formulation
#
# `torch.einsum("...i,oi->...o", x, self.weight)` names the axes and needs no transpose.
#
# ## The usual mistakes
#
# - The variance given as the standard deviation.
# - `a=-3, b=3`: the bounds of `trunc_normal_` are absolute.
# - A plain tensor instead of `nn.Parameter`: it is not trained, not saved, and does not move to the GPU.
# - `super().__init__` not called, or called only after the first parameter is set.
# - The dtype of the constructor forgotten.

# %% [markdown] tags=["solution", "questions"]
# ## What interviewers ask next
#
# ### What does it cost, forwards and backwards?
#
# - $2\, n_{\mathrm{in}}\, n_{\mathrm{out}}$ operations for each vector: a multiplication and an addition for each
#   weight.
# - Backwards twice that: one product for the gradient of $x$, one for that of $W$.
# - So training takes six operations for each weight and token.
#
# Source: Kaplan et al. 2020, section 2.1, arXiv:2001.08361.
#
# ### What are the gradients, and what is kept for them?
#
# - $\partial L/\partial x = W^\top g$, and $\partial L/\partial W = \sum g\, x^\top$ over all vectors.
# - The input and the weight are kept, the output is not.
# - If $W$ is frozen, the input need not be kept. That is where adapters save activations.
# - The shapes tell the order: the gradient of $W$ is `(out, in)`, so `g.T @ x`.
#
# Source: PyTorch documentation of `nn.Linear`, https://docs.pytorch.org/docs/stable/generated/torch.nn.Linear.html.
#
# ### Why this variance, and what would you use before a ReLU?
#
# - $1/n_{\mathrm{in}}$ keeps the size forwards, $1/n_{\mathrm{out}}$ backwards.
#   $2/(n_{\mathrm{in}} + n_{\mathrm{out}})$ is the compromise.
# - ReLU halves the mean square, so $2/n_{\mathrm{in}}$ keeps it.
# - Behind a norm the scale of a single layer matters little. What matters is how large each branch is beside the
#   residual.
#
# Source: Glorot, Bengio 2010, section 4.2.1, https://proceedings.mlr.press/v9/glorot10a.html.
#
# ### Why do large models leave out the bias?
#
# - Norms and residuals make it nearly useless. PaLM found training steadier without it.
# - It adds a kernel or an epilogue, and a reduction over all tokens in the backward pass.
# - A layer whose inputs are sharded must add its bias once, not on each device.
# - Some keep it on queries, keys and values. A checkpoint decides.
#
# Source: Chowdhery et al. 2022, section 2, arXiv:2204.02311.
#
# ### When is it limited by memory and not by arithmetic?
#
# - With $b$ vectors in bfloat16 it does $2 b$ operations for each weight and reads 2 bytes for it: $b$ operations for
#   each byte.
# - An H100 does 989 TFLOPS at 3.35 TB/s, so it wants about 300.
# - Decoding has one vector for each sequence. Below a few hundred sequences, larger batches cost almost no time.
# - Weights in 8 or 4 bits make decoding faster for that reason, and prefill hardly.
#
# Source: Pope et al. 2022, section 2, arXiv:2211.05102.
#
# ### What happens to precision in a half product?
#
# - Tensor cores multiply half numbers and add in float32. The result is rounded once.
# - A float16 result overflows if the sum passes 65,504, though every input is small.
# - Split sums may be combined in half precision, unless PyTorch is told not to.
# - float32 products may run as TF32, with ten bits of mantissa. A test against float64 must switch that off or allow
#   for it.
#
# Source: PyTorch documentation, note on CUDA semantics, https://docs.pytorch.org/docs/stable/notes/cuda.html.
#
# ### One row gives slightly other numbers alone than in a batch. Is that a bug?
#
# - No. Other shapes choose other kernels, which add in another order.
# - The differences are of the size of the rounding: compare with a tolerance that grows with the width.
# - It can change a sampled token, and then the whole text. Identical answers need kernels that do not depend on the
#   batch.
#
# Source: PyTorch documentation, note on numerical accuracy,
# https://docs.pytorch.org/docs/stable/notes/numerical_accuracy.html.
#
# ### How is one matrix split over devices?
#
# - By outputs: every device holds all of $x$ and makes some entries. The results are put side by side.
# - By inputs: every device holds part of $x$ and makes partial sums of all entries. The results are added.
# - A pair, first by outputs and then by inputs, needs one sum at the end and nothing between.
# - The backward pass communicates where the forward pass does not: split by outputs, the gradient of $x$ is a sum.
#
# Source: Shoeybi et al. 2019, section 3, arXiv:1909.08053.
