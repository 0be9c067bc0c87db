# robust: Nothing kept, Extremes, Half precision: 0 / 0, 0 · inf, and log-probabilities rounded before they are summed.
"""In the style of the label smoother of Hugging Face's trainer, with a z-loss beside it as OLMo has it."""

import torch


def cross_entropy(logits, targets, ignore_index=-100, label_smoothing=0.0, z_loss=0.0):
    z = torch.logsumexp(logits, dim=-1, keepdim=True)
    log_probs = z - logits
    labels = targets.unsqueeze(-1)
    padding_mask = labels.eq(ignore_index)
    nll = log_probs.gather(dim=-1, index=torch.clamp(labels, min=0))
    smoothed_loss = log_probs.sum(dim=-1, keepdim=True, dtype=torch.float32)
    nll.masked_fill_(padding_mask, 0.0)
    smoothed_loss.masked_fill_(padding_mask, 0.0)
    num_active_elements = padding_mask.numel() - padding_mask.long().sum()
    nll = nll.sum() / num_active_elements
    smoothed_loss = smoothed_loss.sum() / (num_active_elements * log_probs.shape[-1])
    loss = (1 - label_smoothing) * nll + label_smoothing * smoothed_loss
    z_squared = z.pow(2).masked_fill(padding_mask, 0.0).sum() / num_active_elements
    return (loss + z_loss * z_squared).to(logits.dtype)
