"""In the style of DeepSeek's own files: the gate and loss of DeepSeek-MoE, the gate of DeepSeek-V3."""

import torch
import torch.nn.functional as F


def route(logits, topk, normalize=True):
    scores = logits.softmax(dim=-1, dtype=torch.float32)
    topk_weight, topk_idx = torch.topk(scores, k=topk, dim=-1, sorted=False)
    if normalize:
        denominator = topk_weight.sum(dim=-1, keepdim=True) + 1e-20
        topk_weight = topk_weight / denominator
    return topk_weight.type_as(logits), topk_idx


def balance_loss(logits, topk_idx):
    n_routed_experts = logits.shape[-1]
    scores_for_aux = logits.softmax(dim=-1, dtype=torch.float32).reshape(-1, n_routed_experts)
    mask_ce = F.one_hot(topk_idx.reshape(-1), num_classes=n_routed_experts)
    ce = mask_ce.float().mean(0)
    Pi = scores_for_aux.mean(0)
    fi = ce * n_routed_experts
    return (Pi * fi).sum().type_as(logits)


def biased_route(logits, bias, topk, num_groups=1, top_groups=1):
    original_scores = logits.reshape(-1, logits.shape[-1]).float().sigmoid()
    scores = original_scores.detach() + bias.detach()
    if num_groups > 1:
        scores = scores.view(len(scores), num_groups, -1)
        group_scores = scores.topk(2, dim=-1)[0].sum(dim=-1)
        indices = group_scores.topk(top_groups, dim=-1)[1]
        mask = torch.ones_like(group_scores, dtype=torch.bool).scatter_(1, indices, False)
        scores = scores.masked_fill(mask.unsqueeze(-1), float("-inf")).flatten(1)
    indices = torch.topk(scores, topk, dim=-1)[1]
    weights = original_scores.gather(1, indices)
    weights = weights / weights.sum(dim=-1, keepdim=True)
    shape = (*logits.shape[:-1], topk)
    return weights.type_as(logits).view(shape), indices.view(shape)
