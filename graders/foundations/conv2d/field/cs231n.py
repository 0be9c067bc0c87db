# robust: Errors: groups are not checked, and a size below 1 is an assertion.
"""In the manner of CS231n: im2col by index arrays, then a product of matrices for each group."""

import torch
import torch.nn.functional as F


def get_im2col_indices(channels, size, kernel, stride, dilation):
    out_height, out_width = (
        (n - d * (k - 1) - 1) // s + 1 for n, k, s, d in zip(size, kernel, stride, dilation, strict=True)
    )
    assert out_height > 0 and out_width > 0
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
    k, i, j, h, w = get_im2col_indices(width, x_padded.shape[2:], kernel, stride, dilation)
    out = []
    for x_group, w_group in zip(x_padded.chunk(groups, 1), weight.chunk(groups, 0), strict=True):
        out.append(w_group.flatten(1) @ x_group[:, k, i, j])
    out = torch.cat(out, dim=1).reshape(len(x), num_filters, h, w)
    return out if bias is None else out + bias[:, None, None]
