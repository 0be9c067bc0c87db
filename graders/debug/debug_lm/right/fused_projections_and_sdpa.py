import torch
import torch.nn.functional as F
from torch import nn


def attend(q, k, v, num_heads):
    q, k, v = (t.unflatten(-1, (num_heads, -1)).transpose(1, 2) for t in (q, k, v))
    out = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    return out.transpose(1, 2).flatten(2)


class Block(nn.Module):
    def __init__(self, d_model, num_heads, dropout=0.0):
        super().__init__()
        self.heads = num_heads
        self.ln1, self.ln2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.qkv = nn.Linear(d_model, 3 * d_model, bias=False)
        self.proj = nn.Linear(d_model, d_model, bias=False)
        self.mlp = nn.Sequential(
            nn.Linear(d_model, 4 * d_model, bias=False), nn.GELU(), nn.Linear(4 * d_model, d_model, bias=False)
        )
        self.drop1, self.drop2 = nn.Dropout(dropout), nn.Dropout(dropout)

    def forward(self, x):
        q, k, v = self.qkv(self.ln1(x)).chunk(3, dim=-1)
        x = x + self.drop1(self.proj(attend(q, k, v, self.heads)))
        return x + self.drop2(self.mlp(self.ln2(x)))


class MiniGPT(nn.Module):
    def __init__(self, vocab_size, d_model, num_layers, num_heads, max_len, dropout=0.0):
        super().__init__()
        self.wte = nn.Embedding(vocab_size, d_model)
        self.wpe = nn.Embedding(max_len, d_model)
        self.h = nn.Sequential(*[Block(d_model, num_heads, dropout) for _ in range(num_layers)])
        self.ln_f = nn.LayerNorm(d_model)
        self.head = nn.Linear(d_model, vocab_size, bias=False)
        for p in self.parameters():
            if p.dim() == 2:
                nn.init.normal_(p, std=0.02)

    def forward(self, ids):
        return self.head(self.ln_f(self.h(self.wte(ids) + self.wpe.weight[: ids.shape[1]])))


def loss(model, ids):
    return F.cross_entropy(model(ids)[:, :-1].transpose(1, 2), ids[:, 1:], ignore_index=0)


def train(model, ids, steps, lr):
    opt = torch.optim.AdamW(model.parameters(), lr=lr, weight_decay=0.1)
    curve = []
    for _ in range(steps):
        model.eval()
        with torch.inference_mode():
            curve.append(float(loss(model, ids)))
        model.train()
        opt.zero_grad(set_to_none=True)
        loss(model, ids).backward()
        opt.step()
    return curve
