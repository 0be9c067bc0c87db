# ---
# jupyter:
#   dojo:
#     title: Integer quantization
#     level: 3
#     minutes: 30
#     builds_on: [linear]
#     sources:
#       - "Dettmers et al. 2022: LLM.int8(), 8-bit matrix multiplication for transformers at scale, arXiv:2208.07339"
#       - "Dettmers, Zettlemoyer 2022: The case for 4-bit precision, k-bit inference scaling laws, arXiv:2212.09720"
# ---

# %% [markdown]
# # Integer quantization
#
# $$s = \frac{\max |x|}{2^{b-1} - 1}, \qquad c = \mathrm{round}\!\left(\frac{x}{s}\right), \qquad x \approx s\, c$$
#
# Symmetric quantization keeps a group of weights as small integers, the codes $c$, and one scale $s$. **Write**
#
# - `quantize(x, bits=8, group_size=None)`: from `(..., n)` to int8 codes `(..., n)` and scales `(..., n / group_size)`.
#   A group is `group_size` neighbors, or without it the whole row.
# - `dequantize(codes, scales)`: `x` again. Group sizes follow from the shapes.
# - `pack_int4(codes)`: two codes in $[-8, 7]$ a byte, uint8 `(..., n / 2)`: `even + 8 | odd + 8 << 4`.
# - `unpack_int4(packed)`: the int8 codes again.
# - `int8_linear(x, codes, scales)`: weights `codes` `(out, in)`, `scales` `(out, 1)`. Each row of `x` `(..., in)` is
#   quantized to 8 bits, multiplied by the codes in integers, then by both scales.
#
# No gradients. Not allowed: `torch.quantize_per_tensor` and its kin. `torch._int_mm` is.
#
# **Example.** `quantize([[1, -4, 3]], bits=4)`: the scale is 4/7, the codes are `[[2, -7, 5]]`, rounded from 1.75, -7
# and 5.25. Of 2 and -7 `pack_int4` makes 10 + 16 · 1 = 26.

# %% [markdown] tags=["contract"]
# - **Zero groups.** A group of zeros has codes 0 and a finite scale, so that it stays 0.
# - **Half precision.** Scales are float32, also for half input, and so are the quotients. For float64 they are float64.
#   `int8_linear` takes scales in float32 and has the dtype of `x`, rounded once.
# - **Exact sums.** `int8_linear` adds up to 4,096 products of codes near 127 without error: 66 million, where float32
#   holds every integer only up to 16.7 million.
# - **Ties.** They go to even, as `torch.round` has it. No other quotient that is graded is near a half.
# - **Errors.** `n` no multiple of `group_size`, in `quantize`; odd `n`, in `pack_int4`.

# %% [markdown] tags=["hint"]
# `x.unflatten(-1, (-1, group_size))` gives each group an axis of its own. What do `amax` and broadcasting do then?

# %% [markdown] tags=["hint"]
# Codes plus 8 are 0 to 15, four bits. `[..., 0::2]` are the even ones. Unpacked by `& 15` and `>> 4` they stand in two
# tensors: `stack(..., dim=-1).flatten(-2)` interleaves.

# %% [markdown] tags=["hint"]
# $\sum_k s_x c_k\, s_w d_k = s_x s_w \sum_k c_k d_k$: `torch._int_mm` of two int8 matrices gives the sum in int32. `x`
# may have any leading axes, the product wants two.

# %%
import torch
from jaxtyping import Float, Int8, UInt8
from torch import Tensor


# %%
def quantize(
    x: Float[Tensor, "*batch n"], bits: int = 8, group_size: int | None = None
) -> tuple[Int8[Tensor, "*batch n"], Float[Tensor, "*batch groups"]]:
    """Codes of `bits` bits, and a scale a group in float32 at least. Raises ValueError if n is no whole of groups."""
    ### BEGIN SOLUTION
    n = x.shape[-1]
    if group_size is None:
        group_size = n
    if n % group_size != 0:
        raise ValueError(f"rows of {n} are not divided into groups of {group_size}")
    largest = 2 ** (bits - 1) - 1
    acc = torch.promote_types(x.dtype, torch.float32)
    groups = x.to(acc).unflatten(-1, (-1, group_size))
    scales = groups.abs().amax(dim=-1, keepdim=True) / largest
    scales = scales.masked_fill(scales == 0, 1.0)
    codes = torch.round(groups / scales).to(torch.int8)
    return codes.flatten(-2), scales.squeeze(-1)
    ### END SOLUTION


