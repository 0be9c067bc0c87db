import torch


class Flash(torch.autograd.Function):
    @staticmethod
    def blocks(k, causal, s, size):
        t = k.shape[-2]
        rows = torch.arange(t - s, t, device=k.device).unsqueeze(1)
        for start in range(0, t, size):
            end = min(t, start + size)
            yield slice(start, end), (rows < torch.arange(start, end, device=k.device)) if causal else None

    @staticmethod
    def forward(ctx, q, k, v, causal, size):
        scale = 1 / q.shape[-1] ** 0.5
        m = torch.full(q.shape[:-1], -torch.inf, dtype=q.dtype, device=q.device)
        l = torch.zeros_like(m)
        acc = torch.zeros(*q.shape[:-1], v.shape[-1], dtype=q.dtype, device=q.device)
        for block, hide in Flash.blocks(k, causal, q.shape[-2], size):
            x = (q @ k[..., block, :].transpose(-1, -2)).mul_(scale)
            if hide is not None:
                x.masked_fill_(hide, -torch.inf)
            new = torch.maximum(m, x.amax(-1))
            p = x.sub_(new.unsqueeze(-1)).exp_()
            alpha = (m - new).exp()
            l.mul_(alpha).add_(p.sum(-1))
            acc.mul_(alpha.unsqueeze(-1)).add_(p @ v[..., block, :])
            m = new
        out, lse = acc.div_(l.unsqueeze(-1)), m + l.log()
        ctx.save_for_backward(q, k, v, out, lse)
        ctx.how = causal, size, scale
        return out, lse

    @staticmethod
    def backward(ctx, grad, grad_lse):
        q, k, v, out, lse = ctx.saved_tensors
        causal, size, scale = ctx.how
        delta = (grad * out).sum(-1) - grad_lse
        dq, dk, dv = torch.zeros_like(q), torch.zeros_like(k), torch.zeros_like(v)
        for block, hide in Flash.blocks(k, causal, q.shape[-2], size):
            x = q @ k[..., block, :].transpose(-1, -2) * scale
            if hide is not None:
                x = x.masked_fill(hide, -torch.inf)
            p = (x - lse.unsqueeze(-1)).exp()
            dv[..., block, :] = p.transpose(-1, -2) @ grad
            ds = p * (grad @ v[..., block, :].transpose(-1, -2) - delta.unsqueeze(-1)) * scale
            dq += ds @ k[..., block, :]
            dk[..., block, :] = ds.transpose(-1, -2) @ q
        return dq, dk, dv, None, None


def flash_attention(q, k, v, causal=False, block_size=64):
    """Sums in place, and a way back that makes each block again."""
    if block_size < 1:
        raise ValueError(f"block_size must be at least 1: {block_size}")
    if causal and k.shape[-2] < q.shape[-2]:
        raise ValueError(f"{q.shape[-2]} queries, {k.shape[-2]} keys")
    wide = torch.promote_types(q.dtype, torch.float32)
    out, lse = Flash.apply(q.to(wide), k.to(wide), v.to(wide), causal, block_size)
    return out.to(q.dtype), lse
