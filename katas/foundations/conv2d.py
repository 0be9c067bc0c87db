# %% [markdown]
# # Convolution in two dimensions
#
# $$y_{b,o,r,q} = \beta_o + \sum_{c,i,j} w_{o,c,i,j} \; x_{b,\; c',\; s r + d i - p,\; s q + d j - p}$$
#
# A small kernel of weights slides over an image. At each place it gives the sum of the products of its weights $w$ and
# the pixels below. $s$ is the stride, $p$ the padding, $d$ the dilation; $c'$ is channel $c$ of the output's group.
#
# **Write** `conv2d(x, weight, bias=None, stride=1, padding=0, dilation=1, groups=1)`. `x` has shape
# `(batch, in, h, w)`, `weight` `(out, in/groups, kh, kw)`, `bias` `(out,)`, the result `(batch, out, h', w')`.
#
# - **Size**: $h' = \lfloor (h + 2p - d\,(kh - 1) - 1) / s \rfloor + 1$, and $w'$ likewise.
# - **`stride`, `padding` and `dilation`** are an int for both axes, or a pair: height first, then width.
# - **The kernel is not flipped**: what is called convolution is cross-correlation.
# - **Padding** is zeros, `padding` of them on both sides.
# - **Groups**: the channels of `x` and of the result are cut into `groups` runs of neighbours. Output channel $o$
#   belongs to group `o // (out / groups)` and sees the channels of that group alone.
# - **The bias** is added to each output channel; None adds nothing.
# - **Dtype.** float16 and bfloat16: the products of a window are summed in float32; the sum may be rounded before the
#   bias is added. float64 in, float64 out; float32 accuracy is enough.
# - **Inputs are not modified**, and may be non-contiguous or expanded. Gradients flow to `x`, `weight` and `bias`.
# - **Cost.** The number of operations may grow with the kernel and the groups, but not with batch, image or the
#   channels of a group: loops over `(i, j)` are fine, loops over pixels are not.
# - **A `ValueError`** whose message holds the values: `in` or `out` that is no multiple of `groups`, `groups` below 1,
#   a `weight` of another width than `in/groups`, a window larger than the padded input, a stride or dilation below 1,
#   a negative padding, a `bias` of another shape.
# - **Not graded:** `x` or `weight` with other than four axes, padding given as a word, dtypes that differ.
#
# Not allowed: the convolutions of PyTorch in any form, and `F.unfold`. `Tensor.unfold` and `as_strided` are allowed.
#
# **Example.** The row $(1, 2, 4)$ as an image of height 1, with the kernel $(10, 1)$: the windows $(1, 2)$ and $(2, 4)$
# give $12$ and $24$. With `padding=(0, 1)` the windows $(0, 1)$ and $(4, 0)$ come too: $1, 12, 24, 40$.
#
# **Sources:** Dumoulin, Visin 2016: A guide to convolution arithmetic for deep learning,
# [arXiv:1603.07285](https://arxiv.org/abs/1603.07285); PyTorch, torch.nn.functional.conv2d,
# https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.conv2d.html.
#
# House rules hold: docs/house_rules.md.

# %% tags=["active-ipynb", "example"]
# # The example, in numbers
# kernel = [10, 1]
# for row in ([1, 2, 4], [0, 1, 2, 4, 0]):
#     windows = [row[at : at + 2] for at in range(len(row) - 1)]
#     print(row, [sum(w * v for w, v in zip(kernel, window)) for window in windows])

# %%
import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor


# %%
def conv2d(
    x: Float[Tensor, "batch in_channels h w"],
    weight: Float[Tensor, "out_channels width kh kw"],
    bias: Float[Tensor, "out_channels"] | None = None,
    stride: int | tuple[int, int] = 1,
    padding: int | tuple[int, int] = 0,
    dilation: int | tuple[int, int] = 1,
    groups: int = 1,
) -> Float[Tensor, "batch out_channels rows columns"]:
    """The cross-correlation of an image with kernels, zeros outside; a pair is for height and width.

    Half precision is summed in float32.

    Raises:
        ValueError: channels do not divide into groups, shapes do not fit, or a setting is out of range.
    """
    raise NotImplementedError


# %% tags=["active-ipynb"]
# import sys
#
# sys.path.append("../..")  # the project
# from dojo import check
#
# check("conv2d")
