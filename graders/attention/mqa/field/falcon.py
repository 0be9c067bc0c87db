"""In the style of Falcon: one key head beside many query heads, an additive mask, softmax in float32 on the way."""

import math

import torch
import torch.nn.functional as F
from torch import nn


class MultiQueryAttention(nn.Module):
    def __init__(self, d_model, num_heads, *, device=None, dtype=None):
        super().__init__()
        self.num_heads, self.head_dim = num_heads, d_model // num_heads
        if self.head_dim * num_heads != d_model:
            raise ValueError(f"`d_model` must be divisible by num_heads (got {d_model} and {num_heads}).")
        self.inv_norm_factor = 1.0 / math.sqrt(self.head_dim)
        kind = {"bias": False, "device": device, "dtype": dtype}
        self.q_proj = nn.Linear(d_model, d_model, **kind)
        self.k_proj = nn.Linear(d_model, self.head_dim, **kind)
        self.v_proj = nn.Linear(d_model, self.head_dim, **kind)
        self.o_proj = nn.Linear(d_model, d_model, **kind)

    def forward(self, hidden_states, mask=None):
        batch_size, query_length, _ = hidden_states.shape
        query_layer = self.q_proj(hidden_states).view(batch_size, query_length, self.num_heads, self.head_dim)
        query_layer = query_layer.transpose(1, 2)
        key_layer = self.k_proj(hidden_states).view(batch_size, 1, query_length, self.head_dim)
        value_layer = self.v_proj(hidden_states).view(batch_size, 1, query_length, self.head_dim)
        attention_scores = query_layer @ key_layer.transpose(-1, -2)
        attention_scores = attention_scores * self.inv_norm_factor
        if mask is not None:
            lowest = torch.finfo(attention_scores.dtype).min
            attention_scores = attention_scores + (~mask).to(attention_scores.dtype) * lowest
        attention_probs = F.softmax(attention_scores, dim=-1, dtype=torch.float32).to(hidden_states.dtype)
        attn_output = (attention_probs @ value_layer).permute(0, 2, 1, 3)
        return self.o_proj(attn_output.reshape(batch_size, query_length, self.num_heads * self.head_dim))
