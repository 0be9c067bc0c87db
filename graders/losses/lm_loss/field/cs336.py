"""In the style of CS336's fine-tuning, in float32: log-probabilities of the labels, and a masked sum over a constant."""

import torch


def get_response_log_probs(logits, labels):
    logits = logits.float()
    target_logits = logits.gather(dim=-1, index=labels.unsqueeze(-1)).squeeze(-1)
    return target_logits - torch.logsumexp(logits, dim=-1)


def masked_normalize(tensor, mask, normalize_constant):
    return torch.where(mask, tensor, 0.0).sum() / normalize_constant


def lm_loss(logits, token_ids, loss_mask=None, num_tokens=None):
    labels = token_ids[:, 1:]
    response_mask = torch.ones_like(labels, dtype=torch.bool) if loss_mask is None else loss_mask[:, 1:]
    log_probs = get_response_log_probs(logits[:, :-1], labels)
    normalize_constant = response_mask.sum().clamp(min=1) if num_tokens is None else num_tokens
    return masked_normalize(-log_probs, response_mask, normalize_constant).to(logits.dtype)
