import math

import torch
import torch.nn.functional as F
from torch import nn


def attend(q, k, v, num_heads):
    n = q.shape[1]
    outs = []
    for qh, kh, vh in zip(*(t.chunk(num_heads, -1) for t in (q, k, v))):
        scores = qh @ kh.transpose(1, 2) / math.sqrt(qh.shape[-1])
        ahead = torch.arange(n)[:, None] < torch.arange(n)
        largest = scores.masked_fill(ahead, -torch.inf).amax(-1, keepdim=True)
        exps = (scores - largest).masked_fill(ahead, -torch.inf).exp()
        outs.append(exps @ vh / exps.sum(-1, keepdim=True))
    return torch.cat(outs, -1)


def normed(x, w, b):
    centred = x - x.mean(-1, keepdim=True)
    return centred * torch.rsqrt(centred.pow(2).mean(-1, keepdim=True) + 1e-5) * w + b


class Block(nn.Module):
    def __init__(self, d_model, num_heads, dropout=0.0):
        super().__init__()
        self.n, self.p = num_heads, dropout
        self.scale1, self.scale2 = (nn.Parameter(torch.ones(d_model)) for _ in range(2))
        self.shift1, self.shift2 = (nn.Parameter(torch.zeros(d_model)) for _ in range(2))
        self.attn = nn.ParameterList(torch.randn(d_model, d_model) / d_model**0.5 for _ in range(4))
        self.up = nn.Parameter(torch.randn(d_model, 4 * d_model) / d_model**0.5)
        self.down = nn.Parameter(torch.randn(4 * d_model, d_model) / (4 * d_model) ** 0.5)

    def forward(self, x):
        h = normed(x, self.scale1, self.shift1)
        a = attend(h @ self.attn[0], h @ self.attn[1], h @ self.attn[2], self.n) @ self.attn[3]
        x = x + F.dropout(a, self.p, self.training)
        h = normed(x, self.scale2, self.shift2)
        return x + F.dropout(F.gelu(h @ self.up) @ self.down, self.p, self.training)


class MiniGPT(nn.Module):
    def __init__(self, vocab_size, d_model, num_layers, num_heads, max_len, dropout=0.0):
        super().__init__()
        self.emb = nn.Parameter(0.3 * torch.randn(vocab_size, d_model))
        self.place = nn.Parameter(0.3 * torch.randn(max_len, d_model))
        self.layers = nn.ModuleList()
        for _ in range(num_layers):
            self.layers.append(Block(d_model, num_heads, dropout))
        self.scale, self.shift = nn.Parameter(torch.ones(d_model)), nn.Parameter(torch.zeros(d_model))
        self.unembed = nn.Parameter(0.1 * torch.randn(d_model, vocab_size))

    def forward(self, ids):
        x = self.emb[ids] + self.place[: ids.shape[1]]
        for layer in self.layers:
            x = layer(x)
        return normed(x, self.scale, self.shift) @ self.unembed


def loss(model, ids):
    logits, target = model(ids[:, :-1]), ids[:, 1:]
    keep = target != 0
    return F.cross_entropy(logits[keep], target[keep])


def train(model, ids, steps, lr):
    params = [p for p in model.parameters() if p.requires_grad]
    mean = [torch.zeros_like(p) for p in params]
    square = [torch.zeros_like(p) for p in params]
    history = []
    for step in range(1, steps + 1):
        model.eval()
        history.append(loss(model, ids).detach().item())
        model.train()
        grads = torch.autograd.grad(loss(model, ids), params, materialize_grads=True)
        with torch.no_grad():
            for p, g, m, s in zip(params, grads, mean, square):
                m.lerp_(g, 0.1)
                s.lerp_(g * g, 0.001)
                p -= lr * (m / (1 - 0.9**step)) / ((s / (1 - 0.999**step)).sqrt() + 1e-8)
    return history
