"""As FlashAttention-2 is written out in courses: tiles of queries outside, tiles of keys inside, running values a tile."""

import math

import torch


def flash_attention(q, k, v, causal=False, block_size=64):
    n_q, n_k, d = q.shape[-2], k.shape[-2], q.shape[-1]
    acc_dtype = torch.float64 if q.dtype == torch.float64 else torch.float32
    outs, lses = [], []
    for i in range(0, n_q, block_size):
        Q_i = q[..., i : i + block_size, :]
        rows = torch.arange(i, i + Q_i.shape[-2], device=q.device)[:, None] + n_k - n_q
        m_i = torch.full(Q_i.shape[:-1], float("-inf"), device=q.device, dtype=acc_dtype)
        l_i = torch.zeros_like(m_i)
        O_i = torch.zeros(*Q_i.shape[:-1], v.shape[-1], device=q.device, dtype=acc_dtype)
        for j in range(0, n_k, block_size):
            if causal and j > n_k - n_q + i + Q_i.shape[-2] - 1:
                break  # every key of this tile is in the future
            K_j, V_j = k[..., j : j + block_size, :], v[..., j : j + block_size, :]
            S_ij = (Q_i @ K_j.transpose(-2, -1)).to(acc_dtype) / math.sqrt(d)
            if causal:
                S_ij = S_ij.masked_fill(torch.arange(j, j + K_j.shape[-2], device=q.device) > rows, float("-inf"))
            m_new = torch.maximum(m_i, S_ij.max(dim=-1).values)
            P_ij = torch.exp(S_ij - m_new[..., None])
            alpha = torch.exp(m_i - m_new)
            l_i = alpha * l_i + P_ij.sum(dim=-1)
            O_i = alpha[..., None] * O_i + (P_ij.to(V_j.dtype) @ V_j).to(acc_dtype)
            m_i = m_new
        outs.append((O_i / l_i[..., None]).to(q.dtype))
        lses.append(m_i + torch.log(l_i))
    return torch.cat(outs, dim=-2), torch.cat(lses, dim=-1)
