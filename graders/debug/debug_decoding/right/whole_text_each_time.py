import torch
from torch import nn


class Cache:
    """Room that doubles when it is full."""

    def __init__(self, max_len=None):
        self.length = 0

    def append(self, k, v):
        if self.length == 0:
            self.room = [t.new_empty(t.shape[0], 1, t.shape[2]) for t in (k, v)]
        end = self.length + k.shape[1]
        while self.room[0].shape[1] < end:
            self.room = [torch.cat([t, torch.empty_like(t)], dim=1) for t in self.room]
        for t, new in zip(self.room, (k, v)):
            t[:, self.length : end] = new
        self.length = end
        return [t[:, :end].clone() for t in self.room]


def rotation(position, dim):
    m = torch.zeros(dim, dim)
    for i in range(dim // 2):
        a = torch.tensor(position * 10000.0 ** (-2 * i / dim))
        m[2 * i, 2 * i], m[2 * i, 2 * i + 1] = a.cos(), -a.sin()
        m[2 * i + 1, 2 * i], m[2 * i + 1, 2 * i + 1] = a.sin(), a.cos()
    return m


def attend(x, cache):
    dim, start = x.shape[-1] // 3, cache.length
    turns = torch.stack([rotation(start + t, dim) for t in range(x.shape[1])])
    q = torch.einsum("sij,bsj->bsi", turns, x[..., :dim])
    k = torch.einsum("sij,bsj->bsi", turns, x[..., dim : 2 * dim])
    keys, values = cache.append(k, x[..., 2 * dim :])
    rows = []
    for t in range(x.shape[1]):
        w = torch.softmax((keys[:, : start + t + 1] * q[:, t : t + 1]).sum(-1) / dim**0.5, dim=-1)
        rows.append(torch.einsum("bs,bsd->bd", w, values[:, : start + t + 1]))
    return torch.stack(rows, dim=1)


class Model(nn.Module):
    def __init__(self, vocab_size, dim):
        super().__init__()
        self.embed = nn.Embedding(vocab_size, dim)
        self.body = nn.Linear(dim, 3 * dim, bias=False)
        self.unembed = nn.Linear(dim, vocab_size, bias=False)

    def forward(self, ids, cache=None):
        h = self.embed(ids)
        return self.unembed(h + attend(self.body(h), cache or Cache()))


def generate(model, prompt, n, uniform, temperature=1.0, top_p=1.0):
    out = torch.zeros(prompt.shape[0], n, dtype=torch.long)
    for b in range(prompt.shape[0]):
        text = prompt[b][prompt[b] > 0]
        for t in range(n):
            logits = model(text[None], Cache()).detach()[0, -1]
            p = torch.exp(logits / temperature - (logits / temperature)[1:].max())
            p[0] = 0
            ranked = sorted(range(1, len(p)), key=lambda i: -p[i].item())
            nucleus = next(c for c in range(1, len(p)) if p[ranked[:c]].sum() >= top_p * p.sum() or c == len(p) - 1)
            kept = torch.zeros_like(p)
            kept[ranked[:nucleus]] = p[ranked[:nucleus]]
            token = int((kept.cumsum(0) / kept.sum() > uniform[b, t]).nonzero()[0])
            out[b, t] = token
            text = torch.cat([text, torch.tensor([token])])
            if token == 1:
                break
    return out
