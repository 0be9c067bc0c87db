import torch


def block_attention(q, k, v, hidden):
    scores = torch.matmul(q, k.mT)
    scores = scores if hidden is None else scores.masked_fill(hidden, float("-inf"))
    top = scores.amax(-1, keepdim=True).clamp_min(torch.finfo(scores.dtype).min)
    weights = torch.exp(scores - top)
    total = weights.sum(-1, keepdim=True)
    return weights @ v / total.clamp_min(1e-30), top + total.log()


def flash_attention(q, k, v, causal=False, block_size=64):
    """Each block gives a normalised output and its lse; two of them merge by their lse."""
    s, t, d = q.shape[-2], k.shape[-2], q.shape[-1]
    if block_size < 1:
        raise ValueError(f"block_size is {block_size}")
    if causal and t < s:
        raise ValueError(f"t={t} is less than s={s}")
    dtype, wide = q.dtype, torch.promote_types(q.dtype, torch.float32)
    q = q.to(wide) * d**-0.5
    out, lse = None, None
    for number, (kb, vb) in enumerate(zip(k.split(block_size, -2), v.split(block_size, -2))):
        hidden = None
        if causal:
            columns = torch.arange(kb.shape[-2], device=q.device) + number * block_size
            hidden = columns[None] - torch.arange(s, device=q.device)[:, None] > t - s
        ob, lb = block_attention(q, kb.to(wide), vb.to(wide), hidden)
        if out is None:
            out, lse = ob, lb
        else:
            both = torch.logaddexp(lse, lb)
            out, lse = out * (lse - both).exp() + ob * (lb - both).exp(), both
    return out.to(dtype), lse.squeeze(-1)
