"""One vector and one position at a time; vmap does the rest."""

import torch
from torch.func import vmap


def pairs(x):
    return x.unflatten(-1, (-1, 2))


class _Rotary(torch.nn.Module):
    def __init__(self, d_k, max_seq_len, theta=10000.0, *, device=None, dtype=None):
        super().__init__()
        if d_k % 2 == 1:
            raise ValueError(f"cannot pair {d_k} entries")
        self.width, self.limit = d_k, max_seq_len
        power = torch.linspace(0, 1 - 2 / d_k, d_k // 2, dtype=torch.float64)
        self.angle = torch.arange(max_seq_len, dtype=torch.float64).unsqueeze(-1) * theta**-power
        self.cosine, self.sine = self.angle.cos(), self.angle.sin()

    def forward(self, x, positions):
        if x.size(-1) != self.width:
            raise ValueError(f"last dimension {x.size(-1)} instead of {self.width}")
        bad = (positions < 0).logical_or(positions >= self.limit)
        if bad.any():
            raise ValueError(f"positions {positions[bad].tolist()} outside [0, {self.limit})")
        self.cosine, self.sine = self.cosine.to(x.device), self.sine.to(x.device)
        work = x.double() if x.dtype == torch.float64 else x.float()
        cos, sin = self.cosine[positions].to(work.dtype), self.sine[positions].to(work.dtype)
        over_sequence = vmap(self.turn)
        if positions.dim() == 1:
            flat = work.reshape(-1, *work.shape[-2:])
            return vmap(over_sequence, (0, None, None))(flat, cos, sin).view(work.shape).to(x.dtype)
        flat = work.reshape(work.shape[0], -1, *work.shape[-2:])
        within = vmap(over_sequence, (0, None, None))
        return vmap(within)(flat, cos, sin).view(work.shape).to(x.dtype)


class RoPEReal(_Rotary):
    @staticmethod
    def turn(vector, cos, sin):
        first, second = pairs(vector).unbind(-1)
        return torch.stack((first * cos - second * sin, first * sin + second * cos), -1).flatten()


class RoPEComplex(_Rotary):
    @staticmethod
    def turn(vector, cos, sin):
        first, second = pairs(vector).unbind(-1)
        turned = torch.complex(first, second) * torch.complex(cos, sin)
        return torch.stack((turned.real, turned.imag), -1).flatten()
