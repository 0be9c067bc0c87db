"""In the manner of CS231n: im2col by index arrays, then a product of matrices for each group."""

import torch
import torch.nn.functional as F


def get_im2col_indices(channels, size, kernel, stride, dilation):
    HH, WW = (d * (k - 1) + 1 for k, d in zip(kernel, dilation, strict=True))
    out_height, out_width = (size[0] - HH) // stride[0] + 1, (size[1] - WW) // stride[1] + 1
    if out_height < 1 or out_width < 1:
        raise ValueError(f"filters of {HH} x {WW} do not fit into {size[0]} x {size[1]}")
    k = torch.arange(channels).repeat_interleave(kernel[0] * kernel[1])[:, None]
    i0 = torch.arange(kernel[0]).repeat_interleave(kernel[1]).repeat(channels) * dilation[0]
    j0 = torch.arange(kernel[1]).repeat(kernel[0] * channels) * dilation[1]
    i1 = torch.arange(out_height).repeat_interleave(out_width) * stride[0]
    j1 = torch.arange(out_width).repeat(out_height) * stride[1]
    return k, i0[:, None] + i1, j0[:, None] + j1, out_height, out_width


def conv2d(x, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    stride, padding, dilation = ((v, v) if isinstance(v, int) else v for v in (stride, padding, dilation))
    x_padded = F.pad(x, (padding[1], padding[1], padding[0], padding[0]))
    num_filters, width, *kernel = weight.shape
    if x.shape[1] != groups * width or num_filters % groups:
        raise ValueError(f"{num_filters} filters of {width} channels do not fit {x.shape[1]}, {groups} groups")
    k, i, j, h, w = get_im2col_indices(width, x_padded.shape[2:], kernel, stride, dilation)
    out = []
    for x_group, w_group in zip(x_padded.chunk(groups, 1), weight.chunk(groups, 0), strict=True):
        out.append(w_group.flatten(1) @ x_group[:, k, i, j])
    out = torch.cat(out, dim=1).reshape(len(x), num_filters, h, w)
    return out if bias is None else out + bias[:, None, None]