def dequantize(codes: Int8[Tensor, "*batch n"], scales: Float[Tensor, "*batch groups"]) -> Float[Tensor, "*batch n"]:
    """Each code times the scale of its group, in the dtype of the scales."""
    ### BEGIN SOLUTION
    groups = codes.unflatten(-1, (scales.shape[-1], -1))
    return (groups * scales[..., None]).flatten(-2)
    ### END SOLUTION


# %%
def pack_int4(codes: Int8[Tensor, "*batch n"]) -> UInt8[Tensor, "*batch half"]:
    """Two codes from -8 to 7 a byte, the even one in the low bits. Raises ValueError if n is odd."""
    ### BEGIN SOLUTION
    if codes.shape[-1] % 2 != 0:
        raise ValueError(f"rows of {codes.shape[-1]} codes are not packed in pairs")
    nibbles = (codes + 8).view(torch.uint8)
    return nibbles[..., 0::2] | nibbles[..., 1::2] << 4
    ### END SOLUTION


def unpack_int4(packed: UInt8[Tensor, "*batch half"]) -> Int8[Tensor, "*batch n"]:
    """The codes that pack_int4 packed."""
    ### BEGIN SOLUTION
    pairs = torch.stack([packed & 15, packed >> 4], dim=-1)
    return pairs.flatten(-2).view(torch.int8) - 8
    ### END SOLUTION


# %%
def int8_linear(
    x: Float[Tensor, "*batch in"], codes: Int8[Tensor, "out in"], scales: Float[Tensor, "out 1"]
) -> Float[Tensor, "*batch out"]:
    """The product of x, quantized row by row, and int8 weights, summed in integers.

    LLM.int8() without outliers: Dettmers et al. 2022, arXiv:2208.07339.
    """
    ### BEGIN SOLUTION
    x_codes, x_scales = quantize(x.reshape(-1, x.shape[-1]))
    rows, out = len(x_codes), len(codes)
    if x.is_cuda:  # where a product takes more than 16 rows, and multiples of 8
        x_codes = torch.constant_pad_nd(x_codes, (0, -x.shape[-1] % 8, 0, max(0, 17 - rows)))
        codes = torch.constant_pad_nd(codes, (0, -x.shape[-1] % 8, 0, -out % 8))
    total = torch._int_mm(x_codes, codes.contiguous().T)  # int32; it reads expanded weights wrongly
    result = total[:rows, :out] * x_scales * scales.T
    return result.to(x.dtype).view(*x.shape[:-1], -1)
    ### END SOLUTION


# %% [markdown] tags=["solution"]
# ## Why it is done this way
#
# **Symmetric.** Without a zero point the product of two quantized vectors is one sum of integers and one factor. A zero
# point adds a sum over codes for each of them. -128 stays unused, so that $-x$ has the codes $-c$.
#
# **A scale a group.** The step is the largest entry divided by 127, or by 7: one outlier makes the step large for all
# that share its scale. A row of `x` has one scale and the weights one a row, for both can be drawn out of the sum over
# `in`. Groups along `in` cannot: 4-bit weights are dequantized in registers and multiplied in bfloat16, as Marlin does.
#
# **In integers.** Tensor cores multiply int8 and add in int32, twice as fast as bfloat16. On a GPU `torch._int_mm`
# wants more than 16 rows and multiples of 8; libraries pad.
#
# **What it costs.** Quantizing takes some 5 FLOPs a number and is memory-bound: it reads `x` twice, for a row's maximum
# must be known before its first code. Fused into the norm before the layer it has no traffic of its own. In decoding
# the weights below are read in 2.7 µs as 8.9 MB, instead of 10 µs as 33.6 MB, at 3.35 TB/s.

