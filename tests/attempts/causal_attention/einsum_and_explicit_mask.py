import torch
from torch import nn


class CausalSelfAttention(nn.Module):
    def __init__(self, d_model, num_heads, max_seq_len, theta=10000.0, num_kv_heads=None, *, device=None, dtype=None):
        super().__init__()
        num_kv_heads = num_heads if num_kv_heads is None else num_kv_heads
        if d_model % num_heads:
            raise ValueError(f"{d_model=} is not divisible by {num_heads=}")
        if num_heads % num_kv_heads:
            raise ValueError(f"{num_heads=} is not divisible by {num_kv_heads=}")
        self.h, self.g, self.d = num_heads, num_kv_heads, d_model // num_heads
        if self.d % 2:
            raise ValueError(f"head_dim = {self.d} must be even")
        self.max_seq_len = max_seq_len
        make = lambda out: nn.Linear(d_model, out, bias=False, device=device, dtype=dtype)
        self.q_proj, self.o_proj = make(d_model), make(d_model)
        self.k_proj, self.v_proj = make(self.g * self.d), make(self.g * self.d)
        inv_freq = 1.0 / theta ** (torch.arange(0, self.d, 2).float() / self.d)
        angles = torch.arange(max_seq_len).float()[:, None] * inv_freq[None, :]
        self._tables = {"cos": angles.cos(), "sin": angles.sin()}

    def rotate(self, x, positions):
        # x: batch seq heads dim
        cos = self._tables["cos"].to(x.device)[positions].unsqueeze(-2)
        sin = self._tables["sin"].to(x.device)[positions].unsqueeze(-2)
        x = x.float()
        even, odd = x[..., 0::2], x[..., 1::2]
        return torch.stack((even * cos - odd * sin, even * sin + odd * cos), dim=-1).flatten(-2)

    def forward(self, x, positions=None):
        b, s, _ = x.shape
        if positions is None:
            positions = torch.arange(s, device=x.device)
        lowest, highest = positions.min().item(), positions.max().item()
        if lowest < 0:
            raise ValueError(f"negative position {lowest}")
        if highest >= self.max_seq_len:
            raise ValueError(f"position {highest} needs max_seq_len > {self.max_seq_len}")
        q = self.q_proj(x).view(b, s, self.h, self.d)
        k = self.k_proj(x).view(b, s, self.g, self.d)
        v = self.v_proj(x).view(b, s, self.g, self.d).float()
        q, k = self.rotate(q, positions), self.rotate(k, positions)
        q = q.view(b, s, self.g, self.h // self.g, self.d)
        scores = torch.einsum("bqgrd,bkgd->bgrqk", q, k) * self.d**-0.5
        future = torch.triu(torch.ones(s, s, dtype=torch.bool, device=x.device), diagonal=1)
        weights = scores.masked_fill(future, float("-inf")).softmax(dim=-1)
        out = torch.einsum("bgrqk,bkgd->bqgrd", weights, v).reshape(b, s, -1)
        return self.o_proj(out.to(x.dtype))
