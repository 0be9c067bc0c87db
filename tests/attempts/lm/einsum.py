"""Functional: the modules only hold weights, and one function runs the model by einsum in float32 or float64."""

import torch
from torch import nn


def weight(*shape, **kw):
    holder = nn.Module()
    start = torch.ones(shape) if len(shape) == 1 else torch.randn(shape) * shape[-1] ** -0.5
    holder.weight = nn.Parameter(start.to(**{k: v for k, v in kw.items() if v is not None}))
    return holder


def group(**parts):
    holder = nn.Module()
    for name, part in parts.items():
        holder.add_module(name, part)
    return holder


def norm(x, holder, eps):
    return x / torch.sqrt((x * x).mean(-1, keepdim=True) + eps) * holder.weight.to(x.dtype)


def linear(x, holder):
    return torch.einsum("bti,oi->bto", x, holder.weight.to(x.dtype))


def rotate(x, table):
    pairs = x.unflatten(-1, (-1, 2))
    return torch.einsum("bthpj,tpij->bthpi", pairs, table.to(x.dtype)).flatten(-2)


def attention(x, layer, heads, table):
    q = linear(x, layer.q_proj).unflatten(-1, (heads, -1))
    size = q.shape[-1]
    k = linear(x, layer.k_proj).unflatten(-1, (-1, size))
    v = linear(x, layer.v_proj).unflatten(-1, (-1, size))
    shared = k.shape[2]
    q, k = rotate(q, table).unflatten(2, (shared, -1)), rotate(k, table)
    scores = torch.einsum("btkgd,bskd->bkgts", q, k) * size**-0.5
    t = x.shape[1]
    seen = torch.arange(t, device=x.device)[:, None] >= torch.arange(t, device=x.device)
    weights = torch.softmax(scores.masked_fill(~seen, float("-inf")), -1)
    return linear(torch.einsum("bkgts,bskd->btkgd", weights, v).flatten(2), layer.o_proj)


class TransformerLM(nn.Module):
    def __init__(
        self,
        vocab_size,
        d_model,
        num_layers,
        num_heads,
        d_ff,
        max_seq_len,
        num_kv_heads=None,
        theta=10000.0,
        eps=1e-5,
        *,
        device=None,
        dtype=None,
    ):
        super().__init__()
        kw = {"device": device, "dtype": dtype}
        size = d_model // num_heads
        kv = size * (num_kv_heads if num_kv_heads is not None else num_heads)
        self.num_heads, self.max_seq_len, self.eps = num_heads, max_seq_len, eps
        self.token_embedding = weight(vocab_size, d_model, **kw)
        self.layers = nn.ModuleList(
            group(
                attn_norm=weight(d_model, **kw),
                attn=group(
                    q_proj=weight(d_model, d_model, **kw),
                    k_proj=weight(kv, d_model, **kw),
                    v_proj=weight(kv, d_model, **kw),
                    o_proj=weight(d_model, d_model, **kw),
                ),
                ffn_norm=weight(d_model, **kw),
                ffn=group(
                    w1=weight(d_ff, d_model, **kw), w2=weight(d_model, d_ff, **kw), w3=weight(d_ff, d_model, **kw)
                ),
            )
            for _ in range(num_layers)
        )
        self.final_norm = weight(d_model, **kw)
        self.lm_head = weight(vocab_size, d_model, **kw)
        angle = torch.arange(max_seq_len).double()[:, None] * theta ** (-torch.arange(0, size, 2).double() / size)
        c, s = angle.cos(), angle.sin()
        self.table = torch.stack([torch.stack([c, -s], -1), torch.stack([s, c], -1)], -2)

    def forward(self, token_ids):
        seq = token_ids.shape[-1]
        if seq > self.max_seq_len:
            raise ValueError(f"seq {seq} > max_seq_len {self.max_seq_len}")
        table = self.token_embedding.weight
        x = table[token_ids.long()].to(torch.promote_types(table.dtype, torch.float32))
        turns = self.table[:seq].to(x.device)
        for layer in self.layers:
            x = x + attention(norm(x, layer.attn_norm, self.eps), layer.attn, self.num_heads, turns)
            h = norm(x, layer.ffn_norm, self.eps)
            gate = linear(h, layer.ffn.w1)
            x = x + linear(gate * torch.sigmoid(gate) * linear(h, layer.ffn.w3), layer.ffn.w2)
        return linear(norm(x, self.final_norm, self.eps), self.lm_head).to(table.dtype)
