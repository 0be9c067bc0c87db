# robust: Errors: nothing is refused. Nor is it absorbed: keys and values of the whole cache are made in every step.
"""As transformers' DeepSeek-V3 has it: keys and values of each head, the rope key expanded, eager attention."""

import torch
from torch import nn


class RMSNorm(nn.Module):
    def __init__(self, hidden_size, eps, **kind):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(hidden_size, **kind))
        self.variance_epsilon = eps

    def forward(self, hidden_states):
        input_dtype = hidden_states.dtype
        hidden_states = hidden_states.to(torch.promote_types(input_dtype, torch.float32))
        variance = hidden_states.pow(2).mean(-1, keepdim=True)
        hidden_states = hidden_states * torch.rsqrt(variance + self.variance_epsilon)
        return self.weight * hidden_states.to(input_dtype)


def rotate_half(x):
    x1, x2 = x[..., : x.shape[-1] // 2], x[..., x.shape[-1] // 2 :]
    return torch.cat((-x2, x1), dim=-1)


def apply_rotary_pos_emb_interleave(x, cos, sin):
    x = x.unflatten(-1, (-1, 2)).transpose(-1, -2).flatten(-2)
    x = x * cos + rotate_half(x) * sin
    return x.unflatten(-1, (2, -1)).transpose(-1, -2).flatten(-2)


class MultiHeadLatentAttention(nn.Module):
    def __init__(
        self, d_model, num_heads, kv_rank, nope_dim, rope_dim, v_dim, max_seq_len, theta=10000.0, eps=1e-6,
        *, device=None, dtype=None,
    ):  # fmt: skip
        super().__init__()
        kind = {"device": device, "dtype": dtype}
        self.num_heads, self.kv_lora_rank, self.v_head_dim = num_heads, kv_rank, v_dim
        self.qk_nope_head_dim, self.qk_rope_head_dim, self.theta = nope_dim, rope_dim, theta
        self.q_proj = nn.Linear(d_model, num_heads * (nope_dim + rope_dim), bias=False, **kind)
        self.kv_down = nn.Linear(d_model, kv_rank + rope_dim, bias=False, **kind)
        self.kv_norm = RMSNorm(kv_rank, eps, **kind)
        self.kv_up = nn.Linear(kv_rank, num_heads * (nope_dim + v_dim), bias=False, **kind)
        self.o_proj = nn.Linear(num_heads * v_dim, d_model, bias=False, **kind)
        self.scaling = (nope_dim + rope_dim) ** -0.5

    def decode(self, x, latents, rope_keys):
        batch_size, seq_length = x.shape[:-1]
        past = latents.shape[1]
        dim = self.qk_rope_head_dim
        inv_freq = 1.0 / (self.theta ** (torch.arange(0, dim, 2, device=x.device).float() / dim))
        freqs = torch.outer(torch.arange(past, past + seq_length, device=x.device).float(), inv_freq)
        emb = torch.cat((freqs, freqs), dim=-1)
        cos, sin = emb.cos().to(x.dtype), emb.sin().to(x.dtype)

        query_states = self.q_proj(x).view(batch_size, seq_length, self.num_heads, -1).transpose(1, 2)
        q_pass, q_rot = torch.split(query_states, [self.qk_nope_head_dim, dim], dim=-1)
        k_pass, k_rot = torch.split(self.kv_down(x), [self.kv_lora_rank, dim], dim=-1)
        latents = torch.cat([latents, self.kv_norm(k_pass)], dim=1)
        rope_keys = torch.cat([rope_keys, apply_rotary_pos_emb_interleave(k_rot, cos, sin)], dim=1)
        q_rot = apply_rotary_pos_emb_interleave(q_rot, cos, sin)

        kv = self.kv_up(latents).view(batch_size, past + seq_length, self.num_heads, -1).transpose(1, 2)
        k_pass, value_states = torch.split(kv, [self.qk_nope_head_dim, self.v_head_dim], dim=-1)
        k_rot = rope_keys[:, None].expand(*k_pass.shape[:-1], -1)
        query_states, key_states = torch.cat((q_pass, q_rot), dim=-1), torch.cat((k_pass, k_rot), dim=-1)
        attn_weights = torch.matmul(query_states, key_states.transpose(2, 3)) * self.scaling
        causal_mask = torch.full_like(attn_weights[0, 0], torch.finfo(x.dtype).min).triu(past + 1)
        attn_weights = attn_weights + causal_mask
        wide = torch.promote_types(x.dtype, torch.float32)
        attn_weights = nn.functional.softmax(attn_weights, dim=-1, dtype=wide).to(x.dtype)
        attn_output = torch.matmul(attn_weights, value_states).transpose(1, 2)
        return self.o_proj(attn_output.reshape(batch_size, seq_length, -1)), latents, rope_keys

    def forward(self, hidden_states):
        empty = hidden_states[:, :0]
        caches = (empty.new_empty(*empty.shape[:2], size) for size in (self.kv_lora_rank, self.qk_rope_head_dim))
        return self.decode(hidden_states, *caches)[0]
