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
#     title: Sinusoidal and learned positions
#     level: 2
#     minutes: 15
#     builds_on: [embedding]
#     sources:
#       - "Vaswani et al. 2017: Attention is all you need, section 3.5, arXiv:1706.03762"
#       - "Devlin et al. 2018: BERT, arXiv:1810.04805"
# ---

# %% [markdown]
# # Sinusoidal and learned positions
#
# $$y_p = x_p + T_p, \qquad T_{p, 2i} = \sin\!\big(p / 10000^{2i/d}\big), \quad
# T_{p, 2i+1} = \cos\!\big(p / 10000^{2i/d}\big)$$
#
# Attention does not know the order of its tokens. The simplest remedy is to add a vector to each token that says
# where it stands. In 2017 these vectors were sines and cosines of many speeds. BERT and GPT-2 learned them instead.
#
# **Write** two modules, both with `forward(x)`, which adds the first `seq` rows of a table to `x` of shape
# `(..., seq, d_model)`, with any number of leading dimensions, also none:
#
# - **`SinusoidalPositions(max_len, d_model, *, device=None, dtype=None)`**: the table above, sines in even and
#   cosines in odd columns. No parameters.
# - **`LearnedPositions(max_len, d_model, *, device=None, dtype=None)`**: the table is the **parameter** `weight`, of
#   shape `(max_len, d_model)`, initialised from a normal of mean 0 and standard deviation 0.02, not truncated.
#
# - **The sinusoidal table** is made at construction or at each call. It never shows in `state_dict()`. It works on the
#   device that the module was moved to, and **loses no precision** when the module is cast, as by
#   `module.to(torch.bfloat16)` or `module.half()`. The module has no parameters, so the argument `dtype` has no effect.
#   The table may be computed with anything, NumPy included; the sum with `x` stays in PyTorch.
# - **Dtype.** The result has the dtype of `x`. float64 in, float64 out; float32 accuracy is enough.
# - **Errors** are `ValueError`s that hold the offending value: an odd `d_model` for sines and cosines, at construction
#   or at the call; `seq > max_len`, at the call.
# - **Inputs are not modified**: `x += ...` would change the caller's tensor. They may be non-contiguous or expanded.
#   Gradients flow to `x` and to `weight`. No loops over positions or columns, neither at the call nor at construction.
# - **Not graded:** whether float16 and bfloat16 are added in float32 or in their own dtype, an `x` of another dtype
#   than `weight`, and whether the rows of `weight` are sliced or looked up.
#
# No operation is forbidden.
#
# **Example.** With `d_model = 4` the speeds are $1$ and $10000^{-2/4} = 0.01$. Row 0 of the table is $(0, 1, 0, 1)$.
# Row 2 is $(\sin 2, \cos 2, \sin 0.02, \cos 0.02) = (0.909, -0.416, 0.020, 1.000)$.

# %% tags=["active-ipynb", "example"]
# # The example, in numbers
# import math
#
# for position in range(3):
#     row = [f(position * speed) for speed in (1, 10000 ** (-2 / 4)) for f in (math.sin, math.cos)]
#     print("position", position, [round(v, 3) for v in row])

# %% [markdown] tags=["hint"]
# Make the angles first, one for each position and each **pair** of columns: `positions[:, None] * speeds[None, :]`.

# %% [markdown] tags=["hint"]
# `torch.arange(0, d_model, 2)` holds the $2i$. Fill `table[:, 0::2]` and `table[:, 1::2]`.

# %% [markdown] tags=["hint"]
# A buffer registered with `persistent=False` stays out of the state dict, but `module.to(torch.bfloat16)` still
# rounds it. A tensor kept as a plain attribute is left alone. Move it to `x.device` yourself when you use it.

# %%
import torch
from jaxtyping import Float
from torch import Tensor, nn


