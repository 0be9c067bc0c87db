"""In the style of GPT-BigCode: heads folded into the query axis, one product of all with the one key head."""

import torch
from torch import nn


class MultiQueryAttention(nn.Module):
    def __init__(self, d_model, num_heads, *, device=None, dtype=None):
        super().__init__()
        self.num_heads, self.head_dim = num_heads, d_model // num_heads
        if self.head_dim * num_heads != d_model:
            raise ValueError(f"`d_model` must be divisible by num_heads (got {d_model} and {num_heads}).")
        kind = {"bias": False, "device": device, "dtype": dtype}
        self.q_proj, self.o_proj = nn.Linear(d_model, d_model, **kind), nn.Linear(d_model, d_model, **kind)
        self.k_proj, self.v_proj = (nn.Linear(d_model, self.head_dim, **kind) for _ in range(2))

    def forward(self, hidden_states, mask=None):
        batch_size, length, _ = hidden_states.shape
        query = self.q_proj(hidden_states).reshape(batch_size, length * self.num_heads, self.head_dim)
        key, value = self.k_proj(hidden_states), self.v_proj(hidden_states)
        scores = torch.bmm(query * self.head_dim**-0.5, key.transpose(-1, -2))
        scores = scores.view(batch_size, length, self.num_heads, length)  # heads stand behind the queries
        if mask is not None:
            while mask.dim() < 4:
                mask = mask.unsqueeze(0)
            mask_value = torch.full([], torch.finfo(scores.dtype).min, dtype=scores.dtype, device=scores.device)
            scores = torch.where(mask.transpose(1, 2), scores, mask_value)
        weights = torch.softmax(scores, dim=-1, dtype=torch.float32).to(value.dtype)
        attn_output = torch.bmm(weights.view(batch_size, length * self.num_heads, length), value)
        return self.o_proj(attn_output.view(hidden_states.shape))
