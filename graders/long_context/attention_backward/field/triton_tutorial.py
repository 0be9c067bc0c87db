"""As Triton's tutorial on fused attention: a preprocess of delta, scores in base 2, and all of it transposed."""

import math

import torch

LN2 = math.log(2)


def attn_bwd_preprocess(o, do):
    return torch.sum(o.to(torch.promote_types(o.dtype, torch.float32)) * do, dim=-1)


def attention_backward(q, k, v, out, lse, grad_out, causal=False):
    N_Q, N_K, sm_scale = q.shape[-2], k.shape[-2], q.shape[-1] ** -0.5
    Di, m = attn_bwd_preprocess(out, grad_out), lse / LN2
    qkT = torch.matmul(k, q.mT)
    pT = torch.exp2(qkT * (sm_scale / LN2) - m.unsqueeze(-2))
    if causal:
        offs_n, offs_m = torch.arange(N_K, device=q.device), torch.arange(N_K - N_Q, N_K, device=q.device)
        pT = torch.where(offs_m >= offs_n[:, None], pT, 0.0)
    dv = torch.matmul(pT.to(q.dtype), grad_out)
    dpT = torch.matmul(v, grad_out.mT)
    dsT = (pT * (dpT - Di.unsqueeze(-2))).to(q.dtype)
    dk = torch.matmul(dsT, q) * sm_scale
    dq = torch.matmul(dsT.mT, k) * sm_scale
    return dq, dk, dv
