"""In the style of Meta's Llama: complex frequencies looked up by position, -inf above the diagonal."""

import math

import torch
import torch.nn.functional as F
from torch import nn


def precompute_freqs_cis(dim, end, theta):
    freqs = 1.0 / (theta ** (torch.arange(0, dim, 2)[: (dim // 2)].float() / dim))
    freqs = torch.outer(torch.arange(end).float(), freqs)
    return torch.polar(torch.ones_like(freqs), freqs)


def apply_rotary_emb(xq, xk, freqs_cis):
    xq_ = torch.view_as_complex(xq.float().reshape(*xq.shape[:-1], -1, 2))
    xk_ = torch.view_as_complex(xk.float().reshape(*xk.shape[:-1], -1, 2))
    freqs_cis = freqs_cis.unsqueeze(-2)  # rows of one sequence or of each, the same for all heads
    xq_out = torch.view_as_real(xq_ * freqs_cis).flatten(3)
    xk_out = torch.view_as_real(xk_ * freqs_cis).flatten(3)
    return xq_out.type_as(xq), xk_out.type_as(xk)


class CausalSelfAttention(nn.Module):
    def __init__(self, d_model, num_heads, max_seq_len, theta=10000.0, num_kv_heads=None, *, device=None, dtype=None):
        super().__init__()
        num_kv_heads = num_heads if num_kv_heads is None else num_kv_heads
        if d_model % num_heads or num_heads % num_kv_heads:
            raise ValueError(f"{d_model=} must divide by {num_heads=}, and that by {num_kv_heads=}")
        self.n_rep, self.head_dim = num_heads // num_kv_heads, d_model // num_heads
        kind = {"bias": False, "device": device, "dtype": dtype}
        self.q_proj, self.o_proj = nn.Linear(d_model, d_model, **kind), nn.Linear(d_model, d_model, **kind)
        self.k_proj, self.v_proj = (nn.Linear(d_model, num_kv_heads * self.head_dim, **kind) for _ in range(2))
        self.freqs_cis = precompute_freqs_cis(self.head_dim, max_seq_len, theta)

    def forward(self, x, positions=None):
        bsz, seqlen, _ = x.shape
        self.freqs_cis = self.freqs_cis.to(x.device)
        freqs_cis = self.freqs_cis[:seqlen] if positions is None else self.freqs_cis[positions]
        xq, xk, xv = (p(x).view(bsz, seqlen, -1, self.head_dim) for p in (self.q_proj, self.k_proj, self.v_proj))
        xq, xk = apply_rotary_emb(xq, xk, freqs_cis)
        xq = xq.transpose(1, 2)
        keys, values = (t.repeat_interleave(self.n_rep, dim=2).transpose(1, 2) for t in (xk, xv))
        scores = torch.matmul(xq, keys.transpose(2, 3)) / math.sqrt(self.head_dim)
        mask = torch.triu(torch.full((seqlen, seqlen), float("-inf"), device=x.device), diagonal=1)
        scores = F.softmax((scores + mask.type_as(scores)).float(), dim=-1).type_as(xq)
        output = torch.matmul(scores, values).transpose(1, 2).contiguous().view(bsz, seqlen, -1)
        return self.o_proj(output)
