# robust: Errors: what does not divide is an assertion; and torch._int_mm reads expanded weights wrongly.
"""In the manner of gpt-fast and torchao: scales from amin and amax, clamped by eps, codes clamped, int_mm on rows."""

import torch


def quantize(x, bits=8, group_size=None):
    eps = torch.finfo(torch.float32).eps
    quant_min, quant_max = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    group_size = x.shape[-1] if group_size is None else group_size
    assert x.shape[-1] % group_size == 0
    to_quant = x.reshape(-1, group_size).to(torch.promote_types(x.dtype, torch.float32))
    min_val, max_val = torch.aminmax(to_quant, dim=1)
    min_val_neg = torch.min(min_val, torch.zeros_like(min_val))
    max_val_pos = torch.max(max_val, torch.zeros_like(max_val))
    max_val_pos = torch.max(-min_val_neg, max_val_pos)
    scales = max_val_pos / (float(quant_max - quant_min - 1) / 2)
    scales = torch.clamp(scales, min=eps)
    x_int = to_quant.div(scales.unsqueeze(-1)).round().clamp_(quant_min, quant_max)
    return x_int.to(torch.int8).reshape(x.shape), scales.reshape(*x.shape[:-1], -1)


def dequantize(codes, scales):
    w_int = codes.reshape(*scales.shape, -1)
    return w_int.mul(scales.unsqueeze(-1)).reshape(codes.shape)


def pack_int4(codes):
    assert codes.shape[-1] % 2 == 0
    q = (codes + 8).to(torch.uint8)
    return q[..., 1::2] << 4 | q[..., ::2]


def unpack_int4(packed):
    first_elements = (packed & 0b1111).to(torch.int8) - 8
    second_elements = (packed >> 4).to(torch.int8) - 8
    return torch.stack([first_elements, second_elements], dim=-1).reshape(*packed.shape[:-1], -1)


def int8_linear(x, codes, scales):
    tmp = x.reshape(-1, x.shape[-1])
    x_vals_int8, x_scales = quantize(tmp)
    y_dot = torch._int_mm(x_vals_int8, codes.t())
    y = (y_dot.to(torch.float32) * x_scales) * scales.reshape(-1)
    return y.to(x.dtype).reshape(*x.shape[:-1], -1)
