# ---
# jupyter:
#   dojo:
#     title: Rotary position embedding
#     level: 3
#     minutes: 25
#     builds_on: []
#     sources:
#       - "Su et al. 2021: RoFormer, arXiv:2104.09864, section 3.4.2"
# ---

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

# %% [markdown] tags=["contract"]
# - **Pairs.** Neighbors, `(0, 1), (2, 3), ...`, as in the paper and in Meta's Llama. Not entry `i` with `i + d_k/2`.
# - **Positions.** int32 or int64, in any order. They may also have the shape `(batch, seq)`, a row for each entry of
#   the first dimension of `x`, which is then `(batch, ..., seq, d_k)`, with heads between as a rule.
# - **Half precision.** Positions and angles in float32: in bfloat16 position 257 is 256. The rotation itself may run in
#   the dtype of `x`.
# - **Two forms.** `RoPEReal` computes on `x` in real numbers. `RoPEComplex` multiplies complex tensors.

# %% [markdown] tags=["hint"]
# Make the table first: `angles[p, i] = p * theta ** (-2 * i / d_k)`, of shape `(max_seq_len, d_k / 2)`, in float32.
# `x[..., 0::2]` and `x[..., 1::2]` are the two members of all pairs. Combine them with two lines of arithmetic, and
# `torch.stack(..., dim=-1).flatten(-2)` puts the results back in their places.
# For positions of shape `(batch, seq)` insert axes of size 1 between the two, until they line up with `x`.

# %% [markdown] tags=["hint"]
# A buffer registered with `persistent=False` moves with the module and stays out of the state dict.
# `torch.complex(a, b)` is $a + ib$ for float32 or float64 parts, and `torch.view_as_complex` reads a last axis of two.

# %% [markdown] tags=["idea"]
# Attention compares a query with a key by a dot product, which sees no order: shuffle the tokens and every score stays.
# RoPE puts position into the vectors without adding anything to them. Take the entries two by two, each pair a point of
# the plane, and rotate that point by an angle that grows with the position: like the hand of a clock, as many turns as
# tokens have passed.
#
# The dot product of two rotated points depends on the angle between them, and that grows with the distance of their
# positions. So a score knows how far apart two tokens are, and not where they stand. Lengths stay as they were.
#
# One clock is not enough: after a full turn it shows the same. So each pair has a speed of its own, as hours, minutes
# and seconds have. The figure shows it: the first pair moves by a radian a token and tells neighbors apart, later ones
# are slower and slower and tell regions of the text apart.

# %% tags=["active-ipynb", "figure"]
# """Three cosine curves over positions 0 to 64. That of pair 0 turns about ten times, that of pair 1 once, that of
# pair 2 falls from 1 to 0.8 and never comes round."""
# import matplotlib.pyplot as plt
# import numpy as np
#
# position = np.linspace(0, 64, 600)
# axes = plt.figure(figsize=(7.6, 3.2)).gca()
# for pair, style in enumerate(("-", "--", ":")):
#     speed = 0.1**pair
#     axes.plot(position, np.cos(speed * position), style, label=f"pair {pair}: {speed:.4g} rad a token")
# axes.set(xlabel="position in tokens", ylabel="cosine of the angle", xlim=(0, 64), ylim=(-1.1, 1.1))
# axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=3)

# %%
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

# %% [markdown] tags=["step"]
# **The pairs.** Entries 0 and 1 are a pair, 2 and 3 the next one. Give a row as its pairs.

# %% tags=["active-ipynb", "step"]
# def pairs(row: Float[Tensor, "d_k"]) -> Float[Tensor, "pairs 2"]:
#     """The points of the plane that a row holds."""
#     ### BEGIN SOLUTION
#     return row.unflatten(-1, (-1, 2))
#     ### END SOLUTION

# %% [markdown] tags=["step-cases"]
# pairs([1.0, 2.0, 3.0, 4.0, 5.0, 6.0]) = [[1, 2], [3, 4], [5, 6]]
# pairs([1.0, 2.0, 3.0, 4.0, 5.0, 6.0]) ≠ [[1, 4], [2, 5], [3, 6]]: halves are paired, `i` with `i + d_k/2`
# pairs([1.0, 2.0, 3.0, 4.0, 5.0, 6.0]) ≠ [[1, 3, 5], [2, 4, 6]]: the axes are swapped: a pair is a row of the result

