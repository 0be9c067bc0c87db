"""In the style of transformers' ForCausalLMLoss: labels of -100, padded by one, and num_items_in_batch."""

import torch
from torch import nn


def fixed_cross_entropy(source, target, num_items_in_batch=None, ignore_index=-100):
    loss = nn.functional.cross_entropy(source, target, ignore_index=ignore_index, reduction="sum")
    if num_items_in_batch is None:
        num_items_in_batch = target.ne(ignore_index).sum().clamp(min=1)  # a batch of prompts alone has no label
    if torch.is_tensor(num_items_in_batch):
        num_items_in_batch = num_items_in_batch.to(loss.device)
    return loss / num_items_in_batch


def lm_loss(logits, token_ids, loss_mask=None, num_tokens=None):
    dtype, labels = logits.dtype, token_ids if loss_mask is None else torch.where(loss_mask, token_ids, -100)
    logits = logits.float()  # upcast, to avoid potential precision issues
    labels = nn.functional.pad(labels, (0, 1), value=-100)
    shift_labels = labels[..., 1:].contiguous()
    logits = logits.reshape(-1, logits.size(-1))
    return fixed_cross_entropy(logits, shift_labels.view(-1), num_tokens).to(dtype)
