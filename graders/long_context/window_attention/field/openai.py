# robust: Masked rows, Sinks, Errors: a query that sees nothing and has no sink is 0/0; sinks have the model's dtype.
"""As OpenAI's gpt-oss in PyTorch: einsum, triangles of -inf, and the sinks concatenated as S."""

import math

import torch


def window_mask(q_len, k_len=None, *, window, sinks=0, device=None):
    k_len = q_len if k_len is None else k_len
    past, ones = k_len - q_len, torch.ones(q_len, k_len, dtype=torch.bool, device=device)
    hidden = torch.triu(ones, diagonal=past + 1) | torch.tril(ones, diagonal=past - window)
    hidden[:, :sinks] = torch.triu(ones, diagonal=past + 1)[:, :sinks]
    return ~hidden


def attention_with_sinks(Q, K, V, sink_logits, mask=None):
    QK = torch.einsum("...hqd,...hkd->...hqk", Q, K) / math.sqrt(Q.shape[-1])
    if mask is not None:
        QK = QK + torch.zeros(mask.shape, dtype=Q.dtype, device=Q.device).masked_fill(~mask, -float("inf"))
    S = sink_logits.reshape(-1, 1, 1).expand(*QK.shape[:-1], 1)
    W = torch.softmax(torch.cat([QK, S], dim=-1), dim=-1)[..., :-1]
    return torch.einsum("...hqk,...hkd->...hqd", W, V)
