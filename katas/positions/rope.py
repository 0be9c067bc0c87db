# %% [markdown]
# # Rotary position embedding
#
# $$\begin{pmatrix} y_{2i} \\ y_{2i+1} \end{pmatrix} =
# \begin{pmatrix} \cos\varphi & -\sin\varphi \\ \sin\varphi & \cos\varphi \end{pmatrix}
# \begin{pmatrix} x_{2i} \\ x_{2i+1} \end{pmatrix},
# \qquad \varphi = p \cdot \theta^{-2i/d_k}, \qquad i = 0, \dots, d_k/2 - 1$$
#
# RoPE tells a query or a key where it stands by rotating it. Neighbouring entries form a pair, a point of the plane. At
# position $p$ the pair $i$ turns by the angle $\varphi$. Early pairs turn fast, late pairs slowly. The score of a
# rotated query and a rotated key depends only on the difference of their angles, and so only on the distance between
# their positions.
#
# **Write** the same map twice: `RoPEReal` with sines and cosines, `RoPEComplex` with complex multiplication.
# Both are built as `RoPEReal(d_k, max_seq_len, theta=10000.0, *, device=None, dtype=None)`.
# `forward(x, positions)` returns the rotated `x`.
#
# - **`x`** has shape `(..., seq, d_k)` with any number of leading dimensions, also none.
# - **`positions`** are integers, int32 or int64. They need not start at 0 or be in order. Their shape is one of two:
#   - `(seq,)`: the same positions for everything in front of `seq`;
#   - `(batch, seq)`: one row for each entry of the first dimension of `x`, which is then `(batch, ..., seq, d_k)`. The
#     robust tier uses such positions with an `x` that has an axis of heads, `(batch, heads, seq, d_k)`.
# - **Pairs** are `(0, 1), (2, 3), ...`: entry `2i` with entry `2i + 1`. Not `i` with `i + d_k/2`.
# - **Dtype.** The result has the dtype of `x`. float16 and bfloat16 are rotated in float32 and rounded once. float64
#   in, float64 out; float32 accuracy is enough. The module has no parameters, so the argument `dtype` has no effect.
# - **Tables** of cosines and sines are made once, at construction, for the positions `0 ... max_seq_len - 1`, by a
#   number of operations that does not grow with the sizes. Modules with different `theta` or sizes have different
#   tables. They are not parameters and never show in `state_dict()`. They work on the device that the module was moved
#   to. They **lose no precision** when the module is cast, as by `module.to(torch.bfloat16)` or `module.half()`, or is
#   built with a lower `dtype`.
# - **Errors** are `ValueError`s whose message holds the offending value: an odd `d_k` (at construction or at the call),
#   a last dimension of `x` other than `d_k`, a position outside `[0, max_seq_len)`. An `IndexError` from the table is
#   not enough, and a negative position must not wrap around.
# - **`x` is not modified**, and may be non-contiguous or expanded. Gradients flow back to it.
# - **No loops** over positions or pairs. A call looks its cosines and sines up in the tables; it computes none.
# - **Real and complex.** The arithmetic of `RoPEReal` on `x` is real. Its tables may have any form: reading the real
#   and imaginary parts of complex tables is right too. `RoPEComplex` rotates by multiplying complex tensors.
# - **Tables may be computed with anything**, NumPy included, as long as it is done once, at construction. The
#   computation on `x` stays in PyTorch.
# - **Not graded:** angles in float32 or float64, tables in buffers or attributes, positions in other dtypes or on
#   another device than `x`, and which of several offending positions is named.
#
# **Example.** Take `d_k = 4` and `theta = 100`. Pair 0 turns by $p \cdot 1$, pair 1 by $p \cdot 100^{-2/4} = p / 10$.
# The row `[1, 0, 1, 0]` at position 3 becomes `[cos 3, sin 3, cos 0.3, sin 0.3]` = `[-0.990, 0.141, 0.955, 0.296]`.
#
# **Sources:** Su et al. 2021: RoFormer, [arXiv:2104.09864](https://arxiv.org/abs/2104.09864), section 3.4.2.
#
# House rules hold: docs/house_rules.md.

# %% tags=["active-ipynb", "example"]
# # The example, in numbers
# import math
#
# row, position = [1.0, 0.0, 1.0, 0.0], 3
# for pair in range(2):
#     angle = position * 100 ** (-2 * pair / 4)
#     first, second = row[2 * pair], row[2 * pair + 1]
#     turned = first * math.cos(angle) - second * math.sin(angle), first * math.sin(angle) + second * math.cos(angle)
#     print(f"pair {pair} turns by {angle:.1f}:", [round(v, 3) for v in turned])

# %%
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn


# %%
class RoPEReal(nn.Module):
    """Rotate neighbouring pairs by position · theta^(-2i/d_k), in real arithmetic.

    Half precision is rotated in float32 and rounded once. The tables keep their precision when the module is cast.
    Raises ValueError for an odd d_k, a last dimension other than d_k, and a position outside [0, max_seq_len).
    Su et al. 2021, arXiv:2104.09864, equation 34.
    """

    def __init__(self, d_k: int, max_seq_len: int, theta: float = 10000.0, *, device=None, dtype=None):
        raise NotImplementedError

    def forward(
        self, x: Float[Tensor, "*batch seq d_k"], positions: Int[Tensor, "*batch seq"]
    ) -> Float[Tensor, "*batch seq d_k"]:
        """The rotated x. One row of positions serves all of x, or one row each entry of its first dimension."""
        raise NotImplementedError


# %%
class RoPEComplex(nn.Module):
    """The same map: each pair is a complex number, multiplied by exp(i · angle). Same arguments, dtypes and errors."""

    def __init__(self, d_k: int, max_seq_len: int, theta: float = 10000.0, *, device=None, dtype=None):
        raise NotImplementedError

    def forward(
        self, x: Float[Tensor, "*batch seq d_k"], positions: Int[Tensor, "*batch seq"]
    ) -> Float[Tensor, "*batch seq d_k"]:
        """The rotated x, as in RoPEReal."""
        raise NotImplementedError


# %% tags=["active-ipynb"]
# import sys
#
# sys.path.append("../..")  # the project
# from dojo import check
#
# check("rope")
