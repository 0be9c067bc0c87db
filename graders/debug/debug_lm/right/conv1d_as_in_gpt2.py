import math

import torch
from torch import nn
from torch.nn import functional as F


class Conv1D(nn.Module):
    def __init__(self, n_in, n_out, std=0.02):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(n_in, n_out).normal_(std=std))

    def forward(self, x):
        return x @ self.weight


def attend(q, k, v, num_heads):
    b, n, d = q.size()
    q = q.view(b, n, num_heads, d // num_heads).transpose(1, 2).contiguous()
    k = k.view(b, n, num_heads, d // num_heads).permute(0, 2, 3, 1).contiguous()
    v = v.view(b, n, num_heads, d // num_heads).transpose(1, 2).contiguous()
    w = torch.matmul(q, k) / math.sqrt(v.size(-1))
    bias = torch.tril(torch.ones(n, n, device=q.device)).view(1, 1, n, n)
    w = w * bias + -1e9 * (1 - bias)
    a = torch.matmul(w.softmax(-1), v)
    return a.permute(0, 2, 1, 3).contiguous().view(b, n, d)


class Block(nn.Module):
    def __init__(self, d_model, num_heads, dropout=0.0):
        super().__init__()
        self.n_head = num_heads
        self.ln_1 = nn.LayerNorm(d_model, eps=1e-5)
        self.c_attn = Conv1D(d_model, 3 * d_model)
        self.c_proj = Conv1D(d_model, d_model, std=0.01)
        self.ln_2 = nn.LayerNorm(d_model, eps=1e-5)
        self.c_fc = Conv1D(d_model, 4 * d_model)
        self.c_out = Conv1D(4 * d_model, d_model, std=0.01)
        self.resid_dropout = nn.Dropout(dropout)

    def forward(self, x):
        query, key, value = self.c_attn(self.ln_1(x)).split(x.size(-1), dim=2)
        x = x + self.resid_dropout(self.c_proj(attend(query, key, value, self.n_head)))
        x = x + self.resid_dropout(self.c_out(F.gelu(self.c_fc(self.ln_2(x)))))
        return x


class MiniGPT(nn.Module):
    def __init__(self, vocab_size, d_model, num_layers, num_heads, max_len, dropout=0.0):
        super().__init__()
        self.transformer = nn.ModuleDict(
            dict(
                wte=nn.Embedding(vocab_size, d_model),
                wpe=nn.Embedding(max_len, d_model),
                h=nn.ModuleList([Block(d_model, num_heads, dropout) for _ in range(num_layers)]),
                ln_f=nn.LayerNorm(d_model, eps=1e-5),
            )
        )
        self.lm_head = nn.Linear(d_model, vocab_size, bias=False)

    def forward(self, input_ids):
        position_ids = torch.arange(0, input_ids.size(-1), dtype=torch.long).unsqueeze(0)
        hidden = self.transformer.wte(input_ids) + self.transformer.wpe(position_ids)
        for block in self.transformer.h:
            hidden = block(hidden)
        return self.lm_head(self.transformer.ln_f(hidden))


def loss(model, ids):
    shift_logits = model(ids)[..., :-1, :].contiguous()
    shift_labels = ids[..., 1:].contiguous()
    per_token = F.cross_entropy(
        shift_logits.view(-1, shift_logits.size(-1)), shift_labels.view(-1), ignore_index=0, reduction="none"
    )
    return per_token.sum() / (shift_labels != 0).sum()


def train(model, ids, steps, lr):
    decay = [p for p in model.parameters() if p.dim() >= 2]
    rest = [p for p in model.parameters() if p.dim() < 2]
    groups = [{"params": decay, "weight_decay": 0.1}, {"params": rest, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=lr, betas=(0.9, 0.95))
    losses = []
    for _ in range(steps):
        model.train()
        training_loss = loss(model, ids)
        optimizer.zero_grad()
        training_loss.backward()
        model.eval()
        with torch.no_grad():
            losses.append(loss(model, ids).item())
        optimizer.step()
    model.train()
    return losses
