# ---
# jupyter:
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

# %% [markdown] tags=["contract"]
# - **Pairs and groups.** `stride`, `padding` and `dilation` are an int for both axes, or a pair: height first, then
#   width. Channels of `x` and of the result are cut into `groups` runs of neighbors: output channel $o$ belongs to
#   group `o // (out / groups)`.
# - **Windows.** They may lie in the padding alone, and be as large as the padded image. The stride may skip pixels.
# - **Half precision.** The products of a window are summed in float32. The sum may be rounded before the bias is added.
# - **Cost.** The number of operations may grow with the kernel and the groups, but not with batch, image or channels.
# - **Errors.** Channels in or out that do not fit `groups` and `weight`; a window larger than the padded input.

# %% tags=["active-ipynb", "example"]
# # The example, in numbers
# kernel = [10, 1]
# for row in ([1, 2, 4], [0, 1, 2, 4, 0]):
#     windows = [row[at : at + 2] for at in range(len(row) - 1)]
#     print(row, [sum(w * v for w, v in zip(kernel, window)) for window in windows])

# %% [markdown] tags=["hint"]
# All windows of an image as columns of a matrix, each with `in * kh * kw` numbers: then a convolution is one product of
# matrices.

# %% [markdown] tags=["hint"]
# `x.unfold(dim, size, step)` is a view with one more axis: the windows of one axis. A dilated window is a longer one of
# which each `dilation`-th entry counts.

# %% [markdown] tags=["hint"]
# `F.pad(x, (pw, pw, ph, ph))`, `.unfold(2, dh * (kh - 1) + 1, sh).unfold(3, dw * (kw - 1) + 1, sw)[..., ::dh, ::dw]`,
# permuted and reshaped to `(batch, groups, in/groups * kh * kw, h' * w')`. The weight is
# `(groups, out/groups, in/groups * kh * kw)`.

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
    ### BEGIN SOLUTION
    (batch, channels), (out, share, kh, kw) = x.shape[:2], weight.shape
    (sh, sw), (ph, pw), (dh, dw) = (v if isinstance(v, (tuple, list)) else (v, v) for v in (stride, padding, dilation))
    if channels != groups * share or out % groups != 0:
        raise ValueError(f"{channels} channels in and {out} out do not fit {groups} groups of width {share}")
    x = F.pad(x, (pw, pw, ph, ph))
    size, room = (dh * (kh - 1) + 1, dw * (kw - 1) + 1), tuple(x.shape[2:])
    if size[0] > room[0] or size[1] > room[1]:
        raise ValueError(f"a window of {size} is larger than the padded input of {room}")

    windows = x.unfold(2, size[0], sh).unfold(3, size[1], sw)[..., ::dh, ::dw]
    rows, columns = windows.shape[2:4]
    table = windows.permute(0, 1, 4, 5, 2, 3).reshape(batch, groups, share * kh * kw, rows * columns)
    kernels = weight.reshape(groups, out // groups, share * kh * kw)
    result = (kernels @ table).reshape(batch, out, rows, columns)
    return result if bias is None else result + bias[:, None, None]
    ### END SOLUTION


# %% [markdown] tags=["solution"]
# ## Why it is done this way
#
# **Windows are a view.** `unfold` only sets strides: windows that overlap share memory, and backward adds up what each
# pixel gave to its windows. The copy into columns is known as im2col. What is left is one batched matrix product, which
# sums in float32 in half precision too.
#
# **The order of the axes.** Pixels come last, so that the copy reads memory in a row. `einsum("bgcyxij,gocij->bgoyx")`
# copies with the window last: for 4 images of 16 channels and 64 × 64 pixels 33 ms instead of 1.8.
#
# **Groups are an axis.** The group is a batch axis of the product. `groups = 1` is the ordinary convolution,
# `groups = in` the depthwise one; neither is a special case.
#
# **Size.** The window covers $d(k - 1) + 1$ pixels. It fits at offset 0 and then each $s$ pixels as long as it ends
# inside: hence the floor, and the one.
#
# **What it costs.** $2\, b\, h'w' \, out \cdot \frac{in}{groups}\, kh\, kw$ FLOPs. The columns take $kh \cdot kw$ times
# the memory of the image: 64 channels of 56 × 56 pixels are 0.8 MB in float32, and 7.2 MB as columns of a 3 × 3
# kernel. cuDNN makes them tile by tile in SRAM and never writes them to HBM (implicit GEMM).
#
# ## The other formulation
#
# Shift and add: for each $(i, j)$ the pixels `padded[:, :, i * d :: s, j * d :: s]`, cut to $h' \times w'$, times
# `weight[:, :, i, j]`. It makes $kh \cdot kw$ small products and copies no windows, but in half precision it rounds
# each partial sum.
#
# ## The usual mistakes
#
# - The kernel flipped, as in a textbook's convolution.
# - Height and width swapped: seen only if image, kernel or setting is not square.
# - `+ 1` forgotten, or the floor taken before the subtraction: the last window is lost.
# - Channels dealt out to groups in turn instead of in runs.
# - The bias along the width: with `out = w'` nothing is raised.

# %% [markdown] tags=["solution", "questions"]
# ## What interviewers ask next
#
# ### How many million FLOPs has a `k` × `k` layer from `c` to `c` channels on `n` × `n` pixels?
#
# - $c^2 k^2$ weights, each used at all $n^2$ places, a multiplication and an addition each.
# - A 3 × 3 layer of 64 channels has 36,864 weights; on 56 × 56 pixels that is 231 million FLOPs.
# - Each weight serves $n^2$ places, so the arithmetic intensity is high on large images. Depthwise it is not.
#
# Answer: `2 * c**2 * k**2 * n**2 / 1e6` million, within 5 %. Settings: `k` 1, 3; `c` 64, 256; `n` 14, 56.
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
# ### What share of a full layer's FLOPs has a depthwise separable one, `k` × `k`, `out` channels out?
#
# - One kernel for each channel (`groups = in`), then a 1 × 1 kernel that mixes channels.
# - $in\, k^2 + in \cdot out$ products a pixel instead of $in \cdot out\, k^2$: about a ninth for 3 × 3.
# - The depthwise part is memory-bound, $k^2$ products for each number read: on a GPU the time falls by less.
#
# Answer: `1 / out + 1 / k**2`, within 5 %. Settings: `out` 32, 512; `k` 3, 5, 7.
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
