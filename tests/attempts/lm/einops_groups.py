"""Groups of queries by einops, rotation by reshaping to pairs, a stack built by a dict of options."""

import torch
from einops import einsum, rearrange
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
    def __init__(self, d_model, num_heads, num_kv_heads, **kind):
        super().__init__()
        self.g, size = num_kv_heads, d_model // num_heads
        self.r = num_heads // num_kv_heads
        self.q_proj = nn.Linear(d_model, num_heads * size, bias=False, **kind)
        self.k_proj = nn.Linear(d_model, num_kv_heads * size, bias=False, **kind)
        self.v_proj = nn.Linear(d_model, num_kv_heads * size, bias=False, **kind)
        self.o_proj = nn.Linear(num_heads * size, d_model, bias=False, **kind)

    def forward(self, x, turn, causal):
        work = turn.dtype
        q = rearrange(self.q_proj(x), "b t (g r d) -> b g r t d", g=self.g, r=self.r).to(work)
        k = rearrange(self.k_proj(x), "b t (g d) -> b g 1 t d", g=self.g).to(work)
        v = rearrange(self.v_proj(x), "b t (g d) -> b g t d", g=self.g).to(work)
        q, k = (einsum(turn, pairs(z), "t p i j, b g r t p j -> b g r t p i").flatten(-2) for z in (q, k))
        scores = einsum(q, k[:, :, 0], "b g r t d, b g s d -> b g r t s") * q.shape[-1] ** -0.5
        weights = scores.masked_fill(~causal, -torch.inf).softmax(-1)
        out = einsum(weights, v, "b g r t s, b g s d -> b g r t d")
        return self.o_proj(rearrange(out, "b g r t d -> b t (g r d)").to(x.dtype))


def pairs(x):
    return x.unflatten(-1, (-1, 2))


class Layer(nn.Module):
    def __init__(self, d_model, num_heads, num_kv_heads, d_ff, eps, **kind):
        super().__init__()
        self.attn_norm, self.ffn_norm = (RMSNorm(d_model, eps, **kind) for _ in range(2))
        self.attn = Attention(d_model, num_heads, num_kv_heads, **kind)
        self.ffn = SwiGLU(d_model, d_ff, **kind)

    def forward(self, x, turn, causal):
        x = x + self.attn(self.attn_norm(x), turn, causal)
        return x + self.ffn(self.ffn_norm(x))


class TransformerLM(nn.Module):
    def __init__(
        self,
        vocab_size,
        d_model,
        num_layers,
        num_heads,
        d_ff,
        max_seq_len,
        num_kv_heads=None,
        theta=10000.0,
        eps=1e-5,
        *,
        device=None,
        dtype=None,
    ):
        super().__init__()
        kind = {"device": device, "dtype": dtype}
        options = (d_model, num_heads, num_kv_heads or num_heads, d_ff, eps)
        self.token_embedding = nn.Embedding(vocab_size, d_model, **kind)
        self.layers = nn.ModuleList(Layer(*options, **kind) for _ in range(num_layers))
        self.final_norm = RMSNorm(d_model, eps, **kind)
        self.lm_head = nn.Linear(d_model, vocab_size, bias=False, **kind)
        size = d_model // num_heads
        angle = torch.outer(torch.arange(max_seq_len).double(), theta ** -(torch.arange(0, size, 2).double() / size))
        cos, sin = angle.cos(), angle.sin()
        self.turns = rearrange([cos, -sin, sin, cos], "(i j) t p -> t p i j", i=2)

    def forward(self, token_ids):
        seq = token_ids.shape[1]
        if seq > len(self.turns):
            raise ValueError(f"sequence length {seq} exceeds max_seq_len {len(self.turns)}")
        x = self.token_embedding(token_ids)
        turn = self.turns[:seq].to(x.device, torch.promote_types(x.dtype, torch.float32))
        causal = torch.ones(seq, seq, dtype=torch.bool, device=x.device).tril()
        for layer in self.layers:
            x = layer(x, turn, causal)
        return self.lm_head(self.final_norm(x))
