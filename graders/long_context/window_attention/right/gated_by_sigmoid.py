"""Plain attention, and a gate for each query: the sigmoid of its logsumexp less the sink."""

import math

import torch


class Window:
    def __init__(self, window, sinks):
        if window < 1:
            raise ValueError(f"a window of {window}")
        if sinks < 0:
            raise ValueError(f"{sinks} sinks")
        self.window, self.sinks = window, sinks

    def sees(self, i, j):
        return torch.logical_and(j <= i, torch.logical_or(i - j < self.window, j < self.sinks))


def window_mask(q_len, k_len=None, *, window, sinks=0, device=None):
    if k_len is None:
        k_len = q_len
    if min(q_len, k_len) < 0 or q_len > k_len:
        raise ValueError(f"{q_len} queries, {k_len} keys")
    positions = torch.arange(k_len, device=device)
    return Window(window, sinks).sees(positions[k_len - q_len :].unsqueeze(1), positions.unsqueeze(0))


def attention_with_sinks(q, k, v, sink_logits, mask=None):
    if list(sink_logits.shape) != [q.shape[-3]]:
        raise ValueError(f"sink_logits {list(sink_logits.shape)} for {q.shape[-3]} heads")
    wide = torch.promote_types(q.dtype, torch.float32)
    scores = (q.to(wide) / math.sqrt(q.shape[-1])) @ k.to(wide).mT
    if mask is not None:
        scores = scores.masked_fill(mask.logical_not(), torch.finfo(wide).min)
    weights = scores.softmax(-1)
    if mask is not None:
        weights = weights.masked_fill(mask.logical_not(), 0)
    gate = torch.sigmoid(scores.logsumexp(-1) - sink_logits.to(wide)[:, None])
    return ((weights @ v.to(wide)) * gate[..., None]).to(q.dtype)
