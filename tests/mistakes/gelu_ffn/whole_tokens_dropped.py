# Dropout also on the result's input side: whole hidden vectors dropped (one draw per token).
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
        if not self.training or not self.p:
            return h
        return h * F.dropout(h.new_ones(h.shape[:-1] + (1,)), self.p)
