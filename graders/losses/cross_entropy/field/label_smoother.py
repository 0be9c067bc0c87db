"""In the style of the label smoother of Hugging Face's trainer, upcast, with a z-loss beside it as OLMo has it."""

import torch


def cross_entropy(logits, targets, ignore_index=-100, label_smoothing=0.0, z_loss=0.0):
    dtype, logits = logits.dtype, logits.float()
    z = torch.logsumexp(logits, dim=-1, keepdim=True)
    log_probs = z - logits
    labels = targets.unsqueeze(-1)
    padding_mask = labels.eq(ignore_index)
    num_active_elements = (padding_mask.numel() - padding_mask.long().sum()).clamp(min=1)
    nll_loss = log_probs.gather(dim=-1, index=torch.clamp(labels, min=0)).masked_fill(padding_mask, 0.0)
    loss = nll_loss.sum() / num_active_elements
    if label_smoothing > 0:
        smoothed_loss = log_probs.sum(dim=-1, keepdim=True).masked_fill(padding_mask, 0.0)
        smoothed_loss = smoothed_loss.sum() / (num_active_elements * log_probs.shape[-1])
        loss = (1 - label_smoothing) * loss + label_smoothing * smoothed_loss
    if z_loss > 0:
        loss = loss + z_loss * z.pow(2).masked_fill(padding_mask, 0.0).sum() / num_active_elements
    return loss.to(dtype)
