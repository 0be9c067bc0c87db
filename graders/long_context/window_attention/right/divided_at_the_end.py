import torch


def window_mask(q_len, k_len=None, *, window, sinks=0, device=None):
    """Distances, in place."""
    keys = q_len if k_len is None else k_len
    if q_len < 0 or keys < 0 or keys < q_len:
        raise ValueError(f"got q_len {q_len} and k_len {k_len}")
    for name, value, least in (("window", window, 1), ("sinks", sinks, 0)):
        if value < least:
            raise ValueError(f"{name} must be at least {least}, got {value}")
    distance = torch.arange(keys - q_len, keys, device=device).unsqueeze(-1) - torch.arange(keys, device=device)
    mask = distance.lt(window)
    mask[:, : min(sinks, keys)] = True
    mask &= distance.ge(0)
    return mask


def attention_with_sinks(q, k, v, sink_logits, mask=None):
    """A running sum that starts with the sink, as in a flash kernel, divided at the end."""
    n = sink_logits.size(0)
    if n != q.size(-3):
        raise ValueError(f"{n} logits of sinks do not fit {q.size(-3)} heads")
    acc = torch.float32 if q.dtype in (torch.float16, torch.bfloat16) else q.dtype
    s = torch.matmul(q.to(acc), k.to(acc).transpose(-2, -1)).mul(1 / q.size(-1) ** 0.5)
    if mask is not None:
        s = s.masked_fill(~mask, float("-inf"))
    sink = sink_logits.to(acc)[:, None, None]
    with torch.no_grad():
        m = torch.maximum(s.max(-1, keepdim=True).values, sink)
        m = torch.where(m == float("-inf"), 0.0, m)
    p = torch.exp(s - m)
    l = torch.exp(sink - m) + p.sum(-1, keepdim=True)  # noqa: E741
    o = torch.matmul(p, v.to(acc)) / torch.where(l == 0, 1.0, l)
    return o.to(q.dtype)
