"""One weight of the kernel at a time."""

import torch


def two(v):
    return (v, v) if isinstance(v, int) else tuple(v)


def conv2d(x, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    n, c, h, w = x.shape
    o, cg, kh, kw = weight.shape
    stride, padding, dilation = two(stride), two(padding), two(dilation)
    if groups <= 0:
        raise ValueError(f"groups must be positive, got {groups}")
    if c % groups != 0 or o % groups != 0:
        raise ValueError(f"channels {c} -> {o} not divisible by groups {groups}")
    if cg * groups != c:
        raise ValueError(f"weight expects {cg} channels a group, got {c} / {groups}")
    if min(stride) <= 0 or min(dilation) <= 0 or min(padding) < 0:
        raise ValueError(f"bad stride {stride}, dilation {dilation} or padding {padding}")
    if bias is not None and tuple(bias.shape) != (o,):
        raise ValueError(f"bias {tuple(bias.shape)} should be ({o},)")
    hp, wp = h + 2 * padding[0], w + 2 * padding[1]
    rest_h, rest_w = hp - dilation[0] * (kh - 1) - 1, wp - dilation[1] * (kw - 1) - 1
    if rest_h < 0 or rest_w < 0:
        raise ValueError(f"kernel {(kh, kw)} with dilation {dilation} exceeds input {(hp, wp)}")
    ho, wo = rest_h // stride[0] + 1, rest_w // stride[1] + 1
    dtype = torch.float64 if x.dtype == torch.float64 else torch.float32
    canvas = torch.zeros(n, c, hp, wp, dtype=dtype, device=x.device)
    canvas[:, :, padding[0] : padding[0] + h, padding[1] : padding[1] + w] = x.to(dtype)
    canvas = canvas.view(n, groups, cg, hp, wp)
    kernels = weight.to(dtype).reshape(groups, o // groups, cg, kh, kw)
    out = torch.zeros(n, groups, o // groups, ho, wo, dtype=dtype, device=x.device)
    for i in range(kh):
        for j in range(kw):
            top, left = i * dilation[0], j * dilation[1]
            seen = canvas[..., top : top + (ho - 1) * stride[0] + 1 : stride[0], :]
            seen = seen[..., left : left + (wo - 1) * stride[1] + 1 : stride[1]]
            out = out + torch.einsum("ngchw,goc->ngohw", seen, kernels[..., i, j])
    out = out.reshape(n, o, ho, wo)
    if bias is not None:
        out += bias.to(dtype).view(1, o, 1, 1)
    return out.to(x.dtype)