# %% [markdown] tags=["step"]
# **The angles.** Pair $i$ is rotated by $p \cdot \theta^{-2i/d_k}$ at position $p$. Give the angles of all pairs.

# %% tags=["active-ipynb", "step"]
# def angles(position: int, d_k: int, theta: float) -> list[float]:
#     """The angle of each pair at this position, in radians."""
#     ### BEGIN SOLUTION
#     return [position * theta ** (-2 * i / d_k) for i in range(d_k // 2)]
#     ### END SOLUTION

# %% [markdown] tags=["step-cases"]
# angles(3, 4, 100.0) = [3, 0.3]
# angles(3, 4, 100.0) ≠ [3, 3]: every pair has the same speed; the exponent falls with the pair, -2i/d_k
# angles(3, 4, 100.0) ≠ [3, 0.94868]: the exponent is -i/d_k, half of what it should be
# angles(3, 4, 100.0) ≠ [3, 30]: the sign of the exponent: later pairs are slower, not faster
# angles(3, 4, 100.0) ≠ [3, 0.94868, 0.3, 0.094868]: an angle for each entry; a pair has one angle, so d_k / 2 of them
# angles(3, 4, 100.0) ≠ [1, 0.1]: the speeds, without the position

# %% [markdown] tags=["step"]
# **One pair, rotated.** Rotate the point `(a, b)` counterclockwise by `angle`.

# %% tags=["active-ipynb", "step"]
# import math
#
#
# def rotated(a: float, b: float, angle: float) -> tuple[float, float]:
#     """The point (a, b), rotated about the origin."""
#     ### BEGIN SOLUTION
#     return a * math.cos(angle) - b * math.sin(angle), a * math.sin(angle) + b * math.cos(angle)
#     ### END SOLUTION

# %% [markdown] tags=["step-cases"]
# rotated(1.0, 2.0, 0.3) = (0.36430, 2.20619)
# rotated(1.0, 2.0, 0.3) ≠ (1.54638, 1.61515): clockwise; the sines have each other's sign
# rotated(1.0, 2.0, 0.3) ≠ (1.54638, 2.20619): the first row has a plus, where the matrix has -sin
# rotated(1.0, 2.0, 0.3) ≠ (0.36430, 2.01833): b is computed from the new a; both need the old one

# %% [markdown] tags=["experiment"]
# Both lines have the same distances: are their scores the same? Then make `theta` 2: at which distance does the score
# come back to nearly 1? That is what a theta too small for the text does.

# %% tags=["active-ipynb", "experiment"]
# theta = 10000.0
# rope, x = RoPEReal(8, 2048, theta=theta), torch.ones(1, 64, 8) / 8**0.5
# for start in (0, 1000):
#     moved = rope(x, torch.arange(start, start + 64))[0]
#     print([round(score, 2) for score in (moved @ moved[0]).tolist()[::4]])


# %%
### BEGIN SOLUTION
def angle_table(d_k: int, max_seq_len: int, theta: float) -> Float[Tensor, "max_seq_len pairs"]:
    """The angle of each position and pair, in float32 whatever the dtype of the model."""
    position = torch.arange(max_seq_len, dtype=torch.float32)
    frequency = theta ** (-torch.arange(0, d_k, 2, dtype=torch.float32) / d_k)
    return torch.outer(position, frequency)


def look_up(table: Tensor, positions: Tensor, x: Tensor) -> Tensor:
    """The rows at these positions; those of (batch, seq) get the axes in between that x has."""
    rows = table[positions]
    if positions.ndim == 2:
        rows = rows.unflatten(0, (-1, *[1] * (x.ndim - 3)))
    return rows


### END SOLUTION


