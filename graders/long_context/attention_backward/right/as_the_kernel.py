import torch

LOG2E = 1.4426950408889634


def _preprocess(o, do):
    return (o.float() * do.float()).sum(-1) if o.dtype != torch.float64 else (o * do).sum(-1)


def attention_backward(q, k, v, out, lse, grad_out, causal=False):
    """As a Triton kernel does it, with one tile: base 2, products in the dtype of the inputs."""
    q, k, v, o, do, M = [x.detach() for x in (q, k, v, out, grad_out, lse)]
    N_Q, N_K = q.size(-2), k.size(-2)
    if causal and N_K < N_Q:
        raise ValueError("N_K (%d) must not be smaller than N_Q (%d)" % (N_K, N_Q))
    sm_scale = q.size(-1) ** -0.5
    delta = _preprocess(o, do)
    acc = delta.dtype
    qk = torch.matmul(q.to(acc), k.to(acc).transpose(-1, -2)) * (sm_scale * LOG2E)
    p = torch.exp2(qk - (M * LOG2E)[..., None])
    if causal:
        offs_m, offs_n = torch.arange(N_Q, device=q.device), torch.arange(N_K, device=q.device)
        p = torch.where(offs_m[:, None] + (N_K - N_Q) >= offs_n[None, :], p, 0.0)
    dv = torch.matmul(p.to(do.dtype).transpose(-1, -2), do)
    dp = torch.matmul(do, v.transpose(-1, -2)).to(acc)
    ds = (p * (dp - delta[..., None])).to(q.dtype)
    dk = torch.matmul(ds.transpose(-1, -2), q) * sm_scale
    dq = torch.matmul(ds, k) * sm_scale
    return dq, dk, dv
