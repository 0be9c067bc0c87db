"""A table of columns picked by indices, and one matrix product a group, as the first libraries did it."""

import torch
import torch.nn.functional as F


def _check(x, weight, bias, s, p, d, groups):
    ok = groups >= 1 and x.size(1) % groups == 0 and weight.size(0) % groups == 0
    if not ok or weight.size(1) != x.size(1) // groups:
        raise ValueError(f"x {list(x.shape)}, weight {list(weight.shape)}, width {weight.size(1)}, groups {groups}")
    if any(v < 1 for v in s + d) or any(v < 0 for v in p):
        raise ValueError(f"stride {s} padding {p} dilation {d}")
    if bias is not None and bias.shape != weight.shape[:1]:
        raise ValueError(f"bias {list(bias.shape)} for {weight.size(0)} channels")


def _places(size, k, s, p, d, axis):
    last = size + 2 * p - d * (k - 1)
    if last < 1:
        raise ValueError(f"kernel of {k} does not fit {size} + 2 * {p} with dilation {d} ({axis})")
    return torch.arange(0, last, s)[:, None] + d * torch.arange(k)[None]


def conv2d(x, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    s, p, d = ([v] * 2 if isinstance(v, int) else list(v) for v in (stride, padding, dilation))
    _check(x, weight, bias, s, p, d, groups)
    (b, c, h, w), (o, share, kh, kw) = x.shape, weight.shape
    rows = _places(h, kh, s[0], p[0], d[0], "height").to(x.device)
    cols = _places(w, kw, s[1], p[1], d[1], "width").to(x.device)
    padded = F.pad(x, [p[1], p[1], p[0], p[0]])
    table = padded[:, :, rows[:, :, None, None], cols[None, None]]  # b c h' kh w' kw
    table = table.permute(0, 1, 3, 5, 2, 4).reshape(b, groups, share * kh * kw, -1)
    out = weight.reshape(groups, o // groups, -1) @ table
    out = out.reshape(b, o, len(rows), len(cols))
    return out if bias is None else out + bias.view(-1, 1, 1)
