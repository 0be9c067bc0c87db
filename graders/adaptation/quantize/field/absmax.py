# robust: Zero groups, Half precision, Errors, Exact sums: divides by 0, stays in half, refuses nothing, sums in float32.
"""As notebooks on LLM.int8() write it: 127 / max times x, in the dtype that is there; products of dequantized codes."""

import torch


def quantize(x, bits=8, group_size=None):
    group_size = group_size or x.shape[-1]
    shape = x.shape
    x = x.reshape(-1, group_size)
    qmax = 2 ** (bits - 1) - 1
    scale = qmax / torch.max(torch.abs(x), dim=-1, keepdim=True)[0]
    x_quant = (scale * x).round()
    return x_quant.to(torch.int8).reshape(shape), (1 / scale).reshape(*shape[:-1], -1)


def dequantize(codes, scales):
    group_size = codes.shape[-1] // scales.shape[-1]
    return (codes.reshape(-1, group_size) * scales.reshape(-1, 1)).reshape(codes.shape)


def pack_int4(codes):
    assert codes.shape[-1] % 2 == 0
    codes = (codes + 8).to(torch.uint8)
    return codes[..., ::2] | (codes[..., 1::2] << 4)


def unpack_int4(packed):
    low = (packed & 0x0F).to(torch.int8) - 8
    high = (packed >> 4).to(torch.int8) - 8
    return torch.stack((low, high), dim=-1).view(*packed.shape[:-1], -1)


def int8_linear(x, codes, scales):
    x_codes, x_scales = quantize(x)
    out = x_codes.float() @ codes.float().t()
    return (out * x_scales * scales.t()).to(x.dtype)
