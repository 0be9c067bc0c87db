import torch


@torch.no_grad()
def attention_backward(q, k, v, out, lse, grad_out, causal=False):
    s, t = q.shape[-2], k.shape[-2]
    if causal and s > t:
        raise ValueError(f"causal attention needs s <= t, got s={s}, t={t}")
    c = 1.0 / q.shape[-1] ** 0.5
    wide = torch.float64 if q.dtype is torch.float64 else torch.float32
    Q, K, V, O, dO = (x.to(wide) for x in (q, k, v, out, grad_out))
    S = torch.einsum("...id,...jd->...ij", Q, K) * c
    if causal:
        i, j = torch.arange(s, device=q.device), torch.arange(t, device=q.device)
        S = torch.where(j[None, :] - i[:, None] <= t - s, S, float("-inf"))
    P = torch.exp(S - lse.unsqueeze(-1))
    D = torch.einsum("...ic,...ic->...i", dO, O)
    dP = torch.einsum("...ic,...jc->...ij", dO, V)
    dS = P * (dP - D.unsqueeze(-1))
    dQ = torch.einsum("...ij,...jd->...id", dS, K) * c
    dK = torch.einsum("...ij,...id->...jd", dS, Q) * c
    dV = torch.einsum("...ij,...ic->...jc", P, dO)
    return tuple(x.to(q.dtype) for x in (dQ, dK, dV))
