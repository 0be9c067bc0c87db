"""In the manner of transformers' Mixtral and DeepSeek-V3, with sorts where they take topk."""

import torch
import torch.nn.functional as F


def top(x, k):
    values, indices = torch.sort(x, dim=-1, descending=True, stable=True)
    return values[..., :k], indices[..., :k]


def route(logits, k, normalize=True):
    E = logits.size(-1)
    if k < 1 or k > E:
        raise ValueError(f"top-{k} of {E} experts")
    router_probs = F.softmax(logits, dim=-1, dtype=torch.promote_types(logits.dtype, torch.float32))
    _, router_indices = top(logits, k)
    router_top_value = torch.take_along_dim(router_probs, router_indices, -1)
    if normalize:
        router_top_value = router_top_value / router_top_value.sum(dim=-1, keepdim=True)
    return router_top_value.to(logits.dtype), router_indices


def balance_loss(logits, experts):
    num_experts = logits.shape[-1]
    routing_weights = F.softmax(logits, dim=-1, dtype=torch.promote_types(logits.dtype, torch.float32))
    expert_mask = F.one_hot(experts.reshape(-1, experts.shape[-1]), num_experts)
    tokens_per_expert = torch.mean(expert_mask.to(routing_weights.dtype), dim=(0, 1))
    router_prob_per_expert = torch.mean(routing_weights.reshape(-1, num_experts), dim=0)
    return (torch.sum(tokens_per_expert * router_prob_per_expert) * num_experts).to(logits.dtype)


def biased_route(logits, bias, k, num_groups=1, top_groups=1, scale=1.0):
    E = logits.size(-1)
    if num_groups < 1 or E % num_groups:
        raise ValueError(f"E={E} num_groups={num_groups}")
    if top_groups < 1 or top_groups > num_groups:
        raise ValueError(f"top_groups={top_groups} num_groups={num_groups}")
    per = E // num_groups
    if k < 1 or k > top_groups * per:
        raise ValueError(f"k={k}, but {top_groups * per} experts to choose from")
    batch = logits.shape[:-1]
    wide = logits.reshape(-1, E).to(torch.promote_types(logits.dtype, torch.float32))
    scores = wide.sigmoid()
    with torch.no_grad():
        scores_for_choice = scores + bias.to(scores.dtype).unsqueeze(0)
        group_scores = top(scores_for_choice.view(-1, num_groups, per), 2)[0].sum(dim=-1)
        group_idx = top(group_scores, top_groups)[1]
        group_mask = torch.zeros_like(group_scores).scatter_(1, group_idx, 1)
        score_mask = group_mask.unsqueeze(-1).expand(-1, num_groups, per).reshape(-1, E)
        scores_for_choice = scores_for_choice.masked_fill(~score_mask.bool(), float("-inf"))
        topk_indices = top(scores_for_choice, k)[1]
    topk_weights = scores.gather(1, topk_indices)
    denominator = topk_weights.sum(dim=-1, keepdim=True) + 1e-20
    topk_weights = topk_weights / denominator * scale
    return topk_weights.to(logits.dtype).reshape(*batch, k), topk_indices.reshape(*batch, k)


@torch.no_grad()
def update_bias(bias, experts, rate):
    counts = torch.bincount(experts.reshape(-1), minlength=bias.numel()).to(torch.float32)
    error = counts.mean() - counts
    return bias + rate * error.sign().to(bias.dtype)
