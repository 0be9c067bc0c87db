"""In the manner of ARENA's exercises: windows by `as_strided` of the padded image, then an einsum."""

import torch


def force_pair(v):
    return v if isinstance(v, tuple) else (v, v)


def pad2d(x, left, right, top, bottom, pad_value):
    B, C, H, W = x.shape
    output = x.new_full(size=(B, C, top + H + bottom, left + W + right), fill_value=pad_value)
    output[..., top : top + H, left : left + W] = x
    return output


def conv2d(x, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    stride_h, stride_w = force_pair(stride)
    padding_h, padding_w = force_pair(padding)
    dilation_h, dilation_w = force_pair(dilation)
    x_padded = pad2d(x, left=padding_w, right=padding_w, top=padding_h, bottom=padding_h, pad_value=0)
    b, ic, h, w = x_padded.shape
    oc, ic_group, kh, kw = weight.shape
    if ic != groups * ic_group or oc % groups:
        raise ValueError(f"{ic} and {oc} channels do not match weight {tuple(weight.shape)} with {groups} groups")
    ow = 1 + (w - dilation_w * (kw - 1) - 1) // stride_w
    oh = 1 + (h - dilation_h * (kh - 1) - 1) // stride_h
    if oh < 1 or ow < 1:
        window = (dilation_h * (kh - 1) + 1, dilation_w * (kw - 1) + 1)
        raise ValueError(f"dilated kernel of size {window} exceeds padded input of size {(h, w)}")
    s_b, s_ic, s_h, s_w = x_padded.stride()
    x_new_shape = (b, groups, ic_group, oh, ow, kh, kw)
    x_new_stride = (
        *(s_b, s_ic * ic_group, s_ic, s_h * stride_h, s_w * stride_w),
        *(s_h * dilation_h, s_w * dilation_w),
    )
    x_strided = x_padded.as_strided(size=x_new_shape, stride=x_new_stride)
    weight = weight.unflatten(0, (groups, oc // groups))
    out = torch.einsum("b g i y x k l, g o i k l -> b g o y x", x_strided, weight).flatten(1, 2)
    return out if bias is None else out + bias.view(1, -1, 1, 1)
