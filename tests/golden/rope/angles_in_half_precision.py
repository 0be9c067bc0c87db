import torch
from torch import nn


class RoPEReal(nn.Module):
    def __init__(self, d_k, max_seq_len, theta=10000.0, *, device=None, dtype=None):
        super().__init__()
        self.freqs = theta ** (-torch.arange(0, d_k, 2, device=device) / d_k)

    def forward(self, x, positions):
        angles = positions[..., None].to(x.dtype) * self.freqs.to(x.dtype)
        while angles.dim() < x.dim() and positions.dim() > 1:
            angles = angles.unsqueeze(1)
        cos, sin = angles.cos(), angles.sin()
        x1, x2 = x[..., 0::2], x[..., 1::2]
        return torch.stack([x1 * cos - x2 * sin, x1 * sin + x2 * cos], dim=-1).flatten(-2)


class RoPEComplex(RoPEReal):
    def forward(self, x, positions):
        angles = positions[..., None].to(x.dtype) * self.freqs.to(x.dtype)
        while angles.dim() < x.dim() and positions.dim() > 1:
            angles = angles.unsqueeze(1)
        turn = torch.polar(torch.ones_like(angles).float(), angles.float())
        z = torch.complex(x[..., 0::2].float(), x[..., 1::2].float()) * turn
        return torch.stack([z.real, z.imag], dim=-1).flatten(-2).to(x.dtype)
