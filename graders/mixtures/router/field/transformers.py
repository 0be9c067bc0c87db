# robust: Share, Groups: the loss counts tokens, which gives k where experts are balanced, and what is outside of the best
# groups gets 0 instead of -inf.
"""In the style of transformers: Mixtral's router and loss, DeepSeek-V3's router."""

import torch
import torch.nn.functional as F


def route(router_logits, top_k, normalize=True):
    router_probs = F.softmax(router_logits, dim=-1, dtype=torch.float)
    router_top_value, router_indices = torch.topk(router_probs, top_k, dim=-1)
    if normalize:
        router_top_value = router_top_value / router_top_value.sum(dim=-1, keepdim=True)
    return router_top_value.to(router_logits.dtype), router_indices


def balance_loss(gate_logits, selected_experts):
    num_experts, top_k = gate_logits.shape[-1], selected_experts.shape[-1]
    routing_weights = F.softmax(gate_logits.reshape(-1, num_experts), dim=-1)
    expert_mask = F.one_hot(selected_experts.reshape(-1, top_k), num_experts)
    tokens_per_expert = torch.mean(expert_mask.to(gate_logits.dtype), dim=0)
    router_prob_per_expert = torch.mean(routing_weights, dim=0)
    return torch.sum(tokens_per_expert * router_prob_per_expert.unsqueeze(0)) * num_experts


def biased_route(router_logits, e_score_correction_bias, top_k, num_groups=1, top_groups=1):
    batch, n_routed_experts = router_logits.shape[:-1], router_logits.shape[-1]
    scores = router_logits.reshape(-1, n_routed_experts).float().sigmoid()
    with torch.no_grad():
        scores_for_choice = scores + e_score_correction_bias.unsqueeze(0)
        grouped = scores_for_choice.view(-1, num_groups, n_routed_experts // num_groups)
        group_scores = grouped.topk(2, dim=-1)[0].sum(dim=-1)
        group_idx = torch.topk(group_scores, k=top_groups, dim=-1, sorted=False)[1]
        group_mask = torch.zeros_like(group_scores).scatter_(1, group_idx, 1)
        score_mask = group_mask.unsqueeze(-1).expand_as(grouped).reshape(-1, n_routed_experts)
        scores_for_choice = scores_for_choice.masked_fill(~score_mask.bool(), 0.0)
        topk_indices = torch.topk(scores_for_choice, k=top_k, dim=-1, sorted=False)[1]
    topk_weights = scores.gather(1, topk_indices)
    topk_weights = topk_weights / (topk_weights.sum(dim=-1, keepdim=True) + 1e-20)
    return topk_weights.to(router_logits.dtype).view(*batch, top_k), topk_indices.view(*batch, top_k)
