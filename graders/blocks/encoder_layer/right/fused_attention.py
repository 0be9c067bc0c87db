"""Object style out of the library: its attention, its norm, its activation."""

import torch.nn as nn
import torch.nn.functional as F

# with feedforward/gelu_ffn/object_style


class Attention(nn.Module):
    def __init__(self, d_model, num_heads, dropout, **factory):
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"embedding of {d_model} cannot be split into {num_heads} heads")
        self.num_heads, self.p = num_heads, dropout
        self.q_proj = nn.Linear(d_model, d_model, **factory)
        self.k_proj = nn.Linear(d_model, d_model, **factory)
        self.v_proj = nn.Linear(d_model, d_model, **factory)
        self.o_proj = nn.Linear(d_model, d_model, **factory)

    def forward(self, x, source, padding=None, causal=False):
        split = lambda t: t.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        q, k, v = split(self.q_proj(x)), split(self.k_proj(source)), split(self.v_proj(source))
        mask = None if padding is None else padding[:, None, None]
        p = self.p if self.training else 0.0
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=p, is_causal=causal)
        return self.o_proj(out.transpose(1, 2).reshape(x.shape))


class EncoderLayer(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, dropout=0.0, eps=1e-12, *, device=None, dtype=None):
        super().__init__()
        factory = {"device": device, "dtype": dtype}
        self.self_attn = Attention(d_model, num_heads, dropout, **factory)
        self.ffn = FeedForward(d_model, d_ff, dropout, **factory)
        self.attn_norm = nn.LayerNorm(d_model, eps=eps, **factory)
        self.ffn_norm = nn.LayerNorm(d_model, eps=eps, **factory)
        self.drop1, self.drop2 = nn.Dropout(dropout), nn.Dropout(dropout)

    def forward(self, x, padding=None):
        x = self.attn_norm(x + self.drop1(self.self_attn(x, x, padding)))
        return self.ffn_norm(x + self.drop2(self.ffn(x)))
