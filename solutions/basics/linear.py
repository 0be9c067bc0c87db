# ---
# jupyter:
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
# $$y = W x, \qquad y_o = \sum_i W_{oi}\, x_i$$
#
# Nearly all weights of a transformer sit in layers like this one. It mixes the entries of each vector, the same way for
# every token. Modern models leave out the bias.
#
# **Write** `Linear(in_features, out_features, *, device=None, dtype=None)` with `forward(x)`, from `(..., in_features)`
# to `(..., out_features)`. Its one parameter is `weight`, stored `(out_features, in_features)`.
#
# Not allowed: `nn.Linear`, `F.linear`, `nn.Bilinear`. Products such as `@`, `torch.matmul` and `torch.einsum` are
# allowed.
#
# **Example.** With `weight` = `[[1, 2, 0], [0, 1, -1]]` and $x = (1, 1, 3)$ the result is $(1 + 2, 1 - 3) = (3, -2)$.

# %% [markdown] tags=["contract"]
# - **Initialization.** A normal of mean 0 and variance $2 / (\text{in\_features} + \text{out\_features})$, truncated at
#   three standard deviations, as `nn.init.trunc_normal_` draws it. Two layers draw different numbers.

# %% tags=["active-ipynb", "example"]
# # The example, in numbers
# import torch
#
# weight, x = torch.tensor([[1.0, 2, 0], [0, 1, -1]]), torch.tensor([1.0, 1, 3])
# for row in weight:
#     print(row, "·", x, "=", (row * x).sum())

# %% [markdown] tags=["hint"]
# The weight is stored as `(out, in)`, but vectors stand in rows: which of the two has to be transposed?

# %% [markdown] tags=["hint"]
# `x @ self.weight.T` serves any number of leading dimensions. `torch.empty(out, in, device=device, dtype=dtype)`
# allocates the weight.

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
# $1/n_{\mathrm{in}}$. In the backward the sum has $n_{\mathrm{out}}$ terms and wants $1/n_{\mathrm{out}}$. The mean of
# the two widths is a compromise for both.
#
# **Why truncated.** In a matrix of ten million normal numbers a few are five times too large. Cutting the tails removes
# them; at $3\sigma$ the standard deviation shrinks by about one percent.
#
# **Why `(out, in)`, and why a view.** One row holds all that makes one output: `weight[o] @ x`. Checkpoints are stored
# that way. `weight.T` is a view: the GEMM reads the matrix as transposed, and nothing is copied. A weight that is
# stored row-major as `(in, out)`, as in GPT-2's `Conv1D`, runs as fast.
#
# **What it costs.** $2\, b\, n_{\mathrm{in}}\, n_{\mathrm{out}}$ FLOPs for $b$ vectors: 275 GFLOPs for 8,192 tokens
# through a square layer of width 4,096, 0.28 ms at an H100's 989 TFLOPS. The weight has 34 MB in bfloat16. Nothing is
# saved but the input, which is there anyway.
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
# ### How many FLOPs does training take for `tokens` tokens through a layer from `n_in` to `n_out` features?
#
# - Forward $2\, n_{\mathrm{in}}\, n_{\mathrm{out}}$ for each token: a multiplication and an addition for each weight.
# - Backward twice that: one product for the gradient of $x$, one for that of $W$.
# - So training takes six FLOPs for each weight and token, the source of $6ND$.
#
# Answer: `6 * n_in * n_out * tokens` FLOPs, within 5 %. Settings: `tokens` 1024, 8192; `n_in` 4096; `n_out` 4096,
# 14336.
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
# ### Why do large models leave out the bias?
#
# - Norms and residuals make it nearly useless. PaLM found training steadier without it.
# - It adds a kernel or an epilogue, and a reduction over all tokens in the backward.
# - A layer whose inputs are sharded must add its bias once, not on each device.
# - Some keep it on queries, keys and values. A checkpoint decides.
#
# Source: Chowdhery et al. 2022, section 2, arXiv:2204.02311.
#
# ### From how many sequences on is decoding compute-bound, with weights of `bits` bits on an H100?
#
# - A vector of each sequence does 2 FLOPs for each weight, whose bits come from HBM once for all of them.
# - The roofline turns where FLOPs a byte reach 989 TFLOPS / 3.35 TB/s = 295.
# - Below that larger batches cost almost no time. Weights in fewer bits make decoding faster for that reason, and
#   prefill hardly.
#
# Answer: `295 * bits / 16` sequences, within 15 %. Settings: `bits` 4, 8, 16.
#
# Source: Pope et al. 2022, section 2, arXiv:2211.05102.
#
# ### How is one matrix split over devices?
#
# - Column-parallel: every device holds all of $x$ and makes some outputs. The results are put side by side.
# - Row-parallel: every device holds part of $x$ and makes partial sums of all outputs, which an all-reduce adds.
# - A pair, first by outputs and then by inputs, needs one all-reduce at the end and nothing between.
# - The backward communicates where the forward does not: split by outputs, the gradient of $x$ is a sum.
#
# Source: Shoeybi et al. 2019, section 3, arXiv:1909.08053.
