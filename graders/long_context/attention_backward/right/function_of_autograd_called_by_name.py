import math
from types import SimpleNamespace

import torch


class Attention(torch.autograd.Function):
    """What a candidate has at hand: the class whose backward is asked for."""

    @staticmethod
    def forward(ctx, q, k, v, causal):
        raise NotImplementedError

    @staticmethod
    def backward(ctx, do):
        q, k, v, o, lse = ctx.saved_tensors
        scores = torch.baddbmm(-lse.unsqueeze(-1), q, k.mT, alpha=ctx.scale)
        if ctx.hidden is not None:
            scores.masked_fill_(ctx.hidden, -math.inf)
        p = scores.exp_()
        dv = torch.bmm(p.mT, do)
        ds = torch.bmm(do, v.mT).sub_((do * o).sum(2, keepdim=True)).mul_(p).mul_(ctx.scale)
        return torch.bmm(ds, k), torch.bmm(ds.mT, q), dv, None


def attention_backward(q, k, v, out, lse, grad_out, causal=False):
    s, t = q.shape[-2], k.shape[-2]
    if causal and t < s:
        raise ValueError(f"{s} queries, {t} keys")
    dtype = torch.promote_types(q.dtype, torch.float32)
    flat = [x.detach().to(dtype).reshape(-1, *x.shape[-2:]) for x in (q, k, v, out)]
    ctx = SimpleNamespace(saved_tensors=(*flat, lse.detach().reshape(-1, s)), scale=1 / math.sqrt(q.shape[-1]))
    ctx.hidden = torch.ones(s, t, dtype=torch.bool, device=q.device).triu(t - s + 1) if causal else None
    dq, dk, dv, _ = Attention.backward(ctx, grad_out.detach().to(dtype).reshape(-1, *grad_out.shape[-2:]))
    return tuple(g.reshape(x.shape).to(x.dtype) for g, x in ((dq, q), (dk, k), (dv, v)))
