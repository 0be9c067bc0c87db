"""Keys and values picked by an index of heads, and bmm over batch times heads."""

import torch
from torch import nn


class GroupedQueryAttention(nn.Module):
    def __init__(self, d_model, num_heads, num_kv_heads, *, device=None, dtype=None):
        super().__init__()
        head_dim, rest = divmod(d_model, num_heads)
        if rest:
            raise ValueError(f"num_heads={num_heads} does not divide d_model={d_model}")
        each, rest = divmod(num_heads, num_kv_heads)
        if rest:
            raise ValueError(f"num_kv_heads={num_kv_heads} does not divide num_heads={num_heads}")
        self.shape, self.each = (num_heads, num_kv_heads, head_dim), each
        sizes = {"q": d_model, "k": num_kv_heads * head_dim, "v": num_kv_heads * head_dim, "o": d_model}
        for letter, size in sizes.items():
            self.add_module(f"{letter}_proj", nn.Linear(d_model, size, False, device, dtype))

    def forward(self, x, mask=None):
        heads, kv_heads, head_dim = self.shape
        b, t, _ = x.shape
        serves = torch.arange(heads, device=x.device).div(self.each, rounding_mode="floor")
        q = self.q_proj(x).reshape(b, t, heads, head_dim).permute(0, 2, 1, 3)
        k = self.k_proj(x).reshape(b, t, kv_heads, head_dim).permute(0, 2, 1, 3).index_select(1, serves)
        v = self.v_proj(x).reshape(b, t, kv_heads, head_dim).permute(0, 2, 1, 3)[:, serves]
        work = torch.float64 if x.dtype == torch.float64 else torch.float32
        q, k, v = (z.to(work).flatten(0, 1) for z in (q, k, v))
        scores = torch.baddbmm(torch.zeros((), dtype=work, device=x.device), q, k.mT, beta=0, alpha=head_dim**-0.5)
        if mask is not None:
            mask = mask.expand(b, heads, t, t).flatten(0, 1)
            scores = scores.masked_fill(~mask, -1e30)
        p = (scores - scores.logsumexp(-1, keepdim=True)).exp()
        p = p if mask is None else p.masked_fill(~mask, 0)
        out = torch.bmm(p, v).view(b, heads, t, head_dim).transpose(1, 2).reshape(b, t, -1)
        return self.o_proj(out.to(x.dtype))
