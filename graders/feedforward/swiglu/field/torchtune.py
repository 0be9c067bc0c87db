"""torchtune's FeedForward with scale_hidden_dim_for_mlp: the activation is a module, the gate may be left out."""

import torch.nn as nn


def hidden_size(d_model: int, multiple_of: int = 64) -> int:
    hidden_dim = 4 * int(d_model)
    hidden_dim = int(2 * hidden_dim / 3)
    return multiple_of * ((hidden_dim + multiple_of - 1) // multiple_of)


class FeedForward(nn.Module):
    def __init__(self, *, gate_proj, down_proj, up_proj=None, activation):
        super().__init__()
        self.w1 = gate_proj
        self.w2 = down_proj
        self.w3 = up_proj
        self.activation = activation

    def forward(self, x):
        h = self.activation(self.w1(x))
        if self.w3 is not None:
            h = h * self.w3(x)
        return self.w2(h)


class SwiGLU(FeedForward):
    def __init__(self, d_model, d_ff=None, *, device=None, dtype=None):
        d_ff = hidden_size(d_model) if d_ff is None else d_ff
        factory = {"bias": False, "device": device, "dtype": dtype}
        super().__init__(
            gate_proj=nn.Linear(d_model, d_ff, **factory),
            down_proj=nn.Linear(d_ff, d_model, **factory),
            up_proj=nn.Linear(d_model, d_ff, **factory),
            activation=nn.SiLU(),
        )
