import math

import torch

LOG2E, LN2 = math.log2(math.e), math.log(2)


def _attn_fwd_inner(acc, l_i, m_i, q, k_block, v_block, qk_scale, mask):
    qk = torch.matmul(q, k_block.transpose(-2, -1)).to(m_i.dtype) * qk_scale
    if mask is not None:
        qk = torch.where(mask, qk, -1.0e30 if qk.dtype != torch.float64 else -1.0e300)
    m_ij = torch.maximum(m_i, qk.max(dim=-1).values)
    p = torch.exp2(qk - m_ij[..., None])
    alpha = torch.exp2(m_i - m_ij)
    l_i = l_i * alpha + p.sum(dim=-1)
    acc = acc * alpha[..., None] + torch.matmul(p.to(v_block.dtype), v_block)
    return acc, l_i, m_ij


def flash_attention(q, k, v, causal=False, block_size=64):
    """The names and the base 2 of the Triton tutorial; weights meet the values in the dtype of those."""
    BLOCK_N, N_CTX, M = block_size, k.shape[-2], q.shape[-2]
    if BLOCK_N < 1:
        raise ValueError(f"BLOCK_N = {BLOCK_N}")
    if causal and N_CTX < M:
        raise ValueError(f"causal attention needs at least as many keys ({N_CTX}) as queries ({M})")
    acc_dtype = torch.promote_types(q.dtype, torch.float32)
    m_i = torch.full(q.shape[:-1], -float("inf"), dtype=acc_dtype, device=q.device)
    l_i = torch.zeros(q.shape[:-1], dtype=acc_dtype, device=q.device)
    acc = torch.zeros(q.shape[:-1] + (v.shape[-1],), dtype=acc_dtype, device=q.device)
    qk_scale = LOG2E / math.sqrt(q.shape[-1])
    offs_m = torch.arange(M, device=q.device) + N_CTX - M
    q_wide = q.to(acc_dtype)
    for start_n in range(0, N_CTX, BLOCK_N):
        k_block, v_block = k[..., start_n : start_n + BLOCK_N, :], v[..., start_n : start_n + BLOCK_N, :]
        mask = None
        if causal:
            offs_n = start_n + torch.arange(k_block.shape[-2], device=q.device)
            mask = offs_m[:, None] >= offs_n[None, :]
        acc, l_i, m_i = _attn_fwd_inner(acc, l_i, m_i, q_wide, k_block.to(acc_dtype), v_block, qk_scale, mask)
    return (acc / l_i[..., None]).to(q.dtype), m_i * LN2 + torch.log(l_i)
