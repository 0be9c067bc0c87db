"""Heads by einops, the residual and its norm in one place, sinusoids from angles in float64."""

import torch
from einops import einsum, rearrange
from torch import nn


class Attention(nn.Module):
    """Heads by einops; one function for itself, for a memory, with and without a mask."""

    def __init__(self, d_model, num_heads, bias, **kind):
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"num_heads {num_heads} does not divide d_model {d_model}")
        self.h = num_heads
        self.q_proj = nn.Linear(d_model, d_model, bias=bias, **kind)
        self.k_proj = nn.Linear(d_model, d_model, bias=bias, **kind)
        self.v_proj = nn.Linear(d_model, d_model, bias=bias, **kind)
        self.o_proj = nn.Linear(d_model, d_model, bias=bias, **kind)

    def forward(self, x, source, mask=None):
        work = torch.promote_types(x.dtype, torch.float32)
        q = rearrange(self.q_proj(x), "b t (h d) -> b h t d", h=self.h).to(work)
        k = rearrange(self.k_proj(source), "b s (h d) -> b h s d", h=self.h).to(work)
        v = rearrange(self.v_proj(source), "b s (h d) -> b h s d", h=self.h).to(work)
        scores = einsum(q, k, "b h t d, b h s d -> b h t s") / q.shape[-1] ** 0.5
        if mask is not None:
            scores = torch.where(mask, scores, -1e30)
        weights = scores.softmax(dim=-1)
        if mask is not None:
            weights = torch.where(mask, weights, 0.0)
        out = einsum(weights, v, "b h t s, b h s d -> b h t d")
        return self.o_proj(rearrange(out, "b h t d -> b t (h d)").to(x.dtype))


class FeedForward(nn.Module):
    def __init__(self, d_model, d_ff, dropout, **kind):
        super().__init__()
        self.fc1 = nn.Linear(d_model, d_ff, **kind)
        self.fc2 = nn.Linear(d_ff, d_model, **kind)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        return self.fc2(self.dropout(nn.functional.gelu(self.fc1(x))))


class PostNorm(nn.Module):
    """norm(x + dropout(branch)) as a function that the layers call."""

    def add(self, x, branch, norm):
        return norm(x + self.dropout(branch))


class EncoderLayer(PostNorm):
    def __init__(self, d_model, num_heads, d_ff, dropout=0.0, eps=1e-12, *, device=None, dtype=None):
        super().__init__()
        kind = {"device": device, "dtype": dtype}
        self.self_attn = Attention(d_model, num_heads, True, **kind)
        self.ffn = FeedForward(d_model, d_ff, dropout, **kind)
        self.attn_norm = nn.LayerNorm(d_model, eps, **kind)
        self.ffn_norm = nn.LayerNorm(d_model, eps, **kind)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x, padding=None):
        mask = None if padding is None else rearrange(padding, "b s -> b 1 1 s")
        x = self.add(x, self.self_attn(x, x, mask), self.attn_norm)
        return self.add(x, self.ffn(x), self.ffn_norm)


class DecoderLayer(PostNorm):
    def __init__(self, d_model, num_heads, d_ff, dropout=0.0, eps=1e-12, *, device=None, dtype=None):
        super().__init__()
        kind = {"device": device, "dtype": dtype}
        self.self_attn = Attention(d_model, num_heads, True, **kind)
        self.cross_attn = Attention(d_model, num_heads, True, **kind)
        self.ffn = FeedForward(d_model, d_ff, dropout, **kind)
        self.self_attn_norm = nn.LayerNorm(d_model, eps, **kind)
        self.cross_attn_norm = nn.LayerNorm(d_model, eps, **kind)
        self.ffn_norm = nn.LayerNorm(d_model, eps, **kind)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x, memory, memory_padding=None):
        place = torch.arange(x.shape[1], device=x.device)
        mask = None if memory_padding is None else rearrange(memory_padding, "b s -> b 1 1 s")
        x = self.add(x, self.self_attn(x, x, place[:, None] >= place), self.self_attn_norm)
        x = self.add(x, self.cross_attn(x, memory, mask), self.cross_attn_norm)
        return self.add(x, self.ffn(x), self.ffn_norm)


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
        if d_model % 2:
            raise ValueError(f"d_model {d_model} is odd")
        kind = {"device": device, "dtype": dtype}
        self.src_embedding, self.tgt_embedding = (nn.Embedding(n, d_model, **kind) for n in (src_vocab, tgt_vocab))
        layers = lambda one: nn.ModuleList(one(d_model, num_heads, d_ff, dropout, **kind) for _ in range(num_layers))
        self.encoder_layers, self.decoder_layers = layers(EncoderLayer), layers(DecoderLayer)
        self.lm_head = nn.Linear(d_model, tgt_vocab, bias=False, **kind)
        self.dropout = nn.Dropout(dropout)
        speed = 10000.0 ** -(torch.arange(0, d_model, 2).double() / d_model)
        angle = torch.arange(max_len).double()[:, None] * speed
        self.sinusoids = rearrange([angle.sin(), angle.cos()], "two t p -> t (p two)")

    def embed(self, ids, embedding):
        if ids.shape[1] > len(self.sinusoids):
            raise ValueError(f"{ids.shape[1]} tokens, but max_len is {len(self.sinusoids)}")
        x = embedding(ids)
        wide = torch.promote_types(x.dtype, torch.float32)
        table = self.sinusoids[: ids.shape[1]].to(x.device, wide)
        return self.dropout((x.to(wide) * x.shape[-1] ** 0.5 + table).to(x.dtype))

    def forward(self, src_ids, tgt_ids, src_padding=None):
        memory, x = self.embed(src_ids, self.src_embedding), self.embed(tgt_ids, self.tgt_embedding)
        for layer in self.encoder_layers:
            memory = layer(memory, src_padding)
        for layer in self.decoder_layers:
            x = layer(x, memory, src_padding)
        return self.lm_head(x)
