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
#     title: Convolution in two dimensions
#     level: 3
#     minutes: 25
#     builds_on: []
#     sources:
#       - "Dumoulin, Visin 2016: A guide to convolution arithmetic for deep learning, arXiv:1603.07285"
#       - "PyTorch, torch.nn.functional.conv2d, https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.conv2d.html"
# ---

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

# %% tags=["active-ipynb", "example"]
# # The example, in numbers
# kernel = [10, 1]
# for row in ([1, 2, 4], [0, 1, 2, 4, 0]):
#     windows = [row[at : at + 2] for at in range(len(row) - 1)]
#     print(row, [sum(w * v for w, v in zip(kernel, window)) for window in windows])

# %% [markdown] tags=["hint"]
# Think of one weight at a time: which pixels does weight $(i, j)$ meet, over all places of the kernel? They are a
# rectangle with steps of `stride`.

# %% [markdown] tags=["hint"]
# `x.unfold(dim, size, step)` is a view with one more axis: the windows of one axis. A dilated window is a longer one of
# which each `dilation`-th entry counts.

# %% [markdown] tags=["hint"]
# `F.pad(x, (pw, pw, ph, ph))`, `.unfold(2, dh * (kh - 1) + 1, sh).unfold(3, dw * (kw - 1) + 1, sw)[..., ::dh, ::dw]`,
# channels as `(groups, in/groups)`, and `torch.einsum("bgcyxij,gocij->bgoyx", windows, taps)`.

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
    ### BEGIN SOLUTION
    (channels, height, width), (out, share, kh, kw) = x.shape[1:], weight.shape
    (sh, sw), (ph, pw), (dh, dw) = (v if isinstance(v, (tuple, list)) else (v, v) for v in (stride, padding, dilation))
    if groups < 1 or channels % groups or out % groups:
        raise ValueError(f"{channels} channels in and {out} out are no multiples of groups={groups}, or it is below 1")
    if share != channels // groups:
        raise ValueError(f"weight has width {share}: {channels} channels in {groups} groups are {channels // groups}")
    if bias is not None and bias.shape != (out,):
        raise ValueError(f"bias of shape {tuple(bias.shape)} is not ({out},)")
    if min(sh, sw, dh, dw) < 1:
        raise ValueError(f"stride={stride} and dilation={dilation} must be at least 1")
    if min(ph, pw) < 0:
        raise ValueError(f"padding={padding} is negative")
    size, room = (dh * (kh - 1) + 1, dw * (kw - 1) + 1), (height + 2 * ph, width + 2 * pw)
    if size[0] > room[0] or size[1] > room[1]:
        raise ValueError(f"a window of {size} is larger than the padded input of {room}")
    wide = torch.promote_types(x.dtype, torch.float32)
    padded = F.pad(x.to(wide), (pw, pw, ph, ph))
    windows = padded.unfold(2, size[0], sh).unfold(3, size[1], sw)[..., ::dh, ::dw]
    windows = windows.unflatten(1, (groups, share))
    taps = weight.to(wide).unflatten(0, (groups, out // groups))
    result = torch.einsum("bgcyxij,gocij->bgoyx", windows, taps).flatten(1, 2)
    if bias is not None:
        result = result + bias.to(wide)[:, None, None]
    return result.to(x.dtype)
    ### END SOLUTION


# %% [markdown] tags=["solution"]
# ## Why it is done this way
#
# **Windows are a view.** `unfold` only sets strides: windows that overlap share memory, and the gradient adds up what
# each pixel gave to its windows. The contraction over $(c, i, j)$ then is one batched matrix product.
#
# **Groups are an axis.** Cut into `(groups, in/groups)`, the group is a batch axis of the product. `groups = 1` is the
# ordinary convolution, `groups = in` the depthwise one; neither is a special case.
#
# **Size.** The window covers $d(k - 1) + 1$ pixels. It fits at offset 0 and then each $s$ pixels as long as it ends
# inside: hence the floor, and the one.
#
# **What it costs.** $O(b\,o\,h'w' \cdot \frac{in}{groups}\,kh\,kw)$ time. The product first copies the windows:
# $4\,b\,h'w'\,in\,kh\,kw$ bytes in float32, nine times the image for a $3 \times 3$ kernel. Libraries make them tile by
# tile in fast memory.
#
# ## The other formulation
#
# Shift and add: for each $(i, j)$ the pixels `padded[:, :, i * d :: s, j * d :: s]`, cut to $h' \times w'$, times
# `weight[:, :, i, j]`. It makes $kh \cdot kw$ small products and copies no windows.
#
# ## The usual mistakes
#
# - The kernel flipped, as in a textbook's convolution.
# - Height and width swapped: seen only if image, kernel or setting is not square.
# - `+ 1` forgotten, or the floor taken before the subtraction: the last window is lost.
# - Channels dealt out to groups in turn instead of in runs.
# - The bias along the width: with `out = w'` nothing is raised.

# %% tags=["active-ipynb", "solution"]
# # What a pixel of the result sees: one window of three settings, by its gradient
# import torch
# from matplotlib import pyplot as plt
#
# figure, axes = plt.subplots(1, 3, figsize=(9, 3))
# for axis, more in zip(axes, ({}, {"stride": 3}, {"dilation": 3})):
#     x = torch.zeros(1, 1, 11, 11, requires_grad=True)
#     result = conv2d(x, torch.ones(1, 1, 3, 3), padding=1, **more)
#     result[0, 0, 1, 1].backward()
#     axis.imshow(x.grad[0, 0])
#     axis.set_title(f"{more or 'plain'}: result {tuple(result.shape[2:])}")
# plt.show()

# %% [markdown] tags=["solution", "questions"]
# ## What interviewers ask next
#
# ### How many parameters and multiplications does a layer have?
#
# - $out \cdot in/groups \cdot kh \cdot kw$ weights, and each is used at all $h' w'$ places.
# - A 3 × 3 layer from 64 to 64 channels has 36,864 weights; on 56 × 56 pixels that is 116 million multiplications.
#
# Source: Dumoulin, Visin 2016, arXiv:1603.07285.
#
# ### What does a stack of 3 × 3 kernels see?
#
# - Two layers see 5 × 5 pixels, three see 7 × 7, with fewer weights than one large kernel: 27 against 49.
# - With dilations 1, 2, 4 the field doubles with each layer at the same cost.
#
# Source: Simonyan, Zisserman 2014, section 2.3, arXiv:1409.1556.
#
# ### What is a depthwise separable convolution?
#
# - One kernel for each channel (`groups = in`), then a 1 × 1 kernel that mixes channels.
# - Its cost is $1/out + 1/k^2$ of the full one: about a ninth for 3 × 3.
#
# Source: Howard et al. 2017, section 3.1, arXiv:1704.04861.
#
# ### How do libraries compute it?
#
# - As a matrix product of windows that are only made in tiles; by FFT for large kernels.
# - By Winograd's transform for 3 × 3: 2.25 times fewer multiplications, and less accurate in half precision.
#
# Source: Lavin, Gray 2015, arXiv:1509.09308.
#
# ### What is the gradient for the image?
#
# - The transposed convolution: each output's gradient is spread over its window, weights in place.
# - With stride 1 it is a convolution with the flipped kernel, channels swapped, and padding $k - 1 - p$.
#
# Source: Dumoulin, Visin 2016, section 4, arXiv:1603.07285.
#
# ### How is a vision transformer's patch embedding a convolution?
#
# - A kernel of 16 × 16 with stride 16: windows do not overlap, and each is one linear layer of its pixels.
# - So it is a reshape and a matrix product.
#
# Source: Dosovitskiy et al. 2020, arXiv:2010.11929.
