"""No loop at all: each slot gathers the weights of its expert, as for decoding a few tokens."""

import torch
from torch import nn


class MixtureOfExperts(nn.Module):
    def __init__(self, d_model, d_ff, num_experts, k, *, device=None, dtype=None):
        super().__init__()
        if not (1 <= k <= num_experts):
            raise ValueError("k=%d with %d experts" % (k, num_experts))
        self.k = k
        self.router = nn.Linear(d_model, num_experts, bias=False, device=device, dtype=dtype)
        make = lambda *shape: nn.Parameter(torch.empty(*shape, device=device, dtype=dtype).uniform_(-0.1, 0.1))
        self.w1 = make(num_experts, d_ff, d_model)
        self.w2 = make(num_experts, d_model, d_ff)
        self.w3 = make(num_experts, d_ff, d_model)

    def forward(self, x):
        flat = x.flatten(0, -2) if x.dim() > 1 else x.unsqueeze(0)
        wide = torch.promote_types(x.dtype, torch.float32)
        logits = flat.to(wide) @ self.router.weight.to(wide).T
        top, ids = torch.topk(logits, self.k, dim=-1)
        gates = torch.softmax(top, dim=-1)
        out = torch.zeros_like(flat, dtype=wide)
        for slot in range(self.k):
            e = ids[:, slot]
            g = torch.bmm(self.w1[e], flat.unsqueeze(-1)).squeeze(-1)
            v = torch.bmm(self.w3[e], flat.unsqueeze(-1)).squeeze(-1)
            h = torch.nn.functional.silu(g) * v
            y = torch.bmm(self.w2[e], h.unsqueeze(-1)).squeeze(-1)
            out = out + gates[:, slot].unsqueeze(-1) * y
        return out.to(x.dtype).reshape(x.shape)
