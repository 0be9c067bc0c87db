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
#
# **Builds on** linear. **Sources:** Dettmers et al. 2022: LLM.int8(), 8-bit matrix multiplication for transformers at
# scale, [arXiv:2208.07339](https://arxiv.org/abs/2208.07339); Dettmers, Zettlemoyer 2022: The case for 4-bit precision,
# k-bit inference scaling laws, [arXiv:2212.09720](https://arxiv.org/abs/2212.09720).
#
# House rules hold: docs/house_rules.md.

# %% [markdown] tags=["contract"]
# <details><summary>Contract: Zero groups, Half precision, Exact sums, Ties, Errors</summary>
#
# - **Zero groups.** A group of zeros has codes 0 and a finite scale, so that it stays 0.
# - **Half precision.** Scales are float32, also for half input, and so are the quotients. For float64 they are float64.
#   `int8_linear` takes scales in float32 and has the dtype of `x`, rounded once.
# - **Exact sums.** `int8_linear` adds up to 4,096 products of codes near 127 without error: 66 million, where float32
#   holds every integer only up to 16.7 million.
# - **Ties.** They go to even, as `torch.round` has it. No other quotient that is graded is near a half.
# - **Errors.** `n` no multiple of `group_size`, in `quantize`; odd `n`, in `pack_int4`.
#
# </details>

# %%
import torch
from jaxtyping import Float, Int8, UInt8
from torch import Tensor


# %%
def quantize(
    x: Float[Tensor, "*batch n"], bits: int = 8, group_size: int | None = None
) -> tuple[Int8[Tensor, "*batch n"], Float[Tensor, "*batch groups"]]:
    """Codes of `bits` bits, and a scale a group in float32 at least. Raises ValueError if n is no whole of groups."""
    raise NotImplementedError


def dequantize(codes: Int8[Tensor, "*batch n"], scales: Float[Tensor, "*batch groups"]) -> Float[Tensor, "*batch n"]:
    """Each code times the scale of its group, in the dtype of the scales."""
    raise NotImplementedError


# %%
def pack_int4(codes: Int8[Tensor, "*batch n"]) -> UInt8[Tensor, "*batch half"]:
    """Two codes from -8 to 7 a byte, the even one in the low bits. Raises ValueError if n is odd."""
    raise NotImplementedError


def unpack_int4(packed: UInt8[Tensor, "*batch half"]) -> Int8[Tensor, "*batch n"]:
    """The codes that pack_int4 packed."""
    raise NotImplementedError


# %%
def int8_linear(
    x: Float[Tensor, "*batch in"], codes: Int8[Tensor, "out in"], scales: Float[Tensor, "out 1"]
) -> Float[Tensor, "*batch out"]:
    """The product of x, quantized row by row, and int8 weights, summed in integers.

    LLM.int8() without outliers: Dettmers et al. 2022, arXiv:2208.07339.
    """
    raise NotImplementedError


# %% tags=["active-ipynb"]
# import sys
#
# sys.path.append("../..")  # the project
# from dojo import check
#
# check("quantize")
