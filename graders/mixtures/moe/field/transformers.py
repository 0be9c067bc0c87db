"""In the style of transformers' MixtralSparseMoeBlock: a router, a mask of one hot, and a loop over experts that are hit."""

import torch
import torch.nn.functional as F
from torch import nn


class MixtureOfExperts(nn.Module):
    def __init__(self, d_model, d_ff, num_experts, k, *, device=None, dtype=None):
        super().__init__()
        kind = {"device": device, "dtype": dtype}
        self.num_experts, self.top_k = num_experts, k
        self.router = nn.Linear(d_model, num_experts, bias=False, **kind)
        self.w1 = nn.Parameter(torch.randn(num_experts, d_ff, d_model, **kind) * 0.02)
        self.w2 = nn.Parameter(torch.randn(num_experts, d_model, d_ff, **kind) * 0.02)
        self.w3 = nn.Parameter(torch.randn(num_experts, d_ff, d_model, **kind) * 0.02)

    def forward(self, x):
        hidden_states = x.reshape(-1, x.shape[-1])
        routing_weights = F.softmax(self.router(hidden_states), dim=1, dtype=torch.float)
        routing_weights, selected_experts = torch.topk(routing_weights, self.top_k, dim=-1)
        routing_weights /= routing_weights.sum(dim=-1, keepdim=True)
        routing_weights = routing_weights.to(hidden_states.dtype)
        final_hidden_states = torch.zeros_like(hidden_states)
        expert_mask = F.one_hot(selected_experts, num_classes=self.num_experts).permute(2, 1, 0)
        for expert_idx in torch.greater(expert_mask.sum(dim=(-1, -2)), 0).nonzero().flatten().tolist():
            idx, top_x = torch.where(expert_mask[expert_idx])
            current_state = hidden_states[top_x]
            gate = F.silu(F.linear(current_state, self.w1[expert_idx]))
            current_hidden_states = F.linear(gate * F.linear(current_state, self.w3[expert_idx]), self.w2[expert_idx])
            current_hidden_states = current_hidden_states * routing_weights[top_x, idx, None]
            final_hidden_states.index_add_(0, top_x, current_hidden_states.to(hidden_states.dtype))
        return final_hidden_states.reshape(x.shape)
