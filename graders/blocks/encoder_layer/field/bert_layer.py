# robust: Masked rows: a row of padding alone averages all values.
"""BERT's layer: the lowest number added to masked scores, dropout of the weights and behind each second layer."""

import math

import torch
from torch import nn


class BertSelfAttention(nn.Module):
    def __init__(self, hidden_size, num_attention_heads, dropout, **kw):
        super().__init__()
        if hidden_size % num_attention_heads != 0:
            raise ValueError(f"hidden size {hidden_size} is not a multiple of {num_attention_heads} attention heads")
        self.num_attention_heads = num_attention_heads
        self.attention_head_size = hidden_size // num_attention_heads
        for name in ("q_proj", "k_proj", "v_proj", "o_proj"):
            setattr(self, name, nn.Linear(hidden_size, hidden_size, **kw))
        self.dropout = nn.Dropout(dropout)

    def transpose_for_scores(self, x):
        return x.view(*x.shape[:-1], self.num_attention_heads, self.attention_head_size).permute(0, 2, 1, 3)

    def forward(self, hidden_states, attention_mask=None):
        query_layer = self.transpose_for_scores(self.q_proj(hidden_states))
        key_layer = self.transpose_for_scores(self.k_proj(hidden_states))
        value_layer = self.transpose_for_scores(self.v_proj(hidden_states))
        attention_scores = torch.matmul(query_layer, key_layer.transpose(-1, -2))
        attention_scores = attention_scores / math.sqrt(self.attention_head_size)
        if attention_mask is not None:
            attention_scores = attention_scores + attention_mask
        attention_probs = self.dropout(nn.functional.softmax(attention_scores, dim=-1))
        context_layer = torch.matmul(attention_probs, value_layer).permute(0, 2, 1, 3).contiguous()
        return self.o_proj(context_layer.view(hidden_states.shape))


class BertLayer(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, dropout=0.0, eps=1e-12, *, device=None, dtype=None):
        super().__init__()
        kw = {"device": device, "dtype": dtype}
        self.self_attn = BertSelfAttention(d_model, num_heads, dropout, **kw)
        self.ffn = nn.ModuleDict({"fc1": nn.Linear(d_model, d_ff, **kw), "fc2": nn.Linear(d_ff, d_model, **kw)})
        self.attn_norm = nn.LayerNorm(d_model, eps=eps, **kw)
        self.ffn_norm = nn.LayerNorm(d_model, eps=eps, **kw)
        self.dropout = nn.Dropout(dropout)

    def forward(self, hidden_states, extended_attention_mask=None):
        attention_output = self.dropout(self.self_attn(hidden_states, extended_attention_mask))
        attention_output = self.attn_norm(attention_output + hidden_states)
        intermediate_output = nn.functional.gelu(self.ffn["fc1"](attention_output))
        layer_output = self.dropout(self.ffn["fc2"](intermediate_output))
        return self.ffn_norm(layer_output + attention_output)


def get_extended_attention_mask(attention_mask, dtype):
    if attention_mask is None:
        return None
    return (1.0 - attention_mask[:, None, None, :].to(dtype)) * torch.finfo(dtype).min


class EncoderLayer(BertLayer):
    def forward(self, hidden_states, padding=None):
        return super().forward(hidden_states, get_extended_attention_mask(padding, hidden_states.dtype))
