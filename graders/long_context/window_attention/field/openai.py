"""As OpenAI's gpt-oss in PyTorch: einsum, triangles of -inf, and the sinks concatenated as S, which take a row that sees nothing."""

import math

import torch


def window_mask(q_len, k_len=None, *, window, sinks=0, device=None):
    if window < 1:
        raise ValueError(f"{window=} must be positive")
    k_len = q_len if k_len is None else k_len
    past, ones = k_len - q_len, torch.ones(q_len, k_len, dtype=torch.bool, device=device)
    hidden = torch.triu(ones, diagonal=past + 1) | torch.tril(ones, diagonal=past - window)
    hidden[:, :sinks] = torch.triu(ones, diagonal=past + 1)[:, :sinks]
    return ~hidden


def attention_with_sinks(Q, K, V, sink_logits, mask=None):
    if sink_logits.shape != (Q.shape[-3],):
        raise ValueError(f"sinks {tuple(sink_logits.shape)} must be one for each of {Q.shape[-3]} heads")
    S = sink_logits.reshape(-1, 1, 1)
    QK = torch.einsum("...hqd,...hkd->...hqk", Q, K) / math.sqrt(Q.shape[-1])
    if mask is not None:
        QK = QK + torch.zeros(mask.shape, dtype=Q.dtype, device=Q.device).masked_fill(~mask, -float("inf"))
        S = torch.where(mask.any(dim=-1, keepdim=True), S, 0.0)
    QK = torch.cat([QK, S.expand(*QK.shape[:-1], 1)], dim=-1)
    W = torch.softmax(QK, dim=-1)[..., :-1]
    return torch.einsum("...hqk,...hkd->...hqd", W.to(V.dtype), V)
