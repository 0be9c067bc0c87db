# %% [markdown]
# # Rotary position embedding
#
# $$\begin{pmatrix} y_{2i} \\ y_{2i+1} \end{pmatrix} =
# \begin{pmatrix} \cos\varphi & -\sin\varphi \\ \sin\varphi & \cos\varphi \end{pmatrix}
# \begin{pmatrix} x_{2i} \\ x_{2i+1} \end{pmatrix},
# \qquad \varphi = p \cdot \theta^{-2i/d_k}, \qquad i = 0, \dots, d_k/2 - 1$$
#
# RoPE tells a query or a key where it stands by rotating it: each pair of entries is a point of the plane, and pair $i$
# at position $p$ is rotated by the angle $\varphi$. The score of a rotated query and a rotated key then depends on
# their distance alone.
#
# **Write** the same map twice, `RoPEReal` with sines and cosines and `RoPEComplex` with complex multiplication, both as
# `RoPEReal(d_k, max_seq_len, theta=10000.0, *, device=None, dtype=None)` without parameters. `forward(x, positions)`
# gives the rotated `x`, of shape `(..., seq, d_k)`. `positions` are integers below `max_seq_len`, of shape `(seq,)`.
#
# **Example.** Take `d_k = 4` and `theta = 100`. Pair 0 is rotated by $p \cdot 1$, pair 1 by
# $p \cdot 100^{-2/4} = p / 10$. The row `[1, 0, 1, 0]` at position 3 becomes `[cos 3, sin 3, cos 0.3, sin 0.3]` =
# `[-0.990, 0.141, 0.955, 0.296]`.
#
# **Sources:** Su et al. 2021: RoFormer, [arXiv:2104.09864](https://arxiv.org/abs/2104.09864), section 3.4.2.
#
# House rules hold: docs/house_rules.md.

# %% [markdown] tags=["contract"]
# <details><summary>Contract: Pairs, Positions, Half precision, Two forms</summary>
#
# - **Pairs.** Neighbors, `(0, 1), (2, 3), ...`, as in the paper and in Meta's Llama. Not entry `i` with `i + d_k/2`.
# - **Positions.** int32 or int64, in any order. They may also have the shape `(batch, seq)`, a row for each entry of
#   the first dimension of `x`, which is then `(batch, ..., seq, d_k)`, with heads between as a rule.
# - **Half precision.** Positions and angles in float32: in bfloat16 position 257 is 256. The rotation itself may run in
#   the dtype of `x`.
# - **Two forms.** `RoPEReal` computes on `x` in real numbers. `RoPEComplex` multiplies complex tensors.
#
# </details>

# %%
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn


# %%
class RoPEReal(nn.Module):
    """Rotate neighboring pairs by position · theta^(-2i/d_k), in real arithmetic, in float32 at least.

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
    """The same map: each pair is a complex number, multiplied by exp(i · angle). Same arguments and dtypes."""

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
