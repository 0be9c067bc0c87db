"""Hugging Face's LlamaMLP, with Llama's letters for gate_proj, up_proj and down_proj."""

import math

from torch import nn

ACT2FN = {"silu": nn.SiLU(), "gelu": nn.GELU()}


def hidden_size(d_model, multiple_of=64):
    return multiple_of * math.ceil(8 * d_model / 3 / multiple_of)


class SwiGLU(nn.Module):
    def __init__(self, d_model, d_ff=None, *, device=None, dtype=None):
        super().__init__()
        self.hidden_size = d_model
        self.intermediate_size = d_ff or hidden_size(d_model)
        kwargs = {"bias": False, "device": device, "dtype": dtype}
        self.w1 = nn.Linear(self.hidden_size, self.intermediate_size, **kwargs)
        self.w3 = nn.Linear(self.hidden_size, self.intermediate_size, **kwargs)
        self.w2 = nn.Linear(self.intermediate_size, self.hidden_size, **kwargs)
        self.act_fn = ACT2FN["silu"]

    def forward(self, x):
        return self.w2(self.act_fn(self.w1(x)) * self.w3(x))
