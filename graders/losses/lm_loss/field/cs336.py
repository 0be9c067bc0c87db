# robust: Nothing kept, Impossible tokens, Half precision: 0 / 0, 0 · inf, and log-probabilities rounded before the sum.
"""In the style of CS336's fine-tuning: log-probabilities of the labels, and a mean of them under the response mask."""

import torch


def get_response_log_probs(logits, labels):
    log_probs = logits - torch.logsumexp(logits, dim=-1, keepdim=True)
    return log_probs.gather(dim=-1, index=labels.unsqueeze(-1)).squeeze(-1)


def masked_normalize(tensor, mask, normalize_constant):
    return (tensor * mask).sum() / normalize_constant


def lm_loss(logits, token_ids, loss_mask=None, num_tokens=None):
    labels = token_ids[:, 1:]
    response_mask = torch.ones_like(labels) if loss_mask is None else loss_mask[:, 1:]
    log_probs = get_response_log_probs(logits[:, :-1], labels)
    return masked_normalize(-log_probs, response_mask, response_mask.sum() if num_tokens is None else num_tokens)
