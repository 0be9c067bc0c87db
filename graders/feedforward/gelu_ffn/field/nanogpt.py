"""nanoGPT's MLP: GELU between two layers, dropout after the second."""

import torch.nn as nn


class FeedForward(nn.Module):
    def __init__(self, d_model, d_ff, dropout=0.0, device=None, dtype=None):
        super().__init__()
        self.fc1 = nn.Linear(d_model, d_ff, bias=True, device=device, dtype=dtype)
        self.gelu = nn.GELU()
        self.fc2 = nn.Linear(d_ff, d_model, bias=True, device=device, dtype=dtype)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        x = self.fc1(x)
        x = self.gelu(x)
        x = self.fc2(x)
        x = self.dropout(x)
        return x
