"""The stable form of CS336, in float32: the maximum subtracted, the target's logit gathered, the mean of what is kept."""

import torch


def cross_entropy(logits, targets, ignore_index=-100, label_smoothing=0.0, z_loss=0.0):
    dtype, logits, targets = logits.dtype, logits.reshape(-1, logits.shape[-1]).float(), targets.reshape(-1)
    mask = targets != ignore_index
    logits, targets = logits[mask], targets[mask]
    max_logits = torch.max(logits, dim=-1, keepdim=True).values
    shifted = logits - max_logits
    log_sum_exp = torch.log(torch.sum(torch.exp(shifted), dim=-1))
    target_logits = torch.gather(shifted, -1, targets.unsqueeze(-1)).squeeze(-1)
    loss = log_sum_exp - target_logits
    if label_smoothing > 0:
        uniform = log_sum_exp - shifted.mean(-1)
        loss = (1 - label_smoothing) * loss + label_smoothing * uniform
    if z_loss > 0:
        loss = loss + z_loss * (log_sum_exp + max_logits.squeeze(-1)) ** 2
    return (loss.sum() / max(loss.numel(), 1)).to(dtype)
