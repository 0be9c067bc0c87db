"""As transformers' gpt-oss: overlays of masks, and a dropped column of sinks in eager attention; dead rows as in Mllama."""

import torch
from torch import nn


def causal_mask_function(q_idx, kv_idx):
    return kv_idx <= q_idx


def sliding_window_overlay(sliding_window):
    return lambda q_idx, kv_idx: kv_idx > q_idx - sliding_window


def window_mask(q_len, k_len=None, *, window, sinks=0, device=None):
    if window < 1:
        raise ValueError(f"`sliding_window` must be a strictly positive integer, got {window}")
    k_len = q_len if k_len is None else k_len
    q_idx = torch.arange(k_len - q_len, k_len, device=device)[:, None]
    kv_idx = torch.arange(k_len, device=device)
    visible = sliding_window_overlay(window)(q_idx, kv_idx) | (kv_idx < sinks)
    return causal_mask_function(q_idx, kv_idx) & visible


def attention_with_sinks(query, key, value, sink_logits, mask=None):
    if sink_logits.shape != (query.size(-3),):
        raise ValueError(f"`sinks` should be of size {(query.size(-3),)}, but is {tuple(sink_logits.shape)}")
    attn_weights = torch.matmul(query, key.transpose(-2, -1)) * query.size(-1) ** -0.5
    if mask is not None:
        attention_mask = torch.zeros_like(mask, dtype=query.dtype).masked_fill(~mask, torch.finfo(query.dtype).min)
        attn_weights = attn_weights + attention_mask
    sinks = sink_logits.to(query.dtype).reshape(-1, 1, 1).expand(*attn_weights.shape[:-1], 1)
    combined_logits = torch.cat([attn_weights, sinks], dim=-1)
    combined_logits = combined_logits - combined_logits.max(dim=-1, keepdim=True).values
    probs = nn.functional.softmax(combined_logits, dim=-1, dtype=torch.float32).to(query.dtype)
    attn_output = torch.matmul(probs[..., :-1], value)
    return attn_output if mask is None else attn_output * mask.any(dim=-1, keepdim=True)  # masked out rows
