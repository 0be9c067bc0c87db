import torch
import torch.nn as nn
import torch.nn.functional as F


class SelfAttention(nn.Module):
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

    def forward(self, x, padding):
        b, s, d = x.shape
        q, k, v = (p(x).view(b, s, self.num_heads, -1).transpose(1, 2) for p in (self.q_proj, self.k_proj, self.v_proj))
        mask = None if padding is None else padding.view(b, 1, 1, s)
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=self.p if self.training else 0.0)
        return self.o_proj(out.transpose(1, 2).reshape(b, s, d))


class MLP(nn.Module):
    def __init__(self, d_model, d_ff, dropout, **factory):
        super().__init__()
        self.fc1 = nn.Linear(d_model, d_ff, **factory)
        self.fc2 = nn.Linear(d_ff, d_model, **factory)
        self.drop = nn.Dropout(dropout)

    def forward(self, x):
        return self.fc2(self.drop(F.gelu(self.fc1(x))))


class Layer(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, dropout=0.0, eps=1e-12, *, device=None, dtype=None):
        super().__init__()
        factory = {"device": device, "dtype": dtype}
        self.self_attn = SelfAttention(d_model, num_heads, dropout, **factory)
        self.ffn = MLP(d_model, d_ff, dropout, **factory)
        self.attn_norm = nn.LayerNorm(d_model, eps=eps, **factory)
        self.ffn_norm = nn.LayerNorm(d_model, eps=eps, **factory)
        self.drop1 = nn.Dropout(dropout)
        self.drop2 = nn.Dropout(dropout)

    def forward(self, x, padding=None):
        x = self.attn_norm(x + self.drop1(self.self_attn(x, padding)))
        return self.ffn_norm(x + self.drop2(self.ffn(x)))


class TransformerEncoder(nn.Module):
    def __init__(
        self, vocab_size, d_model, num_layers, num_heads, d_ff, max_len, dropout=0.0, *, device=None, dtype=None
    ):
        super().__init__()
        factory = {"device": device, "dtype": dtype}
        self.token_embedding = nn.Embedding(vocab_size, d_model, **factory)
        self.position_embedding = nn.Embedding(max_len, d_model, **factory)
        self.embedding_norm = nn.LayerNorm(d_model, eps=1e-12, **factory)
        self.layers = nn.ModuleList([Layer(d_model, num_heads, d_ff, dropout, **factory) for _ in range(num_layers)])
        self.drop = nn.Dropout(dropout)

    def forward(self, token_ids, padding=None):
        n = token_ids.size(1)
        if n > self.position_embedding.num_embeddings:
            raise ValueError(f"sequence length {n} exceeds max_len {self.position_embedding.num_embeddings}")
        positions = torch.arange(n, device=token_ids.device).expand_as(token_ids)
        x = self.drop(self.embedding_norm(self.token_embedding(token_ids) + self.position_embedding(positions)))
        for layer in self.layers:
            x = layer(x, padding)
        return x
