import torch
import torch.nn.functional as F
from einops import rearrange
from torch import nn


class Layer(nn.Module):
    def __init__(self, d, h, f, p, **kw):
        super().__init__()
        self.h, self.p = h, p
        self.self_attn = nn.ModuleDict({f"{n}_proj": nn.Linear(d, d, **kw) for n in "qkvo"})
        self.ffn = nn.ModuleDict({"fc1": nn.Linear(d, f, **kw), "fc2": nn.Linear(f, d, **kw)})
        self.attn_norm, self.ffn_norm = nn.LayerNorm(d, 1e-12, **kw), nn.LayerNorm(d, 1e-12, **kw)

    def forward(self, x, keep):
        drop = lambda t: F.dropout(t, self.p, self.training)
        q, k, v = (
            rearrange(self.self_attn[n](x).float(), "b s (h d) -> b h s d", h=self.h)
            for n in ("q_proj", "k_proj", "v_proj")
        )
        s = q @ k.mT * q.shape[-1] ** -0.5
        w = s.masked_fill(~keep, -1e30).softmax(-1) * keep
        a = rearrange(w @ v, "b h s d -> b s (h d)").to(x.dtype)
        x = self.attn_norm(x + drop(self.self_attn["o_proj"](a)))
        return self.ffn_norm(x + self.ffn["fc2"](drop(F.gelu(self.ffn["fc1"](x)))))


class TransformerEncoder(nn.Module):
    def __init__(
        self, vocab_size, d_model, num_layers, num_heads, d_ff, max_len, dropout=0.0, *, device=None, dtype=None
    ):
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"{d_model=} % {num_heads=} != 0")
        kw = dict(device=device, dtype=dtype)
        self.token_embedding = nn.Embedding(vocab_size, d_model, **kw)
        self.position_embedding = nn.Embedding(max_len, d_model, **kw)
        self.embedding_norm = nn.LayerNorm(d_model, 1e-12, **kw)
        self.layers = nn.ModuleList(Layer(d_model, num_heads, d_ff, dropout, **kw) for _ in range(num_layers))

    def forward(self, token_ids, padding=None):
        n, pos = token_ids.shape[1], self.position_embedding.weight
        if n > len(pos):
            raise ValueError(f"seq {n} > max_len {len(pos)}")
        x = self.embedding_norm(self.token_embedding(token_ids) + pos[:n])
        keep = (torch.ones_like(token_ids, dtype=torch.bool) if padding is None else padding)[:, None, None]
        for layer in self.layers:
            x = layer(x, keep)
        return x
