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

# %% [markdown] tags=["hint"]
# Make the table first: `angles[p, i] = p * theta ** (-2 * i / d_k)`, of shape `(max_seq_len, d_k / 2)`.
# Compute it in float64 and round the cosines and sines afterwards: a float32 angle near 10,000 is off by up to 0.0005.

# %% [markdown] tags=["hint"]
# `x[..., 0::2]` and `x[..., 1::2]` are the two members of all pairs. Combine them with two lines of arithmetic,
# then put the results back in the same places.
# For positions of shape `(batch, seq)` insert axes of size 1 between the two, until they line up with `x`.

# %% [markdown] tags=["hint"]
# A buffer registered with `persistent=False` stays out of the state dict, but `module.to(torch.bfloat16)` still rounds
# it, and throws away the imaginary part of a complex one.
# A tensor kept as a plain attribute is left alone. Move it to `x.device` yourself when you use it.
# For complex numbers, `torch.polar(torch.ones_like(angles), angles)` is $e^{i\varphi}$, and
# `torch.complex(a, b)` is $a + ib$ for float32 or float64 parts.

# %%
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn


# %%
### BEGIN SOLUTION
def angle_table(d_k: int, max_seq_len: int, theta: float) -> Float[Tensor, "max_seq_len pairs"]:
    """The angle of each position and pair, in float64: at position 10,000 a float32 angle is off by up to 5e-4."""
    if d_k % 2 != 0:
        raise ValueError(f"d_k {d_k} is odd: RoPE rotates pairs, so it must be even")
    position = torch.arange(max_seq_len, dtype=torch.float64)
    frequency = theta ** (-torch.arange(0, d_k, 2, dtype=torch.float64) / d_k)
    return torch.outer(position, frequency)


def pair_members(d_k: int) -> tuple[slice, slice]:
    """Where the first and the second member of every pair stand."""
    return slice(0, d_k, 2), slice(1, d_k, 2)


def line_up(positions: Tensor, x: Tensor, d_k: int, max_seq_len: int) -> Tensor:
    """Check both arguments; give positions (batch, seq) the axes in between that x has."""
    if x.shape[-1] != d_k:
        raise ValueError(f"x has last dimension {x.shape[-1]}, but this module was built for d_k {d_k}")
    outside = positions[(positions < 0) | (positions >= max_seq_len)]
    if outside.numel() > 0:
        raise ValueError(f"position {outside[0].item()} is outside [0, {max_seq_len}), the positions in the tables")
    if positions.ndim == 2:
        batch, seq = positions.shape
        positions = positions.reshape(batch, *[1] * (x.ndim - 3), seq)
    return positions.long()


### END SOLUTION


# %%
class RoPEReal(nn.Module):
    """Rotate neighbouring pairs by position · theta^(-2i/d_k), in real arithmetic.

    Half precision is rotated in float32 and rounded once. The tables keep their precision when the module is cast.
    Raises ValueError for an odd d_k, a last dimension other than d_k, and a position outside [0, max_seq_len).
    Su et al. 2021, arXiv:2104.09864, equation 34.
    """

    def __init__(self, d_k: int, max_seq_len: int, theta: float = 10000.0, *, device=None, dtype=None):
        ### BEGIN SOLUTION
        super().__init__()
        self.d_k = d_k
        self.max_seq_len = max_seq_len
        angles = angle_table(d_k, max_seq_len, theta)
        # Plain attributes, not buffers: `module.to(torch.bfloat16)` would round a buffer.
        self.cos = angles.cos().to(device)
        self.sin = angles.sin().to(device)
        ### END SOLUTION

    def forward(
        self, x: Float[Tensor, "*batch seq d_k"], positions: Int[Tensor, "*batch seq"]
    ) -> Float[Tensor, "*batch seq d_k"]:
        """The rotated x. One row of positions serves all of x, or one row each entry of its first dimension."""
        ### BEGIN SOLUTION
        positions = line_up(positions, x, self.d_k, self.max_seq_len)
        self.cos, self.sin = self.cos.to(x.device), self.sin.to(x.device)
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        cos = self.cos[positions].to(wide.dtype)
        sin = self.sin[positions].to(wide.dtype)
        first, second = pair_members(self.d_k)
        out = torch.empty_like(wide)
        out[..., first] = wide[..., first] * cos - wide[..., second] * sin
        out[..., second] = wide[..., first] * sin + wide[..., second] * cos
        return out.to(x.dtype)
        ### END SOLUTION