# %%
class SinusoidalPositions(nn.Module):
    """Add sines and cosines of the position to x. The table keeps its precision when the module is cast.

    Raises ValueError for an odd d_model and for more than max_len positions. Vaswani et al. 2017, arXiv:1706.03762,
    section 3.5.
    """

    def __init__(self, max_len: int, d_model: int, *, device=None, dtype=None):
        ### BEGIN SOLUTION
        if d_model % 2 != 0:
            raise ValueError(f"d_model {d_model} is odd: sines and cosines come in pairs")
        super().__init__()
        position = torch.arange(max_len, dtype=torch.float64)
        speed = 10000.0 ** (-torch.arange(0, d_model, 2, dtype=torch.float64) / d_model)
        angles = torch.outer(position, speed)
        table = torch.empty(max_len, d_model, dtype=torch.float64)
        table[:, 0::2] = angles.sin()
        table[:, 1::2] = angles.cos()
        # A plain attribute, not a buffer: `module.to(torch.bfloat16)` would round a buffer.
        self.table = table.to(device)
        ### END SOLUTION

    def forward(self, x: Float[Tensor, "*batch seq d_model"]) -> Float[Tensor, "*batch seq d_model"]:
        """x plus the first rows of the table."""
        ### BEGIN SOLUTION
        seq = x.shape[-2]
        if seq > len(self.table):
            raise ValueError(f"{seq} positions, but the table was made for max_len {len(self.table)}")
        self.table = self.table.to(x.device)
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        rows = self.table[:seq].to(wide.dtype)
        return (wide + rows).to(x.dtype)
        ### END SOLUTION


# %%
class LearnedPositions(nn.Module):
    """Add a learned vector for each position to x. Raises ValueError for more than max_len positions.

    The weight is normal with standard deviation 0.02. Devlin et al. 2018, arXiv:1810.04805.
    """

    def __init__(self, max_len: int, d_model: int, *, device=None, dtype=None):
        ### BEGIN SOLUTION
        super().__init__()
        self.weight = nn.Parameter(torch.empty(max_len, d_model, device=device, dtype=dtype))
        nn.init.normal_(self.weight, mean=0.0, std=0.02)
        ### END SOLUTION

    def forward(self, x: Float[Tensor, "*batch seq d_model"]) -> Float[Tensor, "*batch seq d_model"]:
        """x plus the first rows of the weight."""
        ### BEGIN SOLUTION
        length = x.shape[-2]
        if length > len(self.weight):
            raise ValueError(f"{length} positions, but there are weights for max_len {len(self.weight)}")
        return x + self.weight[:length]
        ### END SOLUTION


# %% [markdown] tags=["solution"]
# ## Why it is done this way
#
# **Why sines of many speeds.** Each pair of columns is the hand of a clock, from a fast one that turns in 6 tokens to
# one that turns in 60,000. Together they tell positions apart, as the digits of a number do, but smoothly.
#
# **Why sine and cosine.** $T_{p+k}$ is $T_p$ with each pair rotated by a fixed angle. So "k further on" is one linear
# map, the same everywhere. RoPE took the idea and rotates queries and keys themselves.
#
# **float64 for the angles.** At position 10,000 a float32 angle is off by up to 5e-4. The table is plain, not a buffer,
# because a cast of the module rounds buffers.
#
# **What it costs.** $O(n d)$ time for $n$ tokens, one addition for each entry. The sinusoidal table takes $8 d$ bytes
# for each position in float64, the learned one $4 d$ in float32, and as many for its gradient.
#
# ## The other formulation
#
# `torch.exp(torch.arange(0, d, 2) * (-math.log(10000.0) / d))` gives the same speeds, and is found in most tutorials.
# Interleaving can also be written `torch.stack([sin, cos], -1).flatten(-2)`. Some libraries put all sines first and all
# cosines second: the same information in another order, and another checkpoint.
#
# ## The usual mistakes
#
# - $10000^{-i/d}$ instead of $10000^{-2i/d}$. `torch.arange(0, d, 2)` already holds the $2i$.
# - Sines in the first half of the columns.
# - The table as a parameter, or saved in the state dict.
# - `x += ...`, which overwrites the caller's tensor.
# - Slicing `table[: x.shape[1]]`, which is the sequence only for inputs of three dimensions.

# %% tags=["active-ipynb", "solution"]
# # The table, and how alike two positions are: the dot product falls off with the distance, wherever the two stand
# import matplotlib.pyplot as plt
#
# table = SinusoidalPositions(64, 32)(torch.zeros(1, 64, 32))[0]
# figure, (left, right) = plt.subplots(1, 2, figsize=(11, 3.8), layout="constrained")
# figure.colorbar(left.imshow(table, aspect="auto"), ax=left, label="value added to the token")
# left.set(xlabel="dimension: sine and cosine by turns", ylabel="position")
# for position in (10, 32, 54):
#     right.plot(table @ table[position], label=f"position {position}")
# right.set(xlabel="position", ylabel="dot product")
# right.legend()
# plt.show()

