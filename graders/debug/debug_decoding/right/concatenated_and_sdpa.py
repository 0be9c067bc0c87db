import torch
from torch import nn
from torch.nn import functional as F


class Cache:
    def __init__(self, max_len):
        self.kv, self.length = None, 0

    def append(self, k, v):
        new = torch.stack([k, v])
        self.kv = new if self.kv is None else torch.cat([self.kv, new], dim=2)
        self.length = self.kv.shape[2]
        return self.kv[0], self.kv[1]


def rotate(t, cos, sin):
    half = torch.stack([-t[..., 1::2], t[..., ::2]], dim=-1).flatten(-2)
    return t * cos + half * sin


def attend(x, cache):
    b, n, d = x.shape
    d //= 3
    q, k, v = x[..., :d], x[..., d : 2 * d], x[..., 2 * d :]
    past = cache.length
    inv_freq = 1.0 / 10000 ** (torch.arange(0, d, 2, dtype=torch.float32) / d)
    angles = (torch.arange(past, past + n).float()[:, None] * inv_freq).repeat_interleave(2, dim=-1)
    k, v = cache.append(rotate(k, angles.cos(), angles.sin()), v)
    mask = None if n == 1 else torch.ones(n, past + n, dtype=torch.bool).tril(past)
    return F.scaled_dot_product_attention(rotate(q, angles.cos(), angles.sin()), k, v, attn_mask=mask)


class Model(nn.Module):
    def __init__(self, vocab_size, dim):
        super().__init__()
        self.tok = nn.Embedding(vocab_size, dim)
        self.q, self.k, self.v = (nn.Linear(dim, dim, bias=False) for _ in range(3))
        self.out = nn.Linear(dim, vocab_size, bias=False)

    def forward(self, ids, cache=None):
        cache = Cache(None) if cache is None else cache
        h = self.tok(ids)
        return self.out(h + attend(torch.cat([self.q(h), self.k(h), self.v(h)], dim=-1), cache))


def draw(logits, u, temperature, top_p):
    logits = logits / temperature
    logits[0] = -float("inf")
    probs = F.softmax(logits, dim=-1)
    # a threshold instead of a sort: what is more probable than me, and how much is it together
    above = (probs[None, :] > probs[:, None]).float() @ probs
    probs = torch.where(above < top_p, probs, torch.zeros_like(probs))
    cdf = probs.cumsum(0)
    return torch.searchsorted(cdf, (u * cdf[-1]).reshape(1).to(cdf.dtype), right=True).clamp(max=len(cdf) - 1).item()


@torch.inference_mode()
def generate(model, prompt, n, uniform, temperature=1.0, top_p=1.0):
    out = torch.zeros(prompt.size(0), n, dtype=torch.long)
    for i in range(prompt.size(0)):
        ids = prompt[i][prompt[i].ne(0)].unsqueeze(0)
        cache = Cache(None)
        for j in range(n):
            nxt = draw(model(ids, cache)[0, -1], uniform[i, j], temperature, top_p)
            out[i, j] = nxt
            if nxt == 1:
                break
            ids = torch.tensor([[nxt]])
    return out
