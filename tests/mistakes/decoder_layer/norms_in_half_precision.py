# Norms in half precision: the squares of float16 values of 300 overflow, and an eps of 1e-12 is 0.
import math

import torch
from torch import Tensor, nn


class Dense(nn.Module):
    def __init__(self, fan_in, fan_out, device=None, dtype=None):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(fan_out, fan_in, device=device, dtype=dtype))
        self.bias = nn.Parameter(torch.empty(fan_out, device=device, dtype=dtype))
        nn.init.normal_(self.weight, std=fan_in**-0.5)
        nn.init.zeros_(self.bias)

    def wide(self, dtype) -> tuple[Tensor, Tensor]:
        return self.weight.to(dtype), self.bias.to(dtype)


class LayerNorm(nn.Module):
    def __init__(self, width, eps, device=None, dtype=None):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(width, device=device, dtype=dtype))
        self.bias = nn.Parameter(torch.zeros(width, device=device, dtype=dtype))

    def forward(self, x):
        wide, x = x.dtype, x.to(self.weight.dtype)
        mean = torch.einsum("...d->...", x)[..., None] / x.shape[-1]
        centred = x - mean
        var = torch.einsum("...d,...d->...", centred, centred)[..., None] / x.shape[-1]
        return (centred / (var + self.eps).sqrt() * self.weight + self.bias).to(wide)


class HeadwiseAttention(nn.Module):
    def __init__(self, d_model, num_heads, device=None, dtype=None):
        super().__init__()
        self.heads = num_heads
        self.q_proj = Dense(d_model, d_model, device, dtype)
        self.k_proj = Dense(d_model, d_model, device, dtype)
        self.v_proj = Dense(d_model, d_model, device, dtype)
        self.o_proj = Dense(d_model, d_model, device, dtype)

    def _project(self, dense, x):
        w, b = dense.wide(x.dtype)
        return torch.einsum("bsd,hed->bhse", x, w.unflatten(0, (self.heads, -1))) + b.reshape(self.heads, 1, -1)

    def forward(self, x, context, visible):
        q = self._project(self.q_proj, x)
        k = self._project(self.k_proj, context)
        v = self._project(self.v_proj, context)
        logits = torch.einsum("bhse,bhte->bhst", q, k) / math.sqrt(q.shape[-1])
        weights = _softmax(logits, visible)
        mixed = torch.einsum("bhst,bhte->bhse", weights, v)
        w, b = self.o_proj.wide(x.dtype)
        return torch.einsum("bhse,dhe->bsd", mixed, w.unflatten(1, (self.heads, -1))) + b


def _softmax(logits, visible):
    if visible is None:
        shifted = logits - logits.amax(-1, keepdim=True)
        e = shifted.exp()
        return e / e.sum(-1, keepdim=True)
    floor = torch.finfo(logits.dtype).min
    logits = torch.where(visible, logits, floor)
    e = (logits - logits.amax(-1, keepdim=True)).exp()
    e = torch.where(visible, e, 0.0)
    total = e.sum(-1, keepdim=True)
    return e / total.masked_fill(total == 0, 1.0)


class FeedForward(nn.Module):
    def __init__(self, d_model, d_ff, dropout=0.0, device=None, dtype=None):
        super().__init__()
        self.fc1 = Dense(d_model, d_ff, device, dtype)
        self.fc2 = Dense(d_ff, d_model, device, dtype)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        w1, b1 = self.fc1.wide(x.dtype)
        w2, b2 = self.fc2.wide(x.dtype)
        hidden = nn.functional.gelu(torch.einsum("bsd,fd->bsf", x, w1) + b1)
        return torch.einsum("bsf,df->bsd", self.dropout(hidden), w2) + b2


class DecoderLayer(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, dropout=0.0, eps=1e-12, *, device=None, dtype=None):
        super().__init__()
        for name, size in {"d_model": d_model, "num_heads": num_heads, "d_ff": d_ff}.items():
            if size < 1:
                raise ValueError(f"{name} must be positive, got {size}")
        if d_model % num_heads:
            raise ValueError(f"d_model {d_model} cannot be shared by num_heads {num_heads}")
        if not 0.0 <= dropout <= 1.0:
            raise ValueError(f"dropout must be within 0 and 1, got {dropout}")
        self.d_model = d_model
        self.self_attn = HeadwiseAttention(d_model, num_heads, device, dtype)
        self.cross_attn = HeadwiseAttention(d_model, num_heads, device, dtype)
        self.ffn = FeedForward(d_model, d_ff, dropout, device, dtype)
        self.self_attn_norm = LayerNorm(d_model, eps, device, dtype)
        self.cross_attn_norm = LayerNorm(d_model, eps, device, dtype)
        self.ffn_norm = LayerNorm(d_model, eps, device, dtype)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x, memory, memory_padding=None):
        for name, t in (("x", x), ("memory", memory)):
            if t.ndim != 3 or t.shape[-1] != self.d_model:
                raise ValueError(f"{name} must be (batch, length, {self.d_model}) but is {tuple(t.shape)}")
        if x.shape[0] != memory.shape[0]:
            raise ValueError(f"batch sizes differ: x has {x.shape[0]}, memory has {memory.shape[0]}")
        visible = None
        if memory_padding is not None:
            if memory_padding.dtype != torch.bool or memory_padding.shape != memory.shape[:2]:
                raise ValueError(
                    f"memory_padding must be torch.bool {tuple(memory.shape[:2])}, "
                    f"got {memory_padding.dtype} {tuple(memory_padding.shape)}"
                )
            visible = memory_padding[:, None, None, :]
        final = self.ffn_norm.weight.dtype
        wide = torch.promote_types(final, torch.float32)
        x, memory = x.to(wide), memory.to(wide)
        place = torch.arange(x.shape[1], device=x.device)
        causal = place[:, None] >= place
        x = self.self_attn_norm(x + self.dropout(self.self_attn(x, x, causal)))
        x = self.cross_attn_norm(x + self.dropout(self.cross_attn(x, memory, visible)))
        x = self.ffn_norm(x + self.dropout(self.ffn(x)))
        return x.to(final)