# %%
class RoPEComplex(nn.Module):
    """The same map: each pair is a complex number, multiplied by exp(i · angle). Same arguments, dtypes and errors."""

    def __init__(self, d_k: int, max_seq_len: int, theta: float = 10000.0, *, device=None, dtype=None):
        ### BEGIN SOLUTION
        super().__init__()
        self.d_k = d_k
        self.max_seq_len = max_seq_len
        angles = angle_table(d_k, max_seq_len, theta)
        self.turns = torch.polar(torch.ones_like(angles), angles).to(device)
        ### END SOLUTION

    def forward(
        self, x: Float[Tensor, "*batch seq d_k"], positions: Int[Tensor, "*batch seq"]
    ) -> Float[Tensor, "*batch seq d_k"]:
        """The rotated x, as in RoPEReal."""
        ### BEGIN SOLUTION
        positions = line_up(positions, x, self.d_k, self.max_seq_len)
        self.turns = self.turns.to(x.device)
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        turns = self.turns[positions].to(wide.dtype.to_complex())
        first, second = pair_members(self.d_k)
        rotated = torch.complex(wide[..., first], wide[..., second]) * turns
        out = torch.empty_like(wide)
        out[..., first] = rotated.real
        out[..., second] = rotated.imag
        return out.to(x.dtype)
        ### END SOLUTION


# %% [markdown] tags=["solution"]
# ## Why it is done this way
#
# $$\langle R_m q,\, R_n k \rangle = q^\top R_m^\top R_n\, k = \langle q,\, R_{n-m} k \rangle$$
#
# Rotations keep lengths, and $R_m^\top R_n = R_{n-m}$. So the score sees only the distance $n - m$.
# That is the whole reason for rotating, and a good test of your code.
#
# **The tables are the hard part.** The angle of pair 0 is the position itself, thousands of radians.
# bfloat16 holds integers exactly only up to 256: a table of angles in bfloat16 confuses neighbouring positions.
# A table of cosines in bfloat16 is off by 0.2 percent. So angles and tables are float64, rounded to the arithmetic of
# `x` when they are looked up, and the tables are plain attributes, which no cast of the module touches.
# The price is one line that moves them to the device of `x`. After the first call it does nothing.
#
# **Positions are data, not a range.** A cached decoder asks for position 517 alone; packed or padded batches have
# different positions in each row. A negative index would silently read the end of the table, so it is an error.
#
# **What it costs.** $O(N)$ time for an `x` of $N$ entries: three operations for each. The result takes $4 N$ bytes in
# float32, the tables $8\, d_k$ bytes for each position in float64: 4 MB for `d_k = 128` and 4,096 positions.
#
# ## The other formulations
#
# - **Complex.** $(x_{2i} + i\,x_{2i+1})\, e^{i\varphi}$ is the same rotation in one multiplication.
#   `torch.view_as_complex` reads pairs without a copy, but needs stride 1 in the last dimension, even strides before it
#   and an even offset. `torch.complex` takes any layout. Neither takes bfloat16.
# - **Half split** (GPT-NeoX, the Llama of Hugging Face). Pairs are `(i, i + d_k/2)`, rotated as
#   `x * cos + rotate_half(x) * sin`. It is the same map with permuted columns. The rows of the query and key
#   projections must be permuted to exchange weights with this one.
#
# ## The usual mistakes
#
# - Pairing halves where the weights expect neighbours. Shapes fit, distances still work, and a checkpoint gives noise.
# - The sign of $\sin$ swapped. All distances are mirrored; a test with one position, or with $q = k$, does not see it.
# - $\theta^{-i/d_k}$ instead of $\theta^{-2i/d_k}$. `torch.arange(0, d_k, 2)` already holds the $2i$.
# - Rotating the values too. Only queries and keys carry positions.
# - A non-persistent buffer that `model.to(torch.bfloat16)` rounds.

# %% tags=["active-ipynb", "solution"]
# # Every pair of entries is a point of the plane: 16 positions of one vector, early pairs fast and late pairs slow
# import matplotlib.pyplot as plt
#
# pairs, positions = 4, torch.arange(16)
# start = torch.tensor([1.0, 0.0]).repeat(pairs).expand(len(positions), -1)
# turned = RoPEReal(2 * pairs, len(positions), theta=100.0)(start, positions).unflatten(-1, (pairs, 2))
# figure, axes = plt.subplots(1, pairs, figsize=(12, 3), sharex=True, sharey=True, layout="constrained")
# for pair, axis in enumerate(axes):
#     axis.plot(*turned[:, pair].T, color="lightgray", zorder=1)
#     points = axis.scatter(*turned[:, pair].T, c=positions, zorder=2)
#     step = 100 ** (-pair / pairs)
#     axis.set(title=f"pair {pair}: {step:.3g} rad a step", aspect="equal", xlim=(-1.2, 1.2), ylim=(-1.2, 1.2))
# figure.colorbar(points, ax=axes, label="position")
# plt.show()

