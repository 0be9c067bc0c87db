import torch
import torch.nn as nn


class Cache:
    def __init__(self, max_len):
        self.pieces = []

    @property
    def length(self):
        return sum(k.size(1) for k, _ in self.pieces)

    def append(self, k, v):
        self.pieces.append((k, v))
        return tuple(torch.cat(each, dim=1) for each in zip(*self.pieces))


def rope(t, start):
    b, n, d = t.shape
    freqs = torch.pow(10000.0, torch.arange(0, d, 2).float() / d).reciprocal()
    angles = torch.outer(torch.arange(start, start + n).float(), freqs)
    z = torch.view_as_complex(t.reshape(b, n, d // 2, 2).contiguous())
    return torch.view_as_real(z * torch.exp(1j * angles)).reshape(b, n, d)


def attend(x, cache):
    past, n = cache.length, x.size(1)
    q, k, v = x.chunk(3, dim=-1)
    k, v = cache.append(rope(k, past), v)
    att = torch.einsum("bqd,bkd->bqk", rope(q, past), k) * q.size(-1) ** -0.5
    seen = torch.arange(past + n)[None, :] <= torch.arange(past, past + n)[:, None]
    return torch.einsum("bqk,bkd->bqd", att.where(seen, torch.tensor(-1e9)).softmax(-1), v)


class Model(nn.Module):
    def __init__(self, vocab_size, dim):
        super().__init__()
        self.wte = nn.Parameter(torch.zeros(vocab_size, dim))
        self.c_attn = nn.Parameter(torch.zeros(dim, 3 * dim))
        self.head = nn.Parameter(torch.zeros(dim, vocab_size))

    def forward(self, ids, cache=None):
        if cache is None:
            cache = Cache(ids.size(1))
        h = self.wte[ids]
        return (h + attend(h @ self.c_attn, cache)) @ self.head


def pick(logits, u, temperature, top_p):
    logits = torch.cat([torch.tensor([-torch.inf]), logits[1:]]) / temperature
    p = logits.softmax(0)
    kept, mass = [], 0.0
    for token in p.argsort(descending=True).tolist():
        if mass >= top_p:
            break
        kept.append(token)
        mass += p[token].item()
    at = 0.0
    for token in sorted(kept):
        at += p[token].item() / mass
        if at > u:
            return token
    return max(kept)


def generate(model, prompt, n, uniform, temperature=1.0, top_p=1.0):
    rows = []
    for line, numbers in zip(prompt.tolist(), uniform.tolist()):
        text = [token for token in line if token != 0]
        cache, new = Cache(len(text) + n), []
        with torch.no_grad():
            logits = model(torch.tensor([text]), cache)
            while True:
                new.append(pick(logits[0, -1], numbers[len(new)], temperature, top_p))
                if new[-1] == 1 or len(new) == n:
                    break
                logits = model(torch.tensor([new[-1:]]), cache)
        rows.append(new + [0] * (n - len(new)))
    return torch.tensor(rows)
