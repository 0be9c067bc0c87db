import torch
from torch import nn


class Blockwise(nn.Module):
    """Padded to whole blocks, from the last one to the first, in float64; rows with nothing yet are kept finite."""

    def __init__(self, causal, size):
        super().__init__()
        if size < 1:
            raise ValueError(f"cannot cut into blocks of {size}")
        self.causal, self.size = causal, size

    def forward(self, q, k, v):
        (*lead, s, d), t = q.shape, k.shape[-2]
        if self.causal and s > t:
            raise ValueError(f"{t} keys do not reach {s} queries")
        q = q.double() / d**0.5
        limit = torch.full((s,), t - 1, device=q.device)
        if self.causal:
            limit = t - s + torch.arange(s, device=q.device)
        top = torch.full((*lead, s, 1), -1e300, dtype=torch.float64, device=q.device)
        total, out = torch.zeros_like(top), torch.zeros(*lead, s, v.shape[-1], dtype=torch.float64, device=q.device)
        for first in reversed(range(0, t, self.size)):
            keys, values = (each[..., first : first + self.size, :].double() for each in (k, v))
            keys, values = (nn.functional.pad(e, (0, 0, 0, self.size - e.shape[-2])) for e in (keys, values))
            seen = torch.arange(first, first + self.size, device=q.device) <= limit[:, None]
            scores = torch.where(seen, q @ keys.mT, -1e300)
            higher = torch.maximum(top, scores.detach().amax(-1, keepdim=True))
            p = torch.exp(scores - higher) * seen
            factor = torch.exp(top - higher)
            total, out, top = factor * total + p.sum(-1, keepdim=True), factor * out + p @ values, higher
        return out / total, (top + total.log()).flatten(-2)


def flash_attention(q, k, v, causal=False, block_size=64):
    out, lse = Blockwise(causal, block_size)(q, k, v)
    return out.to(q.dtype), lse.to(torch.promote_types(q.dtype, torch.float32))
