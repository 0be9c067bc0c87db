import copy

import torch
import torch.nn as nn
import torch.nn.functional as F


def one_head(q, k, v):
    n = q.shape[-2]
    rows = []
    for t in range(n):
        w = torch.softmax((k[:, : t + 1] * q[:, t : t + 1]).sum(-1) / q.shape[-1] ** 0.5, dim=-1)
        rows.append((w[..., None] * v[:, : t + 1]).sum(1))
    return torch.stack(rows, 1)


def attend(q, k, v, num_heads):
    size = q.shape[-1] // num_heads
    parts = [slice(h * size, h * size + size) for h in range(num_heads)]
    return torch.cat([one_head(q[..., p], k[..., p], v[..., p]) for p in parts], dim=-1)


class Head(nn.Module):
    def __init__(self, d_model, size):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(d_model, size, bias=False) for _ in range(3))


class Block(nn.Module):
    def __init__(self, d_model, num_heads, dropout=0.0):
        super().__init__()
        self.heads = nn.ModuleList(Head(d_model, d_model // num_heads) for _ in range(num_heads))
        self.merge = nn.Linear(d_model, d_model, bias=False)
        self.before_heads = nn.LayerNorm([d_model])
        self.before_ffn = nn.LayerNorm([d_model])
        self.inner, self.outer = nn.Linear(d_model, 4 * d_model, False), nn.Linear(4 * d_model, d_model, False)
        self.p = dropout

    def forward(self, x):
        h = self.before_heads(x)
        q, k, v = (torch.cat([getattr(head, name)(h) for head in self.heads], -1) for name in "qkv")
        x = x + F.dropout(self.merge(attend(q, k, v, len(self.heads))), self.p, self.training)
        h = self.outer(F.gelu(self.inner(self.before_ffn(x))))
        return x + F.dropout(h, self.p, self.training)


class MiniGPT(nn.Module):
    def __init__(self, vocab_size, d_model, num_layers, num_heads, max_len, dropout=0.0):
        super().__init__()
        self.tok = nn.Embedding(vocab_size, d_model)
        self.pos = nn.Linear(max_len, d_model, bias=False)
        self.blocks = nn.ModuleList(Block(d_model, num_heads, dropout) for _ in range(num_layers))
        self.out = nn.ModuleList([nn.LayerNorm(d_model), nn.Linear(d_model, vocab_size, bias=False)])

    def forward(self, ids):
        one_hot = torch.eye(self.pos.in_features)[: ids.shape[1]]
        x = self.tok(ids) + self.pos(one_hot)
        for block in self.blocks:
            x = block(x)
        for layer in self.out:
            x = layer(x)
        return x


def loss(model, ids):
    logits = model(ids)
    total, count = 0.0, 0
    for t in range(ids.shape[1] - 1):
        keep = ids[:, t + 1] != 0
        total = total + F.cross_entropy(logits[keep, t], ids[keep, t + 1], reduction="sum")
        count += int(keep.sum())
    return total / count


def train(model, ids, steps, lr):
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
    losses = []
    model.train()
    for _ in range(steps):
        still = copy.deepcopy(model).eval()
        losses.append(loss(still, ids).item())
        model.zero_grad()
        loss(model, ids).backward()
        optimizer.step()
    return losses
