"""Hugging Face's eager attention with groups: repeat_kv on the head axis, a mask of finfo.min, softmax in float32."""

import torch
from torch import nn


def repeat_kv(hidden_states, n_rep):
    batch, num_kv_heads, slen, head_dim = hidden_states.shape
    hidden_states = hidden_states[:, :, None, :, :].expand(batch, num_kv_heads, n_rep, slen, head_dim)
    return hidden_states.reshape(batch, num_kv_heads * n_rep, slen, head_dim)


class GroupedQueryAttention(nn.Module):
    def __init__(self, d_model, num_heads, num_kv_heads, *, device=None, dtype=None):
        super().__init__()
        if d_model % num_heads or num_heads % num_kv_heads:
            raise ValueError(f"{d_model} features, {num_heads} heads, {num_kv_heads} key heads")
        self.head_dim = d_model // num_heads
        self.num_key_value_groups = num_heads // num_kv_heads
        kind = {"bias": False, "device": device, "dtype": dtype}
        self.q_proj = nn.Linear(d_model, num_heads * self.head_dim, **kind)
        self.k_proj = nn.Linear(d_model, num_kv_heads * self.head_dim, **kind)
        self.v_proj = nn.Linear(d_model, num_kv_heads * self.head_dim, **kind)
        self.o_proj = nn.Linear(num_heads * self.head_dim, d_model, **kind)

    def forward(self, hidden_states, mask=None):
        input_shape = hidden_states.shape[:-1]
        query, key, value = (
            proj(hidden_states).view(*input_shape, -1, self.head_dim).transpose(1, 2)
            for proj in (self.q_proj, self.k_proj, self.v_proj)
        )
        key, value = repeat_kv(key, self.num_key_value_groups), repeat_kv(value, self.num_key_value_groups)
        attn_weights = torch.matmul(query, key.transpose(2, 3)) * self.head_dim**-0.5
        if mask is not None:
            attn_weights = torch.where(mask, attn_weights, torch.finfo(attn_weights.dtype).min)
        attn_weights = nn.functional.softmax(attn_weights, dim=-1, dtype=torch.float32).to(query.dtype)
        attn_output = torch.matmul(attn_weights, value).transpose(1, 2).contiguous()
        return self.o_proj(attn_output.reshape(*input_shape, -1))
