"""In the style of gpt-fast: the weights of the chosen experts are gathered for each token, which suits decoding alone."""

import torch
import torch.nn.functional as F
from torch import nn


class MixtureOfExperts(nn.Module):
    def __init__(self, d_model, d_ff, num_experts, k, *, device=None, dtype=None):
        super().__init__()
        kind, shape = {"device": device, "dtype": dtype}, (num_experts, d_ff, d_model)
        self.router = nn.Linear(d_model, num_experts, bias=False, **kind)
        self.w1, self.w3 = (nn.Parameter(torch.randn(*shape, **kind)) for _ in range(2))
        self.w2 = nn.Parameter(torch.randn(*shape, **kind).mT.contiguous())
        self.num_activated_experts = k

    def forward(self, x):
        tokens = x.reshape(-1, x.shape[-1])
        expert_weights = F.softmax(self.router(tokens), dim=-1, dtype=torch.float32)
        expert_weights, expert_indices = torch.topk(expert_weights, self.num_activated_experts, dim=-1)
        expert_weights = (expert_weights / expert_weights.sum(dim=-1, keepdim=True)).to(x.dtype)
        w1, w2, w3 = self.w1[expert_indices], self.w2[expert_indices], self.w3[expert_indices]
        x1 = F.silu(torch.einsum("ti,taoi->tao", tokens, w1))
        x3 = torch.einsum("ti,taoi->tao", tokens, w3)
        expert_outs = torch.einsum("tao,taio->tai", x1 * x3, w2)
        return torch.einsum("tai,ta->ti", expert_outs, expert_weights).reshape(x.shape)
