import torch
from torch import nn


class Cache:
    """Keys as they come; whoever reads them turns them."""

    def __init__(self, max_len):
        self.max_len, self.length = max_len, 0
        self.k, self.v = [], []

    def append(self, k, v):
        for each in range(k.shape[1]):
            self.k.append(k[:, each])
            self.v.append(v[:, each])
            self.length += 1
        return torch.stack(self.k, 1), torch.stack(self.v, 1)


def turn(t, positions):
    d = t.shape[-1]
    angles = positions.double()[:, None] * 10000.0 ** (-torch.arange(0, d, 2).double() / d)
    a, b = t[..., ::2], t[..., 1::2]
    out = torch.empty_like(t)
    out[..., ::2] = a * angles.cos() - b * angles.sin()
    out[..., 1::2] = a * angles.sin() + b * angles.cos()
    return out


def attend(x, cache):
    outs = []
    for each in range(x.shape[1]):
        q, k, v = x[:, each : each + 1].split(x.shape[2] // 3, -1)
        keys, values = cache.append(k, v)
        at = torch.arange(keys.shape[1])
        scores = turn(q.double(), at[-1:]) @ turn(keys.double(), at).transpose(1, 2)
        outs.append((scores / q.shape[-1] ** 0.5).softmax(-1) @ values.double())
    return torch.cat(outs, 1).to(x.dtype)


class Model(nn.Module):
    def __init__(self, vocab_size, dim):
        super().__init__()
        self.layers = nn.ModuleDict({"e": nn.Embedding(vocab_size, dim), "a": nn.Linear(dim, 3 * dim, False)})
        self.layers["o"] = nn.Linear(dim, vocab_size, False)

    def forward(self, ids, cache=None):
        h = self.layers["e"](ids)
        return self.layers["o"](h + attend(self.layers["a"](h), Cache(0) if cache is None else cache))


def generate(model, prompt, n, uniform, temperature=1.0, top_p=1.0):
    result = []
    for row, u in zip(prompt, uniform):
        cache, tokens = Cache(0), []
        for token in row[row != 0]:  # prefill, one at a time
            with torch.no_grad():
                logits = model(token.view(1, 1), cache)
        for step in range(n):
            p = (logits[0, -1].double() / temperature)[1:].softmax(-1)
            top = p.sort(descending=True).values
            stays = top.cumsum(-1) - top < top_p
            p = p * (p >= top[stays][-1])
            below = (p / p.sum()).cumsum(-1) <= u[step].double()
            tokens.append(1 + int(below.sum()))
            if tokens[-1] == 1:
                break
            with torch.no_grad():
                logits = model(torch.tensor([[tokens[-1]]]), cache)
        result.append(torch.tensor(tokens + [0] * (n - len(tokens))))
    return torch.stack(result)
