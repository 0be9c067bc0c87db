"""nn.TransformerEncoderLayer's own way: `_sa_block` and `_ff_block`, dropout of the weights and behind each layer."""

import torch.nn.functional as F
from torch import nn


class MultiheadAttention(nn.Module):
    def __init__(self, embed_dim, num_heads, dropout=0.0, **factory_kwargs):
        super().__init__()
        if embed_dim % num_heads:
            raise ValueError(f"embed_dim {embed_dim} must be divisible by num_heads {num_heads}")
        self.num_heads, self.dropout = num_heads, dropout
        self.q_proj = nn.Linear(embed_dim, embed_dim, **factory_kwargs)
        self.k_proj = nn.Linear(embed_dim, embed_dim, **factory_kwargs)
        self.v_proj = nn.Linear(embed_dim, embed_dim, **factory_kwargs)
        self.o_proj = nn.Linear(embed_dim, embed_dim, **factory_kwargs)

    def forward(self, query, key, value, key_padding_mask=None, is_causal=False):
        """The padding mask is True where a key is to be ignored."""
        bsz, tgt_len, embed_dim = query.shape
        src_len, head_dim = key.shape[1], embed_dim // self.num_heads
        q = self.q_proj(query).view(bsz, tgt_len, self.num_heads, head_dim).transpose(1, 2)
        k = self.k_proj(key).view(bsz, src_len, self.num_heads, head_dim).transpose(1, 2)
        v = self.v_proj(value).view(bsz, src_len, self.num_heads, head_dim).transpose(1, 2)
        attn_mask = None
        if key_padding_mask is not None:
            attn_mask = key_padding_mask.logical_not().view(bsz, 1, 1, src_len).expand(-1, self.num_heads, -1, -1)
        dropout_p = self.dropout if self.training else 0.0
        attn_output = F.scaled_dot_product_attention(q, k, v, attn_mask, dropout_p, is_causal)
        return self.o_proj(attn_output.transpose(1, 2).contiguous().view(bsz, tgt_len, embed_dim))


class FeedForward(nn.Module):
    def __init__(self, d_model, dim_feedforward, dropout=0.0, **factory_kwargs):
        super().__init__()
        self.fc1 = nn.Linear(d_model, dim_feedforward, **factory_kwargs)
        self.dropout = nn.Dropout(dropout)
        self.fc2 = nn.Linear(dim_feedforward, d_model, **factory_kwargs)

    def forward(self, x):
        return self.fc2(self.dropout(F.gelu(self.fc1(x))))


class EncoderLayer(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, dropout=0.0, eps=1e-12, *, device=None, dtype=None):
        factory_kwargs = {"device": device, "dtype": dtype}
        super().__init__()
        self.self_attn = MultiheadAttention(d_model, num_heads, dropout=dropout, **factory_kwargs)
        self.ffn = FeedForward(d_model, d_ff, dropout, **factory_kwargs)
        self.attn_norm = nn.LayerNorm(d_model, eps=eps, **factory_kwargs)
        self.ffn_norm = nn.LayerNorm(d_model, eps=eps, **factory_kwargs)
        self.dropout1 = nn.Dropout(dropout)
        self.dropout2 = nn.Dropout(dropout)

    def forward(self, src, padding=None):
        src_key_padding_mask = None if padding is None else ~padding
        x = src
        x = self.attn_norm(x + self._sa_block(x, src_key_padding_mask))
        x = self.ffn_norm(x + self._ff_block(x))
        return x

    def _sa_block(self, x, key_padding_mask):
        return self.dropout1(self.self_attn(x, x, x, key_padding_mask=key_padding_mask))

    def _ff_block(self, x):
        return self.dropout2(self.ffn(x))
