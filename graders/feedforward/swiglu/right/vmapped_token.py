"""One token at a time under vmap, sigmoid by hand."""

import torch
from torch import nn
from torch.func import vmap


def hidden_size(d_model, multiple_of=64):
    needed = -(-8 * d_model // 3)
    return -(-needed // multiple_of) * multiple_of


class SwiGLU(nn.Module):
    def __init__(self, d_model, d_ff=None, *, device=None, dtype=None):
        super().__init__()
        d_ff = hidden_size(d_model) if d_ff is None else d_ff
        linear = lambda *sizes: nn.Linear(*sizes, bias=False, device=device, dtype=dtype)
        self.w1, self.w2, self.w3 = linear(d_model, d_ff), linear(d_ff, d_model), linear(d_model, d_ff)

    def forward(self, x):
        work = torch.promote_types(x.dtype, torch.float32)
        w1, w2, w3 = (w.weight.to(work) for w in (self.w1, self.w2, self.w3))

        def token(t):
            gate = torch.mv(w1, t)
            return torch.mv(w2, gate * torch.sigmoid(gate) * torch.mv(w3, t))

        return vmap(token)(x.reshape(-1, x.shape[-1]).to(work)).view(x.shape).to(x.dtype)
