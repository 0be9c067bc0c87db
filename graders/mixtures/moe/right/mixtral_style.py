"""In the manner of transformers' MixtralSparseMoeBlock, its router in float32."""

import torch
import torch.nn.functional as F
from torch import nn


class TopKRouter(nn.Module):
    def __init__(self, d_model, num_experts, k, **kw):
        super().__init__()
        self.top_k = k
        self.weight = nn.Parameter(torch.empty(num_experts, d_model, **kw))
        nn.init.normal_(self.weight, std=0.02)

    def forward(self, hidden_states):
        router_logits = F.linear(hidden_states, self.weight)
        wide = router_logits if router_logits.dtype == torch.float64 else router_logits.float()
        router_top_value, router_indices = torch.topk(wide.softmax(dim=-1), self.top_k, dim=-1)
        router_top_value = router_top_value / router_top_value.sum(dim=-1, keepdim=True)
        return router_top_value, router_indices


class MixtureOfExperts(nn.Module):
    def __init__(self, d_model, d_ff, num_experts, k, *, device=None, dtype=None):
        super().__init__()
        if k <= 0 or k > num_experts:
            raise ValueError(f"`k` must be between 1 and {num_experts}, got {k}")
        kw = {"device": device, "dtype": dtype}
        self.num_experts = num_experts
        self.router = TopKRouter(d_model, num_experts, k, **kw)
        self.w1 = nn.Parameter(torch.randn(num_experts, d_ff, d_model, **kw) * 0.02)
        self.w2 = nn.Parameter(torch.randn(num_experts, d_model, d_ff, **kw) * 0.02)
        self.w3 = nn.Parameter(torch.randn(num_experts, d_ff, d_model, **kw) * 0.02)
        self.act_fn = nn.SiLU()

    def forward(self, x):
        hidden_states = x.reshape(-1, x.size(-1))
        top_k_weights, top_k_index = self.router(hidden_states)
        final_hidden_states = torch.zeros_like(hidden_states)
        with torch.no_grad():
            expert_mask = F.one_hot(top_k_index, num_classes=self.num_experts).permute(2, 1, 0)
            expert_hit = torch.greater(expert_mask.sum(dim=(-1, -2)), 0).nonzero()
        for expert_idx in expert_hit:
            expert_idx = expert_idx[0]
            top_k_pos, token_idx = torch.where(expert_mask[expert_idx])
            current_state = hidden_states[token_idx]
            gate_up = F.linear(current_state, torch.cat([self.w1[expert_idx], self.w3[expert_idx]]))
            gate, up = gate_up.chunk(2, dim=-1)
            current_hidden_states = F.linear(self.act_fn(gate) * up, self.w2[expert_idx])
            current_hidden_states = current_hidden_states * top_k_weights[token_idx, top_k_pos, None]
            final_hidden_states.index_add_(0, token_idx, current_hidden_states.to(final_hidden_states.dtype))
        return final_hidden_states.view(x.shape)
