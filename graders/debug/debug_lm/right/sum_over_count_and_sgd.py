import torch
from torch import nn

MASK = torch.ones(64, 64).tril().log()


def attend(q, k, v, num_heads):
    b, n, d = q.shape
    hd = d // num_heads
    mask = MASK[:n, :n] if n <= 64 else torch.ones(n, n).tril().log()
    q, k, v = (t.reshape(b, n, num_heads, hd) for t in (q, k, v))
    scores = torch.einsum("bihd,bjhd->bhij", q * hd**-0.5, k) + mask
    return torch.einsum("bhij,bjhd->bihd", scores.softmax(-1), v).reshape(b, n, d)


class Attention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.kv = nn.Linear(dim, 2 * dim, bias=False)
        self.q = nn.Linear(dim, dim, bias=False)
        self.out = nn.Linear(dim, dim, bias=False)

    def forward(self, x):
        k, v = self.kv(x).tensor_split(2, -1)
        return self.out(attend(self.q(x), k, v, self.heads))


class Branch(nn.Module):
    def __init__(self, dim, inner, p):
        super().__init__()
        self.norm, self.inner, self.drop = nn.LayerNorm(dim), inner, nn.Dropout(p)

    def forward(self, x):
        return x + self.drop(self.inner(self.norm(x)))


class Block(nn.Sequential):
    def __init__(self, d_model, num_heads, dropout=0.0):
        wide, narrow = nn.Linear(d_model, 4 * d_model, bias=False), nn.Linear(4 * d_model, d_model, bias=False)
        ffn = nn.Sequential(wide, nn.GELU(), narrow)
        super().__init__(Branch(d_model, Attention(d_model, num_heads), dropout), Branch(d_model, ffn, dropout))


class MiniGPT(nn.Module):
    def __init__(self, vocab_size, d_model, num_layers, num_heads, max_len, dropout=0.0):
        super().__init__()
        self.tokens = nn.Embedding(vocab_size, d_model)
        self.places = nn.Parameter(torch.zeros(max_len, d_model))
        self.body = nn.Sequential(*(Block(d_model, num_heads, dropout) for _ in range(num_layers)))
        self.head = nn.Sequential(nn.LayerNorm(d_model), nn.Linear(d_model, vocab_size, bias=False))

    def forward(self, ids):
        return self.head(self.body(self.tokens(ids) + self.places[: ids.size(1)]))


def loss(model, ids):
    inputs, targets = ids[:, :-1], ids[:, 1:]
    logprobs = model(inputs).log_softmax(-1)
    picked = logprobs.gather(-1, targets[..., None]).squeeze(-1)
    real = (targets != 0).float()
    return -(picked * real).sum() / real.sum()


def train(model, ids, steps, lr):
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)
    losses = []
    for _ in range(steps):
        with torch.no_grad():
            losses.append(loss(model.eval(), ids).item())
        loss(model.train(), ids).backward()
        optimizer.step()
        optimizer.zero_grad()
    return losses
