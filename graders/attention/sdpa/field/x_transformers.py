"""As x-transformers: einsum over named axes, the lowest number for what is hidden, rows without a key set to 0."""

import torch
import torch.nn.functional as F


def scaled_dot_product_attention(q, k, v, mask=None):
    sim = torch.einsum("... i d, ... j d -> ... i j", q, k) * q.shape[-1] ** -0.5
    if mask is not None:
        sim = sim.masked_fill(~mask, -torch.finfo(sim.dtype).max)
    attn = F.softmax(sim, dim=-1, dtype=torch.float32).type(sim.dtype)
    out = torch.einsum("... i j, ... j d -> ... i d", attn, v)
    if mask is not None:
        row_is_entirely_masked = ~mask.any(dim=-1, keepdim=True)
        out = out.masked_fill(row_is_entirely_masked, 0.0)
    return out
