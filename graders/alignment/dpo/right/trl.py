import torch
import torch.nn.functional as F


def selective_log_softmax(logits, index):
    selected = torch.gather(logits, dim=-1, index=index.unsqueeze(-1)).squeeze(-1)
    return selected - torch.logsumexp(logits, dim=-1)


def sequence_logprobs(logits, token_ids, response_mask):
    """As TRL computes them: labels rolled by one, a mask whose last entry falls off."""
    if logits.shape[:2] != token_ids.shape or response_mask.shape != token_ids.shape:
        shapes = [tuple(x.shape) for x in (logits, token_ids, response_mask)]
        raise ValueError(f"shapes do not match: {shapes}")
    loss_mask = response_mask[:, 1:].bool()
    labels = token_ids[:, 1:].clone()
    labels[~loss_mask] = 0
    per_token_logps = selective_log_softmax(logits[:, :-1].to(torch.promote_types(logits.dtype, torch.float32)), labels)
    per_token_logps = per_token_logps.masked_fill(~loss_mask, 0)
    return per_token_logps.sum(-1).to(logits.dtype)


def dpo_loss(policy_chosen, policy_rejected, ref_chosen, ref_rejected, beta=0.1, label_smoothing=0.0):
    if not beta > 0:
        raise ValueError(f"beta must be positive, got {beta}")
    if label_smoothing < 0 or label_smoothing >= 0.5:
        raise ValueError(f"label_smoothing must be in [0, 0.5), got {label_smoothing}")
    dtype = policy_chosen.dtype
    if dtype != torch.float64:
        policy_chosen, policy_rejected, ref_chosen, ref_rejected = (
            x.float() for x in (policy_chosen, policy_rejected, ref_chosen, ref_rejected)
        )
    logratios = policy_chosen - policy_rejected
    with torch.no_grad():
        ref_logratios = ref_chosen - ref_rejected
    logits = logratios - ref_logratios
    losses = -F.logsigmoid(beta * logits) * (1 - label_smoothing) - F.logsigmoid(-beta * logits) * label_smoothing
    return losses.mean().to(dtype)