# %% tags=["active-ipynb", "solution"]
# # What it saves, measured: a weight of 4,096 by 4,096 whose first columns are outliers
# import torch
#
# weight = 0.02 * torch.randn(4096, 4096, generator=torch.Generator().manual_seed(0))
# weight[:, :6] *= 20
# dense = weight.bfloat16().untyped_storage().nbytes()
# for bits, group_size in ((8, None), (4, None), (4, 128), (4, 32)):
#     codes, scales = quantize(weight, bits, group_size)
#     stored = pack_int4(codes) if bits == 4 else codes
#     size = sum(each.untyped_storage().nbytes() for each in (stored, scales))
#     back = dequantize(unpack_int4(stored) if bits == 4 else stored, scales)
#     error = (back - weight)[:, 6:].norm() / weight[:, 6:].norm()
#     told = f"{bits} bits, groups of {group_size or 4096:>4}: {size / 1e6:4.1f} MB of {dense / 1e6:.1f}"
#     print(f"{told}, error of the other columns {100 * error:4.1f} %")

# %% [markdown] tags=["solution"]
# | 4,096 by 4,096 weights, 33.6 MB in bfloat16 | MB | bits a weight | error, no outliers | error beside outliers |
# |---|---|---|---|---|
# | 8 bits, a scale a row | 16.8 | 8.01 | 0.9 % | 7.9 % |
# | 4 bits, a scale a row | 8.4 | 4.01 | 15.7 % | 92.7 % |
# | 4 bits, groups of 128 | 8.9 | 4.25 | 11.7 % | 19.7 % |
# | 4 bits, groups of 32 | 10.5 | 5.00 | 9.7 % | 12.2 % |
#
# Measured as the bytes of both storages, with float32 scales; a float16 scale in groups of 128 makes it 4.125 bits.
# Outliers are 6 columns of 4,096, 20 times as large.
#
# ## The other formulation
#
# `torch.clamp(scales, min=eps)` instead of a fill, as torchao has it; llama.cpp keeps a scale of 0 and sets its inverse
# to 0. Where no product of integers is at hand, float32 sums of products are exact up to 1,040 terms, and float64 sums
# of them are always.
#
# ## The usual mistakes
#
# - `x.to(torch.int8)` without `round`: it truncates, and each weight shrinks by half a step on average.
# - $2^{b-1}$ for $2^{b-1} - 1$: 128 wraps to -128 in int8.
# - The scale, or the quotient, in bfloat16: 8 bits of mantissa are no more than the code has.
# - `reshape(2, -1)` on the way to nibbles: it packs the first half with the second.

# %% [markdown] tags=["solution", "questions"]
# ## What interviewers ask next
#
# ### How many GB do `billions` billion weights take in 4 bits, groups of `group`, with float16 scales?
#
# - Half a byte a weight, and two bytes a group: 4.125 bits a weight in groups of 128, 4.5 in groups of 32.
# - 7 billion: 3.6 GB, where bfloat16 takes 14.
#
# Answer: `billions * (0.5 + 2 / group)` GB, within 3 %. Settings: `billions` 7, 13, 70; `group` 32, 128.
#
# Source: Dettmers, Zettlemoyer 2022, section 5, arXiv:2212.09720.
#
# ### One outlier of `size` among weights up to 1 in a group: on how many codes above 0 are they left, of `bits` bits?
#
# - The step is the outlier over $2^{b-1} - 1$: 60 and 8 bits leave 127/60 = 2 steps up to 1.
# - So outliers are the subject of most methods: a scale a group, outlier columns in float16 (LLM.int8()), scales moved
#   from activations to weights (SmoothQuant), rotations (QuaRot).
#
# Answer: `(2**(bits - 1) - 1) / size` codes, within 5 %. Settings: `size` 5, 20, 60; `bits` 4, 8.
#
# Source: Xiao et al. 2022, SmoothQuant, arXiv:2211.10438.
#
# ### Does 4-bit weight-only speed up prefill?
#
# - No. Prefill is compute-bound: weights are dequantized and multiplied in bfloat16, which is a little more work.
# - Decoding of few sequences is memory-bound, and gains up to 4 times. With the batch its arithmetic intensity grows,
#   and the gain is gone.
# - To gain in prefill, activations must be quantized too: int8 or fp8 on both sides.
#
# Source: Frantar et al. 2024, MARLIN, arXiv:2408.11743.
#
# ### How many products may int32 sum, and float32?
#
# - $(2^{31} - 1) / 127^2$ = 133,144 terms at worst, more than any layer is wide.
# - float32 holds all integers up to $2^{24}$: 1,040 terms. Tensor cores add fp8 products in fewer bits still,
#   and DeepSeek-V3 moves partial sums to float32 every 128 terms.
#
# Source: DeepSeek-AI 2024, section 3.3.2, arXiv:2412.19437.
