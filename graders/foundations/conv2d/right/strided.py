"""as_strided windows, tensordot, the groups one after the other."""

import torch
from torch import Tensor


def windows(x: Tensor, kernel, stride, dilation) -> Tensor:
    (kh, kw), (b, c, h, w), (sb, sc, sh, sw) = kernel, x.shape, x.stride()
    rows = (h - dilation[0] * (kh - 1) - 1) // stride[0] + 1
    columns = (w - dilation[1] * (kw - 1) - 1) // stride[1] + 1
    steps = (sb, sc, sh * stride[0], sw * stride[1], sh * dilation[0], sw * dilation[1])
    return x.as_strided((b, c, rows, columns, kh, kw), steps)


def conv2d(x, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    if isinstance(stride, int):
        stride = (stride, stride)
    if isinstance(padding, int):
        padding = (padding, padding)
    if isinstance(dilation, int):
        dilation = (dilation, dilation)
    for name, pair, least in (("stride", stride, 1), ("padding", padding, 0), ("dilation", dilation, 1)):
        if pair[0] < least or pair[1] < least:
            raise ValueError(f"{name} must be at least {least}: {pair}")
    channels, out = x.shape[1], weight.shape[0]
    if groups < 1:
        raise ValueError(f"{groups} groups")
    for count in (channels, out):
        if count % groups:
            raise ValueError(f"{count} channels cannot be cut into {groups} groups")
    if weight.shape[1] * groups != channels:
        raise ValueError(f"{weight.shape[1]} * {groups} is not {channels}")
    if bias is not None and list(bias.shape) != [out]:
        raise ValueError(f"{out} biases, not {bias.shape}")
    kernel, wide = tuple(weight.shape[2:]), torch.promote_types(x.dtype, torch.float32)
    zeros = torch.nn.functional.pad(x.to(wide), (padding[1],) * 2 + (padding[0],) * 2)
    for k, d, size in zip(kernel, dilation, zeros.shape[2:], strict=True):
        if d * (k - 1) >= size:
            raise ValueError(f"kernel {kernel}, dilated by {d} to {d * (k - 1) + 1}, against {size}")
    parts = []
    for mine, weights in zip(zeros.chunk(groups, 1), weight.to(wide).chunk(groups, 0), strict=True):
        seen = windows(mine.contiguous(), kernel, stride, dilation)
        parts.append(torch.tensordot(seen, weights, dims=([1, 4, 5], [1, 2, 3])).movedim(-1, 1))
    result = torch.cat(parts, 1)
    if bias is not None:
        result = result + bias.to(wide)[None, :, None, None]
    return result.to(x.dtype).contiguous()
