# robust: Masked rows: where all of the memory is padding its values are averaged.
"""Marian in Hugging Face: scores of all heads by `bmm`, masks of the lowest number, dropout in the activations too."""

import torch
from torch import nn


class MarianAttention(nn.Module):
    def __init__(self, embed_dim, num_heads, dropout=0.0, **kw):
        super().__init__()
        self.num_heads, self.dropout, self.head_dim = num_heads, dropout, embed_dim // num_heads
        if self.head_dim * num_heads != embed_dim:
            raise ValueError(f"embed_dim must be divisible by num_heads (got {embed_dim} and {num_heads}).")
        self.scaling = self.head_dim**-0.5
        for name in ("k_proj", "v_proj", "q_proj", "o_proj"):
            setattr(self, name, nn.Linear(embed_dim, embed_dim, **kw))

    def _shape(self, tensor):
        return tensor.view(tensor.size(0), -1, self.num_heads, self.head_dim).transpose(1, 2).flatten(0, 1)

    def forward(self, hidden_states, key_value_states=None, attention_mask=None):
        current_states = hidden_states if key_value_states is None else key_value_states
        query_states = self._shape(self.q_proj(hidden_states) * self.scaling)
        key_states, value_states = self._shape(self.k_proj(current_states)), self._shape(self.v_proj(current_states))
        attn_weights = torch.bmm(query_states, key_states.transpose(1, 2)).unflatten(0, (-1, self.num_heads))
        if attention_mask is not None:
            attn_weights = attn_weights + attention_mask
        attn_weights = nn.functional.softmax(attn_weights, dim=-1).flatten(0, 1)
        attn_probs = nn.functional.dropout(attn_weights, p=self.dropout, training=self.training)
        attn_output = torch.bmm(attn_probs, value_states).unflatten(0, (-1, self.num_heads))
        return self.o_proj(attn_output.transpose(1, 2).flatten(2))


def inverted_mask(mask, like):
    if mask is None:
        return None
    return torch.zeros(mask.shape, dtype=like.dtype, device=like.device).masked_fill(~mask, torch.finfo(like.dtype).min)


class MarianLayer(nn.Module):
    attentions, norms = ("self_attn", "cross_attn"), ("self_attn_norm", "cross_attn_norm", "ffn_norm")

    def __init__(self, d_model, num_heads, d_ff, dropout=0.0, eps=1e-12, *, device=None, dtype=None):
        super().__init__()
        self.dropout, kw = dropout, {"device": device, "dtype": dtype}
        for name in self.attentions:
            setattr(self, name, MarianAttention(d_model, num_heads, dropout, **kw))
        for name in self.norms:
            setattr(self, name, nn.LayerNorm(d_model, eps, **kw))
        self.ffn = nn.ModuleDict({"fc1": nn.Linear(d_model, d_ff, **kw), "fc2": nn.Linear(d_ff, d_model, **kw)})

    def add(self, residual, hidden_states, norm):
        hidden_states = nn.functional.dropout(hidden_states, p=self.dropout, training=self.training)
        return norm(residual + hidden_states)

    def feed_forward(self, hidden_states):
        inner = nn.functional.gelu(self.ffn["fc1"](hidden_states))
        inner = nn.functional.dropout(inner, p=self.dropout, training=self.training)
        return self.add(hidden_states, self.ffn["fc2"](inner), self.ffn_norm)


class DecoderLayer(MarianLayer):
    def forward(self, hidden_states, encoder_hidden_states, memory_padding=None):
        x, memory = hidden_states, encoder_hidden_states
        causal = torch.ones(x.size(1), x.size(1), dtype=torch.bool, device=x.device).tril()
        seen = None if memory_padding is None else memory_padding[:, None, None, :]
        x = self.add(x, self.self_attn(x, attention_mask=inverted_mask(causal, x)), self.self_attn_norm)
        x = self.add(x, self.cross_attn(x, memory, inverted_mask(seen, x)), self.cross_attn_norm)
        return self.feed_forward(x)
