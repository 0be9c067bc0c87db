"""RoPE by plain float64 tables, copied once per device; no more tokens than max_seq_len, whatever their positions."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class _Rotary:
    def __init__(self, head_dim: int, max_seq_len: int, theta: float) -> None:
        exponent = torch.arange(0, head_dim, 2, dtype=torch.float64, device="cpu") / head_dim
        angle = torch.outer(torch.arange(max_seq_len, dtype=torch.float64, device="cpu"), theta**-exponent)
        self._tables = {torch.device("cpu"): (angle.cos(), angle.sin())}

    def tables(self, device: torch.device) -> tuple[Tensor, Tensor]:
        if device not in self._tables:
            cos, sin = self._tables[torch.device("cpu")]
            self._tables[device] = (cos.to(device), sin.to(device))
        return self._tables[device]


def _turn(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    even, odd = x[..., 0::2], x[..., 1::2]
    return torch.stack((even * cos - odd * sin, even * sin + odd * cos), dim=-1).flatten(-2)


class CausalSelfAttention(nn.Module):
    def __init__(self, d_model, num_heads, max_seq_len, theta=10000.0, num_kv_heads=None, *, device=None, dtype=None):
        super().__init__()
        num_kv_heads = num_heads if num_kv_heads is None else num_kv_heads
        if d_model < 1 or num_heads < 1 or d_model % num_heads:
            raise ValueError(f"d_model={d_model} is not a positive multiple of num_heads={num_heads}")
        if num_kv_heads < 1 or num_heads % num_kv_heads:
            raise ValueError(f"num_heads={num_heads} is not a positive multiple of num_kv_heads={num_kv_heads}")
        self.d_model, self.head_dim, self.max_seq_len = d_model, d_model // num_heads, max_seq_len
        if self.head_dim % 2:
            raise ValueError(f"RoPE needs an even head_dim, got {d_model} // {num_heads} = {self.head_dim}")
        for name, heads in (("q", num_heads), ("k", num_kv_heads), ("v", num_kv_heads), ("o", num_heads)):
            linear = nn.Linear(d_model, heads * self.head_dim, bias=False, device=device, dtype=dtype)
            self.add_module(f"{name}_proj", linear)
        self.rotary = _Rotary(self.head_dim, max_seq_len, theta)

    def _check(self, x: Tensor, positions: Tensor) -> None:
        if x.ndim != 3 or x.shape[-1] != self.d_model:
            raise ValueError(f"x must be (batch, seq, {self.d_model}), got {tuple(x.shape)}")
        b, s, _ = x.shape
        if s > self.max_seq_len:
            raise ValueError(f"seq {s} is longer than max_seq_len {self.max_seq_len}")
        if tuple(positions.shape) not in ((s,), (b, s)) or positions.dtype.is_floating_point:
            raise ValueError(f"positions must be integers, ({s},) or ({b}, {s}), got {positions}")
        if positions.device.type != "meta" and not 0 <= int(positions.min()) <= int(positions.max()) < self.max_seq_len:
            raise ValueError(f"positions {positions.tolist()} leave [0, {self.max_seq_len})")

    def forward(self, x: Tensor, positions: Tensor | None = None) -> Tensor:
        positions = torch.arange(x.shape[1], device=x.device) if positions is None else positions.to(x.device)
        self._check(x, positions)
        acc = torch.promote_types(x.dtype, torch.float32)
        wide = lambda x, linear: F.linear(x, linear.weight.to(acc))
        heads = lambda linear: wide(x.to(acc), linear).unflatten(-1, (-1, self.head_dim)).transpose(1, 2)
        q, k, v = heads(self.q_proj), heads(self.k_proj), heads(self.v_proj)
        cos, sin = (t[positions.long()].to(acc) for t in self.rotary.tables(x.device))
        if positions.ndim == 2:
            cos, sin = cos.unsqueeze(1), sin.unsqueeze(1)
        q, k = _turn(q, cos, sin).unflatten(1, (k.shape[1], -1)), _turn(k, cos, sin)
        scores = q @ k.unsqueeze(2).mT * self.head_dim**-0.5
        future = torch.ones(scores.shape[-2:], dtype=torch.bool, device=x.device).triu(1)
        weights = scores.masked_fill(future, float("-inf")).softmax(-1)
        out = (weights @ v.unsqueeze(2)).flatten(1, 2).transpose(1, 2).reshape(x.shape)
        return wide(out, self.o_proj).to(x.dtype)
