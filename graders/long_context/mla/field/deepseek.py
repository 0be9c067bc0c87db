# robust: Errors: nothing is refused; a slice of the table comes out too short.
"""In the style of DeepSeek's inference code: complex RoPE, einsum, and absorbed attention in both ways of calling it."""

import torch
import torch.nn.functional as F
from torch import nn


def precompute_freqs_cis(dim, seqlen, base):
    freqs = 1.0 / (base ** (torch.arange(0, dim, 2, dtype=torch.float32) / dim))
    freqs = torch.outer(torch.arange(seqlen, dtype=torch.float32), freqs)
    return torch.polar(torch.ones_like(freqs), freqs)


def apply_rotary_emb(x, freqs_cis):
    dtype = x.dtype
    x = torch.view_as_complex(x.to(torch.promote_types(dtype, torch.float32)).reshape(*x.shape[:-1], -1, 2))
    freqs_cis = freqs_cis.view(1, x.size(1), 1, x.size(-1)).to(x.dtype)
    return torch.view_as_real(x * freqs_cis).flatten(3).to(dtype)


class MultiHeadLatentAttention(nn.Module):
    def __init__(
        self, d_model, num_heads, kv_rank, nope_dim, rope_dim, v_dim, max_seq_len, theta=10000.0, eps=1e-6,
        *, device=None, dtype=None,
    ):  # fmt: skip
        super().__init__()
        kind = {"bias": False, "device": device, "dtype": dtype}
        self.n_heads, self.rank, self.nope, self.rope, self.v_dim = num_heads, kv_rank, nope_dim, rope_dim, v_dim
        self.table = rope_dim, max_seq_len, theta
        self.eps = eps
        self.q_proj = nn.Linear(d_model, num_heads * (nope_dim + rope_dim), **kind)
        self.kv_down = nn.Linear(d_model, kv_rank + rope_dim, **kind)
        self.kv_norm = nn.RMSNorm(kv_rank, eps=eps, device=device, dtype=dtype)
        self.kv_up = nn.Linear(kv_rank, num_heads * (nope_dim + v_dim), **kind)
        self.o_proj = nn.Linear(num_heads * v_dim, d_model, **kind)
        self.softmax_scale = (nope_dim + rope_dim) ** -0.5

    def decode(self, x, latents, rope_keys):
        bsz, seqlen, _ = x.size()
        start_pos = latents.size(1)
        freqs_cis = precompute_freqs_cis(*self.table).to(x.device)[start_pos : start_pos + seqlen]
        q = self.q_proj(x).view(bsz, seqlen, self.n_heads, self.nope + self.rope)
        q_nope, q_pe = torch.split(q, [self.nope, self.rope], dim=-1)
        q_pe = apply_rotary_emb(q_pe, freqs_cis)
        kv, k_pe = torch.split(self.kv_down(x), [self.rank, self.rope], dim=-1)
        kv_cache = torch.cat([latents, self.kv_norm(kv)], dim=1)
        pe_cache = torch.cat([rope_keys, apply_rotary_emb(k_pe.unsqueeze(2), freqs_cis).squeeze(2)], dim=1)
        wkv_b = self.kv_up.weight.view(self.n_heads, -1, self.rank)
        q_nope = torch.einsum("bshd,hdc->bshc", q_nope, wkv_b[:, : self.nope])
        scores = torch.einsum("bshc,btc->bsht", q_nope, kv_cache) + torch.einsum("bshr,btr->bsht", q_pe, pe_cache)
        scores = scores * self.softmax_scale
        mask = torch.full((seqlen, start_pos + seqlen), float("-inf"), device=x.device).triu_(start_pos + 1)
        scores = F.softmax(scores + mask.unsqueeze(1), dim=-1, dtype=torch.promote_types(x.dtype, torch.float32))
        x = torch.einsum("bsht,btc->bshc", scores.type_as(x), kv_cache)
        x = torch.einsum("bshc,hdc->bshd", x, wkv_b[:, -self.v_dim :])
        return self.o_proj(x.flatten(2)), kv_cache, pe_cache

    def forward(self, x):
        bsz = x.size(0)
        return self.decode(x, x.new_empty(bsz, 0, self.rank), x.new_empty(bsz, 0, self.rope))[0]
