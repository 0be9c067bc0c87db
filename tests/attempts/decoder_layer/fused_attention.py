import torch.nn as nn
import torch.nn.functional as F


class Attention(nn.Module):
    def __init__(self, d_model, num_heads, dropout, **factory):
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"embedding of {d_model} cannot be split into {num_heads} heads")
        self.num_heads = num_heads
        self.p = dropout
        self.q_proj = nn.Linear(d_model, d_model, **factory)
        self.k_proj = nn.Linear(d_model, d_model, **factory)
        self.v_proj = nn.Linear(d_model, d_model, **factory)
        self.o_proj = nn.Linear(d_model, d_model, **factory)

    def forward(self, x, source=None, padding=None):
        b, s, d = x.shape
        causal = source is None
        source = x if causal else source
        split = lambda t: t.view(b, t.shape[1], self.num_heads, -1).transpose(1, 2)
        q, k, v = split(self.q_proj(x)), split(self.k_proj(source)), split(self.v_proj(source))
        mask = None if padding is None else padding[:, None, None]
        p = self.p if self.training else 0.0
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=p, is_causal=causal)
        return self.o_proj(out.transpose(1, 2).reshape(b, s, d))


class MLP(nn.Module):
    def __init__(self, d_model, d_ff, dropout, **factory):
        super().__init__()
        self.fc1 = nn.Linear(d_model, d_ff, **factory)
        self.fc2 = nn.Linear(d_ff, d_model, **factory)
        self.drop = nn.Dropout(dropout)

    def forward(self, x):
        return self.fc2(self.drop(F.gelu(self.fc1(x))))


class DecoderLayer(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, dropout=0.0, eps=1e-12, *, device=None, dtype=None):
        super().__init__()
        factory = {"device": device, "dtype": dtype}
        self.self_attn = Attention(d_model, num_heads, dropout, **factory)
        self.cross_attn = Attention(d_model, num_heads, dropout, **factory)
        self.ffn = MLP(d_model, d_ff, dropout, **factory)
        self.self_attn_norm = nn.LayerNorm(d_model, eps=eps, **factory)
        self.cross_attn_norm = nn.LayerNorm(d_model, eps=eps, **factory)
        self.ffn_norm = nn.LayerNorm(d_model, eps=eps, **factory)
        self.drop = nn.Dropout(dropout)

    def forward(self, x, memory, memory_padding=None):
        x = self.self_attn_norm(x + self.drop(self.self_attn(x)))
        x = self.cross_attn_norm(x + self.drop(self.cross_attn(x, memory, memory_padding)))
        return self.ffn_norm(x + self.drop(self.ffn(x)))
