"""vmap over entries and heads, a norm of its own by var_mean, GELU by erfc."""

import math

import torch
from torch import nn
from torch.func import vmap


def head(q, k, v, mask):
    scores = (q @ k.mT / math.sqrt(q.shape[-1])).masked_fill(~mask, -torch.inf)
    scores = torch.where(mask.any(-1, keepdim=True), scores, 0.0)
    return torch.softmax(scores, -1).masked_fill(~mask, 0.0) @ v


class Norm(nn.Module):
    def __init__(self, d_model, eps, **kind):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(d_model, **kind))
        self.bias = nn.Parameter(torch.zeros(d_model, **kind))

    def forward(self, x):
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        variance, mean = torch.var_mean(wide, dim=-1, correction=0, keepdim=True)
        return ((wide - mean) / torch.sqrt(variance + self.eps) * self.weight + self.bias).to(x.dtype)


class Heads(nn.Module):
    def __init__(self, d_model, num_heads, dropout, **kind):
        super().__init__()
        if d_model % num_heads != 0:
            raise ValueError(f"{d_model=} is not a multiple of {num_heads=}")
        self.num_heads = num_heads
        for name in "qkvo":
            setattr(self, f"{name}_proj", nn.Linear(d_model, d_model, **kind))

    def forward(self, x, source, mask):
        work = torch.promote_types(x.dtype, torch.float32)
        parts = [self.q_proj(x), self.k_proj(source), self.v_proj(source)]
        q, k, v = (p.to(work).unflatten(-1, (self.num_heads, -1)) for p in parts)
        mask = mask.expand(x.shape[0], self.num_heads, x.shape[1], source.shape[1])
        over_heads = vmap(head, in_dims=(1, 1, 1, 0), out_dims=1)
        return self.o_proj(vmap(over_heads)(q, k, v, mask).flatten(2).to(x.dtype))


class FFN(nn.Module):
    def __init__(self, d_model, d_ff, dropout, **kind):
        super().__init__()
        self.p = dropout
        self.fc1, self.fc2 = nn.Linear(d_model, d_ff, **kind), nn.Linear(d_ff, d_model, **kind)

    def forward(self, x):
        h = self.fc1(x).to(torch.promote_types(x.dtype, torch.float32))
        h = (h * torch.special.erfc(-h / math.sqrt(2)) / 2).to(x.dtype)
        return self.fc2(nn.functional.dropout(h, self.p, self.training))


def everything(x):
    return torch.ones(1, 1, 1, 1, dtype=torch.bool, device=x.device)


class EncoderLayer(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, dropout=0.0, eps=1e-12, *, device=None, dtype=None):
        super().__init__()
        kind = {"device": device, "dtype": dtype}
        self.self_attn, self.ffn = Heads(d_model, num_heads, dropout, **kind), FFN(d_model, d_ff, dropout, **kind)
        self.attn_norm, self.ffn_norm = Norm(d_model, eps, **kind), Norm(d_model, eps, **kind)
        self.drop = nn.Dropout(dropout)

    def forward(self, x, padding=None):
        mask = everything(x) if padding is None else padding[:, None, None, :]
        x = self.attn_norm(x + self.drop(self.self_attn(x, x, mask)))
        return self.ffn_norm(x + self.drop(self.ffn(x)))


class DecoderLayer(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, dropout=0.0, eps=1e-12, *, device=None, dtype=None):
        super().__init__()
        kind = {"device": device, "dtype": dtype}
        self.self_attn, self.cross_attn = (Heads(d_model, num_heads, dropout, **kind) for _ in range(2))
        self.ffn = FFN(d_model, d_ff, dropout, **kind)
        for name in ("self_attn_norm", "cross_attn_norm", "ffn_norm"):
            self.register_module(name, Norm(d_model, eps, **kind))
        self.drop = nn.Dropout(dropout)

    def forward(self, x, memory, memory_padding=None):
        causal = torch.ones(x.shape[1], x.shape[1], device=x.device).tril().bool()
        mask = everything(x) if memory_padding is None else memory_padding[:, None, None, :]
        for norm, branch in (
            (self.self_attn_norm, lambda x: self.self_attn(x, x, causal)),
            (self.cross_attn_norm, lambda x: self.cross_attn(x, memory, mask)),
            (self.ffn_norm, self.ffn),
        ):
            x = norm(x + self.drop(branch(x)))
        return x


class Positions:
    def __init__(self, max_len, d_model):
        turn = torch.arange(max_len, dtype=torch.float64)[:, None] / 10000 ** (torch.arange(0, d_model, 2) / d_model)
        self.table = torch.view_as_real(torch.polar(torch.ones_like(turn), turn)).flip(-1).flatten(-2)

    def __call__(self, x):
        if x.shape[1] > self.table.shape[0]:
            raise ValueError(f"{x.shape[1]} tokens and {self.table.shape[0]} positions")
        wide = x.to(torch.promote_types(x.dtype, torch.float32)) * math.sqrt(x.shape[-1])
        return (wide + self.table[: x.shape[1]].to(wide)).to(x.dtype)


class Seq2SeqTransformer(nn.Module):
    def __init__(
        self,
        src_vocab,
        tgt_vocab,
        d_model,
        num_layers,
        num_heads,
        d_ff,
        max_len,
        dropout=0.0,
        *,
        device=None,
        dtype=None,
    ):
        super().__init__()
        if d_model % 2 != 0:
            raise ValueError(f"{d_model=} is odd")
        kind = {"device": device, "dtype": dtype}
        self.positions, self.drop = Positions(max_len, d_model), nn.Dropout(dropout)
        self.src_embedding = nn.Embedding(src_vocab, d_model, **kind)
        self.tgt_embedding = nn.Embedding(tgt_vocab, d_model, **kind)
        sizes = (d_model, num_heads, d_ff, dropout)
        self.encoder_layers = nn.ModuleList([EncoderLayer(*sizes, **kind) for _ in range(num_layers)])
        self.decoder_layers = nn.ModuleList([DecoderLayer(*sizes, **kind) for _ in range(num_layers)])
        self.lm_head = nn.Linear(d_model, tgt_vocab, bias=False, **kind)

    def encode(self, src_ids, src_padding):
        x = self.drop(self.positions(self.src_embedding(src_ids)))
        for layer in self.encoder_layers:
            x = layer(x, src_padding)
        return x

    def forward(self, src_ids, tgt_ids, src_padding=None):
        memory = self.encode(src_ids, src_padding)
        x = self.drop(self.positions(self.tgt_embedding(tgt_ids)))
        for layer in self.decoder_layers:
            x = layer(x, memory, src_padding)
        return self.lm_head(x)
