"""As implementations of FlashAttention-2 in PyTorch have it: flat heads, delta first, weights rounded for one product."""

import math

import torch


def attention_backward(q, k, v, out, lse, grad_out, causal=False):
    shapes = [x.shape for x in (q, k, v)]
    q, k, v, o, do = (x.reshape(-1, *x.shape[-2:]) for x in (q, k, v, out, grad_out))
    n, m, d = q.shape[1], k.shape[1], q.shape[2]
    lse = lse.reshape(-1, n, 1)

    delta = (o.float() * do.float()).sum(dim=-1, keepdim=True)
    s = torch.bmm(q, k.transpose(1, 2)).float() / math.sqrt(d)
    if causal:
        i, j = torch.arange(n, device=q.device).unsqueeze(1), torch.arange(m, device=q.device)
        s = s.masked_fill(j > i + m - n, float("-inf"))
    p = torch.exp(s - lse)
    dv = torch.bmm(p.to(do.dtype).transpose(1, 2), do)
    dp = torch.bmm(do, v.transpose(1, 2)).float()
    ds = (p * (dp - delta) / math.sqrt(d)).to(q.dtype)
    dq, dk = torch.bmm(ds, k), torch.bmm(ds.transpose(1, 2), q)
    return tuple(grad.reshape(shape) for grad, shape in zip((dq, dk, dv), shapes))