# %% tags=["active-ipynb", "solution"]
# # One query and one key at every pair of positions: scores are equal along each diagonal, so only distance counts
# q, k = torch.randn(2, 8, generator=torch.Generator().manual_seed(1))
# rope = RoPEReal(8, 24, theta=100.0)
# everywhere = torch.arange(24)
# scores = rope(q.expand(24, 8), everywhere) @ rope(k.expand(24, 8), everywhere).T
# figure, axis = plt.subplots(figsize=(4.6, 3.8), layout="constrained")
# figure.colorbar(axis.imshow(scores), label="score")
# axis.set(xlabel="position of the key", ylabel="position of the query")
# plt.show()

# %% [markdown] tags=["solution", "questions"]
# ## What interviewers ask next
#
# ### Why not add positions to the embeddings?
#
# - A rotation acts on the score itself, in every layer, and has no parameters.
# - The score depends on the distance alone: $\langle R_m q,\, R_n k \rangle = \langle q,\, R_{n-m} k \rangle$.
# - Rotations keep lengths, so positions never change how large a query or key is.
# - Values are not rotated: what is said does not depend on where.
#
# Source: Su et al. 2021, section 3, arXiv:2104.09864.
#
# ### What does theta do, and how would you choose it?
#
# - Pair $i$ turns by $\theta^{-2i/d_k}$ a token. The slowest turns once in a little under $2\pi\theta$ tokens: 54,000
#   for $d_k = 128$ and $\theta = 10{,}000$.
# - Pairs that turn less than once in training never show all their angles. Beyond that length they are new to the
#   model.
# - Longer contexts want a larger one: Llama 3 has 500,000.
# - It is not in the state dict. A wrong value loads without a word and ruins long texts first.
#
# Source: Liu et al. 2023, arXiv:2310.05209; Grattafiori et al. 2024, section 3.2, arXiv:2407.21783.
#
# ### How do you extend the context of a trained model?
#
# - Interpolation: divide positions by a factor, so that all angles have been seen. Neighbours are then harder to tell
#   apart.
# - A larger $\theta$ slows the slow pairs most and the fast ones hardly.
# - YaRN scales slow pairs and leaves fast ones, and sharpens the scores a little.
# - All work best with some fine-tuning on long texts.
#
# Source: Peng et al. 2023, arXiv:2309.00071.
#
# ### Does a key enter the cache before or after its rotation?
#
# - After. The rotation depends on the key's own position alone, so it never has to be done again.
# - Unrotated keys would have to be rotated at every step. That is worth it only if positions are renumbered, as when
#   old tokens are dropped.
# - Since only distances count, a rotated cache can also be shifted by one more rotation.
# - A checkpoint of latent attention keeps a few rotated entries apart, because the rotation cannot be folded into a
#   matrix.
#
# Source: Xiao et al. 2023, section 3.2, arXiv:2309.17453.
#
# ### Neighbouring pairs or halves: how do you find out, and how do you convert?
#
# - Both give the same model after training. Shapes and norms do not tell them apart.
# - Neighbours (0, 1), (2, 3) are in the paper and in Meta's Llama. Halves (i, i + d/2) are in GPT-NeoX and Hugging
#   Face.
# - Convert by permuting the rows of the query and key projections within each head. Values and output stay.
# - At position 0 the two agree. Test logits against a reference further on.
#
# Source: Hugging Face, conversion of Llama weights,
# https://github.com/huggingface/transformers/blob/main/src/transformers/models/llama/convert_llama_weights_to_hf.py.
#
# ### What breaks in half precision?
#
# - bfloat16 positions: 257 is already 256. Angles of thousands of radians have no digit left.
# - Tables in bfloat16 are off by up to 0.002, and by that distances of equal size give unequal scores.
# - A float32 angle near 10,000 is off by up to $5 \cdot 10^{-4}$. Compute the tables in float64 once.
# - Rotate in float32 and round the result once.
#
# Source: Kalamkar et al. 2019, arXiv:1905.12322.
#
# ### What would a profiler show?
#
# - Three operations for each entry and far more bytes: it is limited by bandwidth.
# - Written out, slices, products and sums are six kernels or more. With `rotate_half` there is a concatenation besides.
# - Fused, it reads and writes queries and keys once, or vanishes into the projection or the attention kernel.
# - Cosines computed anew in each layer show as trigonometric kernels. Look the rows up once for all layers.
#
# Source: Hsu et al. 2024, Liger kernel, arXiv:2410.10989.
#
# ### How would you test it?
#
# - Scores at `(m, n)` and `(m + s, n + s)` are equal. Scores at distance 3 and -3 are not.
# - Lengths are kept, position 0 changes nothing, two rotations add their angles.
# - Real against complex, and both against a loop with `math.cos` at far positions.
# - Positions as `(batch, seq)` with rows that differ. A sign error of the sine survives any test with $q = k$.
#
# Source: Su et al. 2021, section 3.4.2, arXiv:2104.09864.
