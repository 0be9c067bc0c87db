"""Causal self-attention with RoPE in real arithmetic. The cos/sin tables are plain float64 attributes, built once on
the CPU, copied once per device: no buffer, so no cast of the module ever touches them."""

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
    def __init__(
        self,
        d_model: int,
        num_heads: int,
        max_seq_len: int,
        theta: float = 10000.0,
        num_kv_heads: int | None = None,
        *,
        device=None,
        dtype=None,
    ) -> None:
        super().__init__()
        if num_kv_heads is None:
            num_kv_heads = num_heads
        if d_model < 1 or num_heads < 1 or d_model % num_heads:
            raise ValueError(f"d_model={d_model} is not a positive multiple of num_heads={num_heads}")
        if num_kv_heads < 1 or num_heads % num_kv_heads:
            raise ValueError(f"num_heads={num_heads} is not a positive multiple of num_kv_heads={num_kv_heads}")
        if (d_model // num_heads) % 2:
            raise ValueError(f"RoPE needs an even head_dim, got {d_model} // {num_heads} = {d_model // num_heads}")
        if max_seq_len < 1 or theta <= 0:
            raise ValueError(f"max_seq_len and theta must be positive, got {max_seq_len} and {theta}")
        self.d_model, self.num_heads, self.num_kv_heads = d_model, num_heads, num_kv_heads
        self.head_dim = d_model // num_heads
        self.max_seq_len = max_seq_len
        kv_dim = num_kv_heads * self.head_dim
        self.q_proj = nn.Linear(d_model, d_model, bias=False, device=device, dtype=dtype)
        self.k_proj = nn.Linear(d_model, kv_dim, bias=False, device=device, dtype=dtype)
        self.v_proj = nn.Linear(d_model, kv_dim, bias=False, device=device, dtype=dtype)
        self.o_proj = nn.Linear(d_model, d_model, bias=False, device=device, dtype=dtype)
        self.rotary = _Rotary(self.head_dim, max_seq_len, theta)

    def _check(self, x: Tensor, positions: Tensor | None) -> None:
        if x.ndim != 3 or x.shape[-1] != self.d_model:
            raise ValueError(f"x must be (batch, seq, {self.d_model}), got {tuple(x.shape)}")
        b, s, _ = x.shape
        if s > self.max_seq_len:
            raise ValueError(f"seq {s} is longer than max_seq_len {self.max_seq_len}")
        if positions is None:
            return
        if positions.dtype.is_floating_point or positions.dtype.is_complex or positions.dtype == torch.bool:
            raise ValueError(f"positions must be integers, got {positions.dtype}")
        if tuple(positions.shape) not in ((s,), (b, s)):
            raise ValueError(f"positions must be ({s},) or ({b}, {s}), got {tuple(positions.shape)}")
        if positions.device.type != "meta":
            low, high = int(positions.min()), int(positions.max())
            if low < 0 or high >= self.max_seq_len:
                raise ValueError(f"positions span [{low}, {high}], outside [0, {self.max_seq_len})")

    def forward(self, x: Tensor, positions: Tensor | None = None) -> Tensor:
        self._check(x, positions)
        b, s, _ = x.shape
        dtype = self.q_proj.weight.dtype
        acc = torch.float64 if dtype == torch.float64 else torch.float32

        cos, sin = self.rotary.tables(x.device)
        if positions is None:
            cos, sin = cos[:s], sin[:s]
        else:
            positions = positions.to(x.device, torch.long)
            cos, sin = cos[positions], sin[positions]
        # (s, half) or (b, 1, s, half)
        cos, sin = cos.to(acc), sin.to(acc)
        if cos.ndim == 3:
            cos, sin = cos.unsqueeze(1), sin.unsqueeze(1)

        x = x.to(acc)
        q = F.linear(x, self.q_proj.weight.to(acc)).view(b, s, self.num_heads, self.head_dim).transpose(1, 2)
        k = F.linear(x, self.k_proj.weight.to(acc)).view(b, s, self.num_kv_heads, self.head_dim).transpose(1, 2)
        v = F.linear(x, self.v_proj.weight.to(acc)).view(b, s, self.num_kv_heads, self.head_dim).transpose(1, 2)
        q, k = _turn(q, cos, sin), _turn(k, cos, sin)

        q = q.unflatten(1, (self.num_kv_heads, -1))
        scores = q @ k.unsqueeze(2).mT * self.head_dim**-0.5
        future = torch.ones(s, s, dtype=torch.bool, device=x.device).triu(1)
        weights = scores.masked_fill(future, float("-inf")).softmax(-1)
        out = (weights @ v.unsqueeze(2)).flatten(1, 2).transpose(1, 2).reshape(b, s, self.d_model)
        return F.linear(out, self.o_proj.weight.to(acc)).to(dtype)
