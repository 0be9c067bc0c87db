import torch
import torch.nn.functional as F


def window_mask(q_len, k_len=None, *, window, sinks=0, device=None):
    """One row under vmap."""
    k_len = q_len if k_len is None else k_len
    if q_len < 0 or k_len < q_len:
        raise ValueError("bad lengths %d, %d" % (q_len, k_len))
    if not window >= 1:
        raise ValueError("window must be positive, is %d" % window)
    if not sinks >= 0:
        raise ValueError("sinks must not be negative, is %d" % sinks)
    j = torch.arange(k_len, device=device)
    if q_len == 0:
        return torch.empty(0, k_len, dtype=torch.bool, device=device)
    row = torch.vmap(lambda p: (j <= p) & ((j > p - window) | (j < sinks)))
    return row(torch.arange(k_len - q_len, k_len, device=device))


def attention_with_sinks(q, k, v, sink_logits, mask=None):
    """The sink is one more key, always allowed, whose value is zero; float64 throughout."""
    heads = q.shape[-3]
    if sink_logits.shape[0] != heads:
        raise ValueError(f"expected {heads} sinks, got {sink_logits.shape[0]}")
    dtype = q.dtype
    q, k, v, sink = q.double(), k.double(), v.double(), sink_logits.double()
    s = torch.einsum("...id,...jd->...ij", q, k) / q.shape[-1] ** 0.5
    s = torch.cat([s, sink.view(heads, 1, 1).expand(*s.shape[:-1], 1)], -1)
    v = F.pad(v, (0, 0, 0, 1))
    if mask is None:
        return torch.einsum("...ij,...jd->...id", s.softmax(-1), v).to(dtype)
    allowed = F.pad(mask.expand(*mask.shape[:-1], k.shape[-2]), (0, 1), value=True)
    alive = mask.any(-1, keepdim=True)
    s = torch.where(alive, torch.where(allowed, s, -torch.inf), 0.0)
    weights = torch.where(alive, torch.softmax(s, -1), 0.0)
    return torch.einsum("...ij,...jd->...id", weights, v).to(dtype)
