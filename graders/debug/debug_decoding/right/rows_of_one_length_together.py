import math

import torch
from torch import nn


class Cache:
    def __init__(self, max_len):
        self.room, self.length = max_len, 0
        self.data = None

    def append(self, k, v):
        kv = torch.cat([k, v], dim=-1)
        if self.data is None:
            self.data = torch.full((k.shape[0], self.room, kv.shape[-1]), math.nan)
        self.data.narrow(1, self.length, k.shape[1]).copy_(kv)
        self.length += k.shape[1]
        return self.data[:, : self.length].chunk(2, dim=-1)


def attend(x, cache):
    dim, old = x.shape[-1] // 3, cache.length
    x = x.clone()
    for i in range(dim // 2):  # queries and keys in one go
        angle = torch.arange(old, old + x.shape[1]) * 10000.0 ** (-2 * i / dim)
        for first in (2 * i, dim + 2 * i):
            a, b = x[..., first].clone(), x[..., first + 1].clone()
            x[..., first] = a * torch.cos(angle) - b * torch.sin(angle)
            x[..., first + 1] = a * torch.sin(angle) + b * torch.cos(angle)
    keys, values = cache.append(x[..., dim : 2 * dim], x[..., 2 * dim :])
    scores = x[..., :dim] @ keys.transpose(1, 2) / math.sqrt(dim)
    mask = torch.zeros(x.shape[1], cache.length).index_put(
        (*torch.triu_indices(x.shape[1], cache.length, old + 1),), torch.tensor(-math.inf)
    )
    weights = torch.exp(scores + mask - scores.amax(-1, keepdim=True))
    return weights @ values / weights.sum(-1, keepdim=True)


class Model(nn.Module):
    def __init__(self, vocab_size, dim):
        super().__init__()
        self.both = nn.Parameter(torch.randn(2, vocab_size, dim))
        self.mix = nn.Linear(dim, 3 * dim, bias=False)

    def forward(self, ids, cache=None):
        h = self.both[0][ids]
        h = h + attend(self.mix(h), cache if cache is not None else Cache(ids.shape[1]))
        return h @ self.both[1].T


def sample(logits, u, temperature, top_p):
    """All rows at once."""
    logits = logits.index_fill(-1, torch.tensor([0]), -math.inf)
    probs, order = (logits / temperature).softmax(-1).sort(-1, descending=True)
    keep = torch.cat([torch.zeros_like(probs[:, :1]), probs.cumsum(-1)[:, :-1]], -1) < top_p
    kept = torch.zeros_like(keep).scatter(-1, order, keep)
    probs = (logits / temperature).masked_fill(~kept, -math.inf).softmax(-1)
    return (probs.cumsum(-1) > u[:, None]).int().argmax(-1)


@torch.no_grad()
def generate(model, prompt, n, uniform, temperature=1.0, top_p=1.0):
    lengths = (prompt != 0).sum(-1)
    out = torch.zeros(len(prompt), n, dtype=torch.int64)
    for length in lengths.unique().tolist():
        rows = (lengths == length).nonzero()[:, 0]
        fed, cache = prompt[rows, :length], Cache(length + n)
        done = torch.zeros(len(rows), dtype=torch.bool)
        for t in range(n):
            token = sample(model(fed, cache)[:, -1], uniform[rows, t], temperature, top_p)
            out[rows, t] = token.masked_fill(done, 0)
            done |= token == 1
            fed = token[:, None]
    return out
