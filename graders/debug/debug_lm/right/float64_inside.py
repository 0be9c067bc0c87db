import torch
from torch import nn
from torch.nn import functional as F


def attend(q, k, v, num_heads):
    dtype = q.dtype
    split = lambda t: t.double().view(*t.shape[:2], num_heads, -1).permute(0, 2, 1, 3)
    q, k, v = split(q), split(k), split(v)
    s = (q @ k.transpose(-1, -2)) * (1 / q.size(-1) ** 0.5)
    s = torch.where(torch.tril(torch.ones_like(s)).bool(), s, torch.finfo(s.dtype).min)
    o = F.softmax(s, dim=-1) @ v
    return o.permute(0, 2, 1, 3).reshape(o.shape[0], o.shape[2], -1).to(dtype)


class Block(nn.Module):
    def __init__(self, d_model, num_heads, dropout=0.0):
        super().__init__()
        linear = lambda i, o: nn.Linear(i, o, bias=False)
        self.num_heads = num_heads
        self.norms = nn.ModuleList([nn.LayerNorm(d_model), nn.LayerNorm(d_model)])
        self.proj = nn.ModuleDict({name: linear(d_model, d_model) for name in ("q", "k", "v", "o")})
        self.ffn = nn.ModuleList([linear(d_model, 4 * d_model), linear(4 * d_model, d_model)])
        self.dropout = nn.Dropout(p=dropout)

    def forward(self, x):
        y = self.norms[0](x)
        y = attend(*(self.proj[name](y) for name in "qkv"), num_heads=self.num_heads)
        x = self.dropout(self.proj["o"](y)) + x
        return self.dropout(self.ffn[1](F.gelu(self.ffn[0](self.norms[1](x))))) + x


class MiniGPT(nn.Module):
    def __init__(self, vocab_size, d_model, num_layers, num_heads, max_len, dropout=0.0):
        super().__init__()
        self.register_buffer("positions", torch.arange(max_len)[None])
        self.head = nn.Linear(d_model, vocab_size, bias=False)
        self.norm = nn.LayerNorm(d_model)
        self.blocks = nn.ModuleList([Block(d_model, num_heads, dropout) for _ in range(num_layers)])
        self.pos = nn.Embedding(max_len, d_model)
        self.tok = nn.Embedding(vocab_size, d_model)

    def forward(self, ids):
        x = self.tok(ids) + self.pos(self.positions[:, : ids.shape[1]])
        for b in self.blocks:
            x = b(x)
        return self.head(self.norm(x))


def loss(model, ids):
    logits = model(ids)[:, :-1].double()
    labels = ids[:, 1:].masked_fill(ids[:, 1:] == 0, -100)
    return F.nll_loss(logits.log_softmax(-1).flatten(0, 1), labels.flatten()).float()


def train(model, ids, steps, lr):
    opt = torch.optim.SGD(model.parameters(), lr)
    losses = []
    for _ in range(steps):
        opt.zero_grad()
        model.eval()
        with torch.no_grad():
            before = loss(model, ids)
        model.train()
        after_dropout = loss(model, ids)
        after_dropout.backward()
        opt.step()
        losses.append(before.item())
    return losses
