"""Keys and values picked by an index of heads, and bmm over batch times heads."""

import torch
from torch import nn


class GroupedQueryAttention(nn.Module):
    def __init__(self, d_model, num_heads, num_kv_heads, *, device=None, dtype=None):
        super().__init__()
        self.head_dim, rest = divmod(d_model, num_heads)
        each, more = divmod(num_heads, num_kv_heads)
        if rest or more:
            raise ValueError(f"num_kv_heads={num_kv_heads} | num_heads={num_heads} | d_model={d_model} does not hold")
        self.serves = [head // each for head in range(num_heads)]
        sizes = {"q": d_model, "k": num_kv_heads * self.head_dim, "v": num_kv_heads * self.head_dim, "o": d_model}
        for letter, size in sizes.items():
            self.add_module(f"{letter}_proj", nn.Linear(d_model, size, False, device, dtype))

    def forward(self, x, mask=None):
        b, t, _ = x.shape
        serves = torch.tensor(self.serves, device=x.device)
        q, k, v = (p(x).reshape(b, t, -1, self.head_dim) for p in (self.q_proj, self.k_proj, self.v_proj))
        k, v = k.index_select(2, serves), v[:, :, serves]
        work = torch.float64 if x.dtype == torch.float64 else torch.float32
        q, k, v = (z.to(work).permute(0, 2, 1, 3).flatten(0, 1) for z in (q, k, v))
        nothing = torch.zeros((), dtype=work, device=x.device)
        scores = torch.baddbmm(nothing, q, k.mT, beta=0, alpha=self.head_dim**-0.5)
        if mask is not None:
            mask = mask.expand(b, len(serves), t, t).flatten(0, 1)
            scores = scores.masked_fill(~mask, -1e30)
        p = (scores - scores.logsumexp(-1, keepdim=True)).exp()
        p = p if mask is None else p.masked_fill(~mask, 0)
        out = torch.bmm(p, v).view(b, len(serves), t, -1).transpose(1, 2).reshape(b, t, -1)
        return self.o_proj(out.to(x.dtype))
