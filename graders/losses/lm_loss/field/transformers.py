# robust: Nothing kept, Half precision: a mean over no label is nan, the loss is float32, and logits are viewed flat.
"""In the style of transformers' ForCausalLMLoss: labels of -100, padded by one, and num_items_in_batch."""

import torch
from torch import nn


def fixed_cross_entropy(source, target, num_items_in_batch=None, ignore_index=-100):
    reduction = "sum" if num_items_in_batch is not None else "mean"
    loss = nn.functional.cross_entropy(source, target, ignore_index=ignore_index, reduction=reduction)
    if reduction == "sum":
        if torch.is_tensor(num_items_in_batch):
            num_items_in_batch = num_items_in_batch.to(loss.device)
        loss = loss / num_items_in_batch
    return loss


def lm_loss(logits, token_ids, loss_mask=None, num_tokens=None):
    labels = token_ids if loss_mask is None else torch.where(loss_mask, token_ids, -100)
    logits = logits.float()  # upcast, to avoid potential precision issues
    labels = nn.functional.pad(labels, (0, 1), value=-100)
    shift_labels = labels[..., 1:].contiguous()
    logits = logits.view(-1, logits.size(-1))
    return fixed_cross_entropy(logits, shift_labels.view(-1), num_tokens)
