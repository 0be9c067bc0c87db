import torch


def flash_attention(q, k, v, causal=False, block_size=64):
    """Both sides cut, as FlashAttention-2 does; tiles behind the diagonal are left out."""
    s, t = q.size(-2), k.size(-2)
    if block_size <= 0:
        raise ValueError("block_size must be positive, got {}".format(block_size))
    if causal and s > t:
        raise ValueError("causal: {} queries but only {} keys".format(s, t))
    wide = torch.float64 if q.dtype == torch.float64 else torch.float32
    scale = q.size(-1) ** -0.5
    outs, lses = [], []
    for i in range(0, s, block_size):
        qi = q[..., i : i + block_size, :].to(wide)
        rows = torch.arange(i, i + qi.size(-2), device=q.device) + (t - s)
        m = l = o = None
        for j in range(0, t, block_size):
            if causal and j > rows[-1].item():
                break
            kj, vj = k[..., j : j + block_size, :].to(wide), v[..., j : j + block_size, :].to(wide)
            x = torch.einsum("...id,...jd->...ij", qi, kj) * scale
            if causal:
                cols = torch.arange(j, j + kj.size(-2), device=q.device)
                x = torch.where(
                    cols[None, :] <= rows[:, None], x, torch.tensor(-torch.inf, dtype=wide, device=q.device)
                )
            top = x.max(-1, keepdim=True).values
            if m is None:
                m, p = top, torch.exp(x - top)
                l, o = p.sum(-1, keepdim=True), p @ vj
                continue
            new = torch.max(m, top)
            p, alpha = torch.exp(x - new), torch.exp(m - new)
            l, o, m = l * alpha + p.sum(-1, keepdim=True), o * alpha + p @ vj, new
        outs.append(o / l)
        lses.append((m + torch.log(l)).squeeze(-1))
    return torch.cat(outs, -2).to(q.dtype), torch.cat(lses, -1)