# %% [markdown] tags=["solution", "questions"]
# ## What interviewers ask next
#
# ### Why sines and cosines of many speeds?
#
# - Each pair is the hand of a clock. Fast ones tell neighbours apart, slow ones distant tokens.
# - $T_{p+k}$ is $T_p$ with every pair rotated by an angle that depends on $k$ alone. So an offset is one linear map.
# - The product $T_p \cdot T_{p+k} = \sum_i \cos(k \omega_i)$ does not depend on $p$.
# - Sine without cosine would give the two sides of a hand's swing the same value.
#
# Source: Vaswani et al. 2017, section 3.5, arXiv:1706.03762.
#
# ### Why add positions, and not concatenate them?
#
# - A sum costs no width, and every projection may weigh both parts as it likes.
# - Concatenation is the special case in which the two have columns of their own.
# - In a wide model token vectors and position vectors can be nearly orthogonal.
# - The price: a score has cross terms between words and places, which relative methods leave out.
#
# Source: Ke, He, Liu 2020, arXiv:2006.15595.
#
# ### Learned, sinusoidal, rotary or ALiBi: which would you choose when?
#
# - Learned for a fixed short length, as in BERT and many models of images.
# - Sinusoidal where no weights should be spent. The original paper found it as good as learned.
# - Rotary for language models: relative, in every layer, and extensible with some more training.
# - ALiBi where a model must run beyond its training length without any change.
#
# Source: Press, Smith, Lewis 2021, section 2, arXiv:2108.12409.
#
# ### Can it go beyond its training length?
#
# - Learned rows do not exist there. New ones would have to be trained.
# - Sines can be computed, but the model has never seen these sums. Quality falls within a few dozen tokens.
# - The rows can be interpolated to a new length, if the model is then trained on.
#
# Source: Press, Smith, Lewis 2021, section 2.2, arXiv:2108.12409.
#
# ### How large should they be beside the token vectors?
#
# - Rows of sines have length $\sqrt{d/2}$, 16 at width 512, whatever the tokens are.
# - Token vectors with entries of $1/\sqrt d$ have length 1. So the paper multiplies them by $\sqrt d$.
# - Learned positions start with deviation 0.02, as the token vectors of BERT and GPT-2 do. Training settles the rest.
#
# Source: Vaswani et al. 2017, section 3.4, arXiv:1706.03762.
#
# ### What breaks in half precision?
#
# - Positions in bfloat16: 4,096 of them become 769 different numbers. In float16 they are exact up to 2,048.
# - A table in bfloat16 is off by up to 0.002. The cosines of the slow pairs stay 1 for hundreds of tokens.
# - A buffer is rounded by `model.to(torch.bfloat16)` even if it is not saved. A plain attribute is not, but must be
#   moved by hand.
# - The sum is rounded once more: small next to a token vector of the same dtype.
#
# Source: PyTorch documentation of `nn.Module`, https://docs.pytorch.org/docs/stable/generated/torch.nn.Module.html.
#
# ### What changes with a KV cache?
#
# - A new token gets the row of its own position, not row 0. Forgetting the offset gives every token the first row.
# - Keys in the cache hold their absolute position. Cut the oldest away and the rest cannot be renumbered.
# - Left-padded batches need a row of positions for each sequence.
# - The cost is nothing: one row added at the entrance, and no work in the layers.
#
# Source: Dai et al. 2019, section 3.3, arXiv:1901.02860.
#
# ### How would you test it?
#
# - Rows against `math.sin` and `math.cos` at some positions, far ones too. Row 0 is 0, 1, 0, 1.
# - Gradients of the learned rows: the sum over the batch for rows in use, zero for the others.
# - `seq` beyond `max_len` raises, and `seq` equal to it does not.
# - The state dict of the sinusoidal module is empty. After a cast to bfloat16 and back the result in float32 is the
#   same.
#
# Source: PyTorch documentation of `gradcheck`,
# https://docs.pytorch.org/docs/stable/generated/torch.autograd.gradcheck.gradcheck.html.
