"""One vector and one position at a time; vmap does the rest."""

import torch
from torch.func import vmap


class _Rotary(torch.nn.Module):
    def __init__(self, d_k, max_seq_len, theta=10000.0, *, device=None, dtype=None):
        super().__init__()
        if d_k % 2 == 1:
            raise ValueError(f"cannot pair {d_k} entries")
        self.width, self.limit = d_k, max_seq_len
        power = torch.linspace(0, 1 - 2 / d_k, d_k // 2, dtype=torch.float64)
        angle = torch.arange(max_seq_len, dtype=torch.float64).unsqueeze(-1) * theta**-power
        self.cosine, self.sine = angle.cos(), angle.sin()

    def forward(self, x, positions):
        if x.size(-1) != self.width:
            raise ValueError(f"last dimension {x.size(-1)} instead of {self.width}")
        bad = (positions < 0).logical_or(positions >= self.limit)
        if bad.any():
            raise ValueError(f"positions {positions[bad].tolist()} outside [0, {self.limit})")
        self.cosine, self.sine = self.cosine.to(x.device), self.sine.to(x.device)
        work = x.double() if x.dtype == torch.float64 else x.float()
        cos, sin = self.cosine[positions].to(work.dtype), self.sine[positions].to(work.dtype)
        over_rows = vmap(vmap(self.turn), (0, None, None))
        if positions.dim() == 1:
            turned = over_rows(work.reshape(-1, *work.shape[-2:]), cos, sin)
        else:
            turned = vmap(over_rows)(work.reshape(len(work), -1, *work.shape[-2:]), cos, sin)
        return turned.view(work.shape).to(x.dtype)


class RoPEReal(_Rotary):
    @staticmethod
    def turn(vector, cos, sin):
        first, second = vector.unflatten(-1, (-1, 2)).unbind(-1)
        return torch.stack((first * cos - second * sin, first * sin + second * cos), -1).flatten()


class RoPEComplex(_Rotary):
    @staticmethod
    def turn(vector, cos, sin):
        turned = torch.complex(vector[::2], vector[1::2]) * torch.complex(cos, sin)
        return torch.stack((turned.real, turned.imag), -1).flatten()
