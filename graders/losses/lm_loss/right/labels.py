import torch.nn as nn


def lm_loss(logits, token_ids, loss_mask=None, num_tokens=None):
    """As transformers does it: labels of -100, padded by one, and a flat cross-entropy."""
    if logits.shape[:2] != token_ids.shape:
        raise ValueError(f"logits {tuple(logits.shape)}, token_ids {tuple(token_ids.shape)}")
    if loss_mask is not None and loss_mask.shape != token_ids.shape:
        raise ValueError(f"loss_mask {tuple(loss_mask.shape)}, token_ids {tuple(token_ids.shape)}")
    if num_tokens is not None and num_tokens < 0:
        raise ValueError(f"num_tokens: {num_tokens}")
    dtype = logits.dtype
    labels = token_ids if loss_mask is None else token_ids.masked_fill(~loss_mask, -100)
    labels = nn.functional.pad(labels, (0, 1), value=-100)
    shift_labels = labels[..., 1:].contiguous().view(-1)
    logits = logits.float().reshape(-1, logits.size(-1))
    loss = nn.functional.cross_entropy(logits, shift_labels, ignore_index=-100, reduction="sum")
    if num_tokens is None:
        num_tokens = (shift_labels != -100).sum()
    return (loss / max(1, int(num_tokens))).to(dtype)
