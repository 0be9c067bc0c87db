"""As transformers' gpt-oss: a column of logits that is dropped behind the softmax, and overlays of masks."""

import torch


def window_mask(q_len, k_len=None, *, window, sinks=0, device=None):
    k_len = q_len if k_len is None else k_len
    if q_len < 0 or k_len < q_len:
        raise ValueError(f"q_len={q_len}, k_len={k_len}")
    if window < 1 or sinks < 0:
        raise ValueError(f"window={window}, sinks={sinks}")
    ones = torch.ones(q_len, k_len, dtype=torch.bool, device=device)
    causal = ones.tril(k_len - q_len)
    mask = causal & ~ones.tril(k_len - q_len - window)
    mask[:, :sinks] = causal[:, :sinks]
    return mask


def attention_with_sinks(query, key, value, sink_logits, mask=None):
    if sink_logits.numel() != query.size(-3):
        raise ValueError(f"{sink_logits.numel()} sinks, {query.size(-3)} heads")
    work = torch.float64 if query.dtype == torch.float64 else torch.float32
    attn_weights = torch.matmul(query.to(work), key.to(work).transpose(-1, -2)) * query.size(-1) ** -0.5
    if mask is not None:
        attn_weights = torch.where(mask, attn_weights, torch.finfo(work).min)
    sinks = sink_logits.to(work).reshape(-1, 1, 1).expand(*attn_weights.shape[:-1], 1)
    combined_logits = torch.cat([attn_weights, sinks], dim=-1)
    combined_logits = combined_logits - combined_logits.max(dim=-1, keepdim=True).values
    scores = combined_logits.softmax(-1)[..., :-1]  # we drop the sink here
    if mask is not None:
        scores = scores * mask
    return torch.matmul(scores.to(value.dtype), value)
