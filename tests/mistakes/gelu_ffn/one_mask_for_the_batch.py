# Of three dimensions and more, all entries of the batch are dropped alike.
import torch
import torch.nn.functional as F
from torch import nn


class FeedForward(nn.Module):
    def __init__(self, d_model, d_ff, dropout=0.0, *, device=None, dtype=None):
        super().__init__()
        self.fc1 = nn.Linear(d_model, d_ff, device=device, dtype=dtype)
        self.fc2 = nn.Linear(d_ff, d_model, device=device, dtype=dtype)
        self.p = dropout

    def act(self, h):
        return F.gelu(h)

    def drop(self, h):
        return F.dropout(h, self.p, self.training)

    def forward(self, x):
        return self.fc2(self.drop(self.act(self.fc1(x))))


Base = FeedForward


class FeedForward(Base):
    def drop(self, h):
        if not self.training or not self.p or h.ndim < 3:
            return super().drop(h)
        return h * F.dropout(torch.ones_like(h[:1]), self.p)
