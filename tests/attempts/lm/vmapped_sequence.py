"""A model of one sequence, run for the batch by vmap; keys repeated by expand, angles computed in every call."""

import torch
from torch import nn


class RMSNorm(nn.Module):
    def __init__(self, d_model, eps=1e-5, **kind):
        super().__init__()
        self.eps, self.weight = eps, nn.Parameter(torch.ones(d_model, **kind))

    def forward(self, x):
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        return (nn.functional.rms_norm(wide, wide.shape[-1:], eps=self.eps) * self.weight).to(x.dtype)


class SwiGLU(nn.Module):
    def __init__(self, d_model, d_ff, **kind):
        super().__init__()
        self.w1, self.w2, self.w3 = (
            nn.Linear(a, b, bias=False, **kind) for a, b in ((d_model, d_ff), (d_ff, d_model), (d_model, d_ff))
        )

    def forward(self, x):
        gate, up = self.w1(x), self.w3(x)
        return self.w2(gate * gate.sigmoid() * up)


class Attention(nn.Module):
    def __init__(self, d_model, num_heads, num_kv_heads, theta, **kind):
        super().__init__()
        self.size, self.theta = d_model // num_heads, theta
        self.heads, self.kv = num_heads, num_kv_heads
        for name, count in (("q", num_heads), ("k", num_kv_heads), ("v", num_kv_heads)):
            setattr(self, f"{name}_proj", nn.Linear(d_model, count * self.size, bias=False, **kind))
        self.o_proj = nn.Linear(d_model, d_model, bias=False, **kind)

    def turn(self, x):
        rate = torch.arange(0, self.size, 2, device=x.device, dtype=torch.float64) / self.size
        angle = torch.arange(x.shape[-2], device=x.device, dtype=torch.float64)[:, None] * self.theta**-rate
        cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
        a, b = x.unflatten(-1, (-1, 2)).unbind(-1)
        return torch.stack([a * cos - b * sin, a * sin + b * cos], -1).flatten(-2)

    def forward(self, x):
        seq, work = x.shape[0], torch.promote_types(x.dtype, torch.float32)
        q, k, v = (
            p(x).unflatten(-1, (-1, self.size)).transpose(0, 1).to(work)
            for p in (self.q_proj, self.k_proj, self.v_proj)
        )
        each = self.heads // self.kv
        k, v = (t[:, None].expand(-1, each, -1, -1).flatten(0, 1) for t in (self.turn(k), v))
        scores = torch.bmm(self.turn(q), k.mT) / self.size**0.5
        later = torch.arange(seq, device=x.device)[:, None] < torch.arange(seq, device=x.device)
        weights = torch.softmax(scores.masked_fill(later, torch.finfo(work).min), -1)
        return self.o_proj(torch.bmm(weights, v).transpose(0, 1).flatten(1).to(x.dtype))


class Layer(nn.Module):
    def __init__(self, d_model, num_heads, num_kv_heads, d_ff, theta, eps, **kind):
        super().__init__()
        self.attn_norm = RMSNorm(d_model, eps, **kind)
        self.attn = Attention(d_model, num_heads, num_kv_heads, theta, **kind)
        self.ffn_norm = RMSNorm(d_model, eps, **kind)
        self.ffn = SwiGLU(d_model, d_ff, **kind)

    def forward(self, x):
        x = x + self.attn(self.attn_norm(x))
        return x + self.ffn(self.ffn_norm(x))


class TransformerLM(nn.Module):
    def __init__(
        self,
        vocab_size: int,
        d_model: int,
        num_layers: int,
        num_heads: int,
        d_ff: int,
        max_seq_len: int,
        num_kv_heads: int | None = None,
        theta: float = 10000.0,
        eps: float = 1e-5,
        *,
        device=None,
        dtype=None,
    ):
        super().__init__()
        kind = {"device": device, "dtype": dtype}
        kv = num_heads if num_kv_heads is None else num_kv_heads
        self.max_seq_len = max_seq_len
        self.token_embedding = nn.Embedding(vocab_size, d_model, **kind)
        self.layers = nn.Sequential(
            *(Layer(d_model, num_heads, kv, d_ff, theta, eps, **kind) for _ in range(num_layers))
        )
        self.final_norm = RMSNorm(d_model, eps, **kind)
        self.lm_head = nn.Linear(d_model, vocab_size, bias=False, **kind)

    def forward(self, token_ids):
        if token_ids.shape[-1] > self.max_seq_len:
            raise ValueError(f"{token_ids.shape[-1]} tokens, at most {self.max_seq_len}")
        one = lambda x: self.lm_head(self.final_norm(self.layers(x)))
        return torch.vmap(one)(self.token_embedding(token_ids))