# %%
class RoPEReal(nn.Module):
    """Rotate neighboring pairs by position · theta^(-2i/d_k), in real arithmetic, in float32 at least.

    Su et al. 2021, arXiv:2104.09864, equation 34.
    """

    def __init__(self, d_k: int, max_seq_len: int, theta: float = 10000.0, *, device=None, dtype=None):
        ### BEGIN SOLUTION
        super().__init__()
        self.sizes = d_k, max_seq_len, theta
        table = torch.empty(max_seq_len, d_k // 2, device=device, dtype=torch.float32)
        self.register_buffer("cos", table, persistent=False)
        self.register_buffer("sin", torch.empty_like(table), persistent=False)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Fill the tables, which no state dict holds."""
        angles = angle_table(*self.sizes)
        self.cos.copy_(angles.cos())
        self.sin.copy_(angles.sin())
        ### END SOLUTION

    def forward(
        self, x: Float[Tensor, "*batch seq d_k"], positions: Int[Tensor, "*batch seq"]
    ) -> Float[Tensor, "*batch seq d_k"]:
        """The rotated x. One row of positions serves all of x, or one row each entry of its first dimension."""
        ### BEGIN SOLUTION
        cos, sin = look_up(self.cos, positions, x), look_up(self.sin, positions, x)
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        even, odd = wide[..., 0::2], wide[..., 1::2]
        rotated = torch.stack([even * cos - odd * sin, even * sin + odd * cos], dim=-1)
        return rotated.flatten(-2).to(x.dtype)
        ### END SOLUTION


# %%
class RoPEComplex(nn.Module):
    """The same map: each pair is a complex number, multiplied by exp(i · angle). Same arguments and dtypes."""

    def __init__(self, d_k: int, max_seq_len: int, theta: float = 10000.0, *, device=None, dtype=None):
        ### BEGIN SOLUTION
        super().__init__()
        self.sizes = d_k, max_seq_len, theta
        # Real: a cast of the module would drop the imaginary part of a complex buffer.
        table = torch.empty(max_seq_len, d_k // 2, 2, device=device, dtype=torch.float32)
        self.register_buffer("freqs_cis", table, persistent=False)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Fill the table, which no state dict holds."""
        angles = angle_table(*self.sizes)
        self.freqs_cis.copy_(torch.stack([angles.cos(), angles.sin()], dim=-1))
        ### END SOLUTION

    def forward(
        self, x: Float[Tensor, "*batch seq d_k"], positions: Int[Tensor, "*batch seq"]
    ) -> Float[Tensor, "*batch seq d_k"]:
        """The rotated x, as in RoPEReal."""
        ### BEGIN SOLUTION
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        freqs_cis = torch.view_as_complex(look_up(self.freqs_cis, positions, x).float())
        rotated = torch.complex(wide[..., 0::2], wide[..., 1::2]) * freqs_cis
        return torch.view_as_real(rotated).flatten(-2).to(x.dtype)
        ### END SOLUTION


# %% [markdown] tags=["solution"]
# ## Why it is done this way
#
# $$\langle R_m q,\, R_n k \rangle = q^\top R_m^\top R_n\, k = \langle q,\, R_{n-m} k \rangle$$
#
# Since $R_m^\top R_n = R_{n-m}$, the score sees the distance $n - m$ alone: a good test of your code.
#
# **The precision of the angles.** The angle of pair 0 is the position itself, thousands of radians. bfloat16 holds
# integers exactly up to 256 only: 4,096 positions become 769. In float32 angles below position 10,000 are off by up to
# $8 \cdot 10^{-4}$, as in Llama's own tables; a checkpoint has been trained with that.
#
# **Tables as buffers.** They move with the module, `persistent=False` keeps them out of checkpoints, and
# `reset_parameters` fills them again where a model is built on `meta`, sharded and then loaded. They stay float32 in a
# model that is built in bfloat16: a cosine in bfloat16 is off by up to 0.002.
#
# **Positions are data, not a range.** A cached decoder asks for position 517 alone; packed or padded batches have
# other positions in each row. They are not checked: on a GPU a look at their values waits for the device. A position of
# -1 reads the last row, so check where positions are made.
#
# **What it costs.** 3 FLOPs an entry, for 4 bytes read and written in bfloat16: 0.75 FLOPs a byte, memory-bound. The 32
# query heads and 8 key heads of Llama 3 8B, 8,192 tokens of width 128, are 168 MB a layer: 50 µs at an H100's 3.35
# TB/s if fused. The tables take $4 d_k$ bytes a position: 4.2 MB for 8,192.
#
# ## The other formulation
#
# **Half split** (GPT-NeoX, the Llama of Hugging Face). Pairs are `(i, i + d_k/2)`, rotated as
# `x * cos + rotate_half(x) * sin`. It is the same map with permuted columns: permute the rows of the query and key
# projections to exchange weights with this one.
#
# ## The usual mistakes
#
# - Pairing halves where the weights expect neighbors. Shapes fit, distances still work, and a checkpoint gives noise.
# - The sign of $\sin$ swapped. All distances are mirrored; a test with one position, or with $q = k$, does not see it.
# - $\theta^{-i/d_k}$ instead of $\theta^{-2i/d_k}$. `torch.arange(0, d_k, 2)` already holds the $2i$.

# %% tags=["active-ipynb", "solution"]
# # Every pair of entries is a point of the plane: 16 positions of one vector, early pairs fast and late pairs slow
# import matplotlib.pyplot as plt
#
# pairs, positions = 4, torch.arange(16)
# start = torch.tensor([1.0, 0.0]).repeat(pairs).expand(len(positions), -1)
# rotated = RoPEReal(2 * pairs, len(positions), theta=100.0)(start, positions).unflatten(-1, (pairs, 2))
# figure, axes = plt.subplots(1, pairs, figsize=(12, 3), sharex=True, sharey=True, layout="constrained")
# for pair, axis in enumerate(axes):
#     axis.plot(*rotated[:, pair].T, color="lightgray", zorder=1)
#     points = axis.scatter(*rotated[:, pair].T, c=positions, zorder=2)
#     step = 100 ** (-pair / pairs)
#     axis.set(title=f"pair {pair}: {step:.3g} rad a step", aspect="equal", xlim=(-1.2, 1.2), ylim=(-1.2, 1.2))
# figure.colorbar(points, ax=axes, label="position")
# plt.show()

# %% [markdown] tags=["solution", "questions"]
# ## What interviewers ask next
#
# ### Why not add positions to the embeddings?
#
# - A rotation acts on the score itself, in every layer, and has no parameters.
# - The score depends on the distance alone.
# - Rotations keep lengths, so positions never change how large a query or key is.
# - Values are not rotated: what is said does not depend on where.
#
# Source: Su et al. 2021, section 3, arXiv:2104.09864.
#
# ### After how many tokens has the slowest pair of heads of `width` entries made a full turn, at a theta of `theta`?
#
# - Pair $i$ moves on by $\theta^{-2i/d_k}$ a token, the last one by $\theta^{-(d_k - 2)/d_k}$. A full turn takes
#   $2\pi$ over that.
# - Pairs that make less than one turn in training never show all their angles: beyond that length they are new to the
#   model. Of 64 pairs 18 do, at 4,096 tokens and 10,000.
# - Longer contexts want a larger theta: Llama 3 has 500,000.
# - It is not in the state dict. A wrong value loads without a word and ruins long texts first.
#
# Answer: `6.2832 * theta ** ((width - 2) / width)` tokens, within 10 %. Settings: `width` 64, 128; `theta` 10000,
# 500000.
#
# Source: Liu et al. 2023, arXiv:2310.05209; Grattafiori et al. 2024, section 3.2, arXiv:2407.21783.
#
# ### Does a key enter the KV cache before or after its rotation?
#
# - After. The rotation depends on the key's own position alone, so it never has to be done again.
# - Unrotated keys would have to be rotated at every step. That is worth it only if positions are renumbered, as when
#   old tokens are dropped.
# - Since only distances count, a rotated cache can also be shifted by one more rotation.
#
# Source: Xiao et al. 2023, section 3.2, arXiv:2309.17453.
#
# ### How many µs does an H100 need to rotate `heads` query and 8 key heads of width 128, bfloat16, `tokens` tokens?
#
# - Fused, it reads and writes queries and keys once: 4 bytes an entry at 3.35 TB/s.
# - Written out, slices, products and sums are six kernels or more. `rotate_half` has a concatenation besides.
# - It vanishes in the epilogue of the projection or in the attention kernel.
# - Cosines computed anew in each layer show as trigonometric kernels. Look the rows up once for all layers.
#
# Answer: `4 * 128 * (heads + 8) * tokens / 3.35e12 * 1e6` µs, within 15 %. Settings: `heads` 32, 64; `tokens` 8192,
# 32768.
#
# Source: Hsu et al. 2024, Liger kernel, arXiv:2410.10989.
