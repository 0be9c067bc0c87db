# %% [markdown]
# # Convolution in two dimensions
#
# $$y_{b,o,r,q} = \beta_o + \sum_{c,i,j} w_{o,c,i,j} \; x_{b,\; c',\; s r + d i - p,\; s q + d j - p}$$
#
# A small kernel of weights slides over an image. At each place it gives the sum of the products of its weights $w$ and
# the pixels below. $s$ is the stride, $p$ the padding with zeros on both sides, $d$ the dilation; $c'$ is channel $c$
# of the output's group. The kernel is not flipped: this is cross-correlation.
#
# **Write** `conv2d(x, weight, bias=None, stride=1, padding=0, dilation=1, groups=1)`. `x` has shape
# `(batch, in, h, w)`, `weight` `(out, in/groups, kh, kw)`, `bias` `(out,)`, the result `(batch, out, h', w')` with
# $h' = \lfloor (h + 2p - d\,(kh - 1) - 1) / s \rfloor + 1$, and $w'$ likewise.
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

# %% [markdown] tags=["contract"]
# <details><summary>Contract: Pairs and groups, Windows, Half precision, Cost, Errors</summary>
#
# - **Pairs and groups.** `stride`, `padding` and `dilation` are an int for both axes, or a pair: height first, then
#   width. Channels of `x` and of the result are cut into `groups` runs of neighbors: output channel $o$ belongs to
#   group `o // (out / groups)`.
# - **Windows.** They may lie in the padding alone, and be as large as the padded image. The stride may skip pixels.
# - **Half precision.** The products of a window are summed in float32. The sum may be rounded before the bias is added.
# - **Cost.** The number of operations may grow with the kernel and the groups, but not with batch, image or channels.
# - **Errors.** Channels in or out that do not fit `groups` and `weight`; a window larger than the padded input.
#
# </details>

# %% tags=["active-ipynb", "example"]
# # The example, in numbers
# kernel = [10, 1]
# for row in ([1, 2, 4], [0, 1, 2, 4, 0]):
#     windows = [row[at : at + 2] for at in range(len(row) - 1)]
#     print(row, [sum(w * v for w, v in zip(kernel, window)) for window in windows])

# %%
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

    Raises ValueError where channels do not fit groups and weight, or a window is larger than the padded input.
    """
    raise NotImplementedError


# %% tags=["active-ipynb"]
# import sys
#
# sys.path.append("../..")  # the project
# from dojo import check
#
# check("conv2d")
