"""Object style, out of the library's modules."""

import torch.nn as nn


class FeedForward(nn.Module):
    def __init__(self, d_model, d_ff, dropout=0.0, device=None, dtype=None):
        super().__init__()
        self.fc1 = nn.Linear(d_model, d_ff, bias=True, device=device, dtype=dtype)
        self.act = nn.GELU()
        self.drop = nn.Dropout(p=dropout)
        self.fc2 = nn.Linear(d_ff, d_model, bias=True, device=device, dtype=dtype)

    def forward(self, x):
        return self.fc2(self.drop(self.act(self.fc1(x))))
