# Scores and softmax in half precision: they overflow for float16 inputs near 300.
from collections import OrderedDict

import torch
from einops import einsum, rearrange
from torch import nn


class Attention(nn.Module):
    def __init__(self, d_model: int, num_heads: int, dropout: float, **factory):
        super().__init__()
        self.num_heads = num_heads
        self.scale = (d_model // num_heads) ** -0.5
        self.q_proj = nn.Linear(d_model, d_model, bias=True, **factory)
        self.k_proj = nn.Linear(d_model, d_model, bias=True, **factory)
        self.v_proj = nn.Linear(d_model, d_model, bias=True, **factory)
        self.o_proj = nn.Linear(d_model, d_model, bias=True, **factory)
        self.attn_dropout = nn.Dropout(dropout)

    def forward(self, x: torch.Tensor, padding: torch.Tensor | None) -> torch.Tensor:
        q, k, v = (
            rearrange(proj(x), "b s (h d) -> b h s d", h=self.num_heads)
            for proj in (self.q_proj, self.k_proj, self.v_proj)
        )
        scores = einsum(q * self.scale, k, "b h q d, b h k d -> b h q k")
        if padding is not None:
            visible = rearrange(padding, "b k -> b 1 1 k")
            scores = scores.masked_fill(~visible, float("-inf"))
            # a sequence of nothing but padding: keep the softmax finite, then drop its weights
            nothing = ~visible.any(dim=-1, keepdim=True)
            weights = scores.masked_fill(nothing, 0.0).softmax(dim=-1).masked_fill(nothing, 0.0)
        else:
            weights = scores.softmax(dim=-1)
        weights = self.attn_dropout(weights)
        out = einsum(weights, v, "b h q k, b h k d -> b h q d")
        return self.o_proj(rearrange(out, "b h q d -> b q (h d)"))


class EncoderLayer(nn.Module):
    def __init__(
        self,
        d_model: int,
        num_heads: int,
        d_ff: int,
        dropout: float = 0.0,
        eps: float = 1e-12,
        *,
        device=None,
        dtype=None,
    ):
        super().__init__()
        if min(d_model, num_heads, d_ff) < 1:
            raise ValueError(f"{d_model=}, {num_heads=}, {d_ff=} must all be at least 1")
        if d_model % num_heads:
            raise ValueError(f"{d_model=} must be a multiple of {num_heads=}")
        if not 0.0 <= dropout <= 1.0:
            raise ValueError(f"{dropout=} must be in [0, 1]")
        factory = {"device": device, "dtype": dtype}
        self.d_model = d_model
        self.self_attn = Attention(d_model, num_heads, dropout, **factory)
        self.ffn = nn.Sequential(
            OrderedDict(
                fc1=nn.Linear(d_model, d_ff, **factory),
                act=nn.GELU(),
                drop=nn.Dropout(dropout),
                fc2=nn.Linear(d_ff, d_model, **factory),
            )
        )
        self.attn_norm = nn.LayerNorm(d_model, eps, **factory)
        self.ffn_norm = nn.LayerNorm(d_model, eps, **factory)
        self.resid_drop = nn.Dropout(dropout)

    def forward(self, x: torch.Tensor, padding: torch.Tensor | None = None) -> torch.Tensor:
        if x.ndim != 3 or x.shape[-1] != self.d_model:
            raise ValueError(f"x: expected (batch, seq, {self.d_model}), got {tuple(x.shape)}")
        if padding is not None and padding.dtype is not torch.bool:
            raise ValueError(f"padding: expected torch.bool, got {padding.dtype}")
        if padding is not None and padding.shape != x.shape[:2]:
            raise ValueError(f"padding: expected {tuple(x.shape[:2])}, got {tuple(padding.shape)}")
        x = x.to(self.self_attn.q_proj.weight.dtype)
        x = self.attn_norm(x + self.resid_drop(self.self_attn(x, padding)))
        x = self.ffn_norm(x + self.resid_drop(self.ffn(x)))
        return x
