"""Assignments sorted by expert and cut into one piece for each; an inverse permutation brings them back."""

import torch
import torch.nn.functional as F
from torch import nn


class Router(nn.Module):
    def __init__(self, weight):
        super().__init__()
        self.weight = weight


class MixtureOfExperts(nn.Module):
    def __init__(self, d_model, d_ff, num_experts, k, *, device=None, dtype=None):
        if k > num_experts or k < 1:
            raise ValueError(f"cannot choose {k} of {num_experts} experts")
        super().__init__()
        self.k, self.E = k, num_experts

        def table(*shape):
            return nn.Parameter(torch.nn.init.trunc_normal_(torch.empty(shape, device=device, dtype=dtype), std=0.1))

        self.router = Router(table(num_experts, d_model))
        self.w1, self.w3 = table(num_experts, d_ff, d_model), table(num_experts, d_ff, d_model)
        self.w2 = table(num_experts, d_model, d_ff)

    def forward(self, x):
        shape, d = x.shape, x.shape[-1]
        x = x.reshape(-1, d)
        p = F.softmax(F.linear(x, self.router.weight), dim=-1, dtype=torch.promote_types(x.dtype, torch.float32))
        w, e = p.topk(self.k, dim=-1, sorted=False)
        w = w / w.sum(-1, keepdim=True)
        order = e.flatten().argsort()
        rows = x[order // self.k]
        sizes = torch.bincount(e.flatten(), minlength=self.E).tolist()
        pieces = []
        for i, piece in enumerate(rows.split(sizes)):
            hidden = F.silu(F.linear(piece, self.w1[i])) * F.linear(piece, self.w3[i])
            pieces.append(F.linear(hidden, self.w2[i]))
        back = torch.empty_like(order)
        back[order] = torch.arange(len(order), device=order.device)
        y = torch.cat(pieces)[back].view(-1, self.k, d)
        return torch.einsum("nk,nkd->nd", w, y.to(w.dtype)).to(x.dtype).reshape(shape)
