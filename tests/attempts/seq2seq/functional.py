import torch
import torch.nn.functional as F
from torch import nn


class _Part(nn.Module):
    """A bag of linear layers."""

    def __init__(self, **shapes):
        super().__init__()
        factory = shapes.pop("factory")
        for name, (n_in, n_out) in shapes.items():
            self.add_module(name, nn.Linear(n_in, n_out, **factory))


class DecoderLayer(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, dropout=0.0, eps=1e-12, device=None, dtype=None):
        super().__init__()
        if d_model % num_heads:
            raise ValueError("num_heads %d does not divide d_model %d" % (num_heads, d_model))
        self.num_heads, self.p = num_heads, dropout
        factory = dict(device=device, dtype=dtype)
        square = (d_model, d_model)
        self.self_attn = _Part(q_proj=square, k_proj=square, v_proj=square, o_proj=square, factory=factory)
        self.cross_attn = _Part(q_proj=square, k_proj=square, v_proj=square, o_proj=square, factory=factory)
        self.ffn = _Part(fc1=(d_model, d_ff), fc2=(d_ff, d_model), factory=factory)
        self.self_attn_norm = nn.LayerNorm(d_model, eps, **factory)
        self.cross_attn_norm = nn.LayerNorm(d_model, eps, **factory)
        self.ffn_norm = nn.LayerNorm(d_model, eps, **factory)

    def attend(self, a, q, kv, seen):
        heads = lambda t: t.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        q = heads(a.q_proj(q))
        k, v = heads(
            F.linear(kv, torch.cat([a.k_proj.weight, a.v_proj.weight]), torch.cat([a.k_proj.bias, a.v_proj.bias]))
            .unflatten(-1, (2, -1))
            .movedim(-2, 0)
            .flatten(0, 1)
        ).unflatten(0, (2, -1))
        wide = torch.promote_types(q.dtype, torch.float32)
        scores = torch.matmul(q.to(wide) * q.shape[-1] ** -0.5, k.to(wide).mT)
        scores = torch.where(seen, scores, torch.finfo(wide).min)
        weights = F.softmax(scores, -1) * seen
        out = (F.dropout(weights, self.p, self.training) @ v.to(wide)).to(q.dtype)
        return a.o_proj(out.transpose(1, 2).flatten(2))

    def forward(self, x, memory, memory_padding=None):
        drop = lambda t: F.dropout(t, self.p, self.training)
        past = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).tril()
        if memory_padding is None:
            memory_padding = torch.ones(memory.shape[:2], dtype=torch.bool, device=x.device)
        x = self.self_attn_norm(x + drop(self.attend(self.self_attn, x, x, past)))
        x = self.cross_attn_norm(x + drop(self.attend(self.cross_attn, x, memory, memory_padding[:, None, None])))
        return self.ffn_norm(x + drop(self.ffn.fc2(drop(F.gelu(self.ffn.fc1(x))))))


class EncoderLayer(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, dropout=0.0, eps=1e-12, device=None, dtype=None):
        super().__init__()
        if d_model % num_heads:
            raise ValueError("num_heads %d does not divide d_model %d" % (num_heads, d_model))
        self.num_heads, self.p = num_heads, dropout
        factory = dict(device=device, dtype=dtype)
        square = (d_model, d_model)
        self.self_attn = _Part(q_proj=square, k_proj=square, v_proj=square, o_proj=square, factory=factory)
        self.ffn = _Part(fc1=(d_model, d_ff), fc2=(d_ff, d_model), factory=factory)
        self.attn_norm = nn.LayerNorm(d_model, eps, **factory)
        self.ffn_norm = nn.LayerNorm(d_model, eps, **factory)

    def attend(self, x, padding):
        a = self.self_attn
        weight = torch.cat([a.q_proj.weight, a.k_proj.weight, a.v_proj.weight])
        bias = torch.cat([a.q_proj.bias, a.k_proj.bias, a.v_proj.bias])
        qkv = F.linear(x, weight, bias).unflatten(-1, (3, self.num_heads, -1))
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        wide = torch.promote_types(x.dtype, torch.float32)
        scores = torch.matmul(q.to(wide) * q.shape[-1] ** -0.5, k.to(wide).mT)
        if padding is not None:
            seen = padding[:, None, None, :].expand_as(scores)
            scores = scores.masked_fill(seen.logical_not(), torch.finfo(wide).min)
        weights = F.softmax(scores, -1)
        if padding is not None:
            weights = weights * seen
        out = (F.dropout(weights, self.p, self.training) @ v.to(wide)).to(x.dtype)
        return a.o_proj(out.transpose(1, 2).flatten(2))

    def forward(self, x, padding=None):
        drop = lambda t: F.dropout(t, self.p, self.training)
        x = self.attn_norm(x + drop(self.attend(x, padding)))
        return self.ffn_norm(x + drop(self.ffn.fc2(drop(F.gelu(self.ffn.fc1(x))))))


class Seq2SeqTransformer(nn.Module):
    def __init__(
        self, src_vocab, tgt_vocab, d_model, num_layers, num_heads, d_ff, max_len, dropout=0.0, device=None, dtype=None
    ):
        super().__init__()
        if d_model % 2 != 0:
            raise ValueError("d_model is %d, which is odd" % d_model)
        self.p, self.max_len = dropout, max_len
        f = dict(device=device, dtype=dtype)
        self.src_embedding, self.tgt_embedding = (
            nn.Embedding(src_vocab, d_model, **f),
            nn.Embedding(tgt_vocab, d_model, **f),
        )
        self.encoder_layers = nn.ModuleList(
            EncoderLayer(d_model, num_heads, d_ff, dropout, **f) for _ in range(num_layers)
        )
        self.decoder_layers = nn.ModuleList(
            DecoderLayer(d_model, num_heads, d_ff, dropout, **f) for _ in range(num_layers)
        )
        self.lm_head = nn.Linear(d_model, tgt_vocab, bias=False, **f)
        half = torch.arange(d_model // 2).double()
        angle = torch.arange(max_len).double()[:, None] / 10000.0 ** (2 * half / d_model)
        self.waves = torch.stack((angle.sin(), angle.cos()), -1).reshape(max_len, d_model)

    def embed(self, table, ids):
        n = ids.shape[1]
        if n > self.max_len:
            raise ValueError("%d tokens are too many: max_len is %d" % (n, self.max_len))
        x = F.embedding(ids, table.weight)
        wide = torch.promote_types(x.dtype, torch.float32)
        x = torch.add(self.waves[:n].to(x.device, wide), x.to(wide), alpha=x.shape[-1] ** 0.5).to(x.dtype)
        return F.dropout(x, self.p, self.training)

    def encode(self, src_ids, src_padding=None):
        x = self.embed(self.src_embedding, src_ids)
        for layer in self.encoder_layers:
            x = layer(x, src_padding)
        return x

    def forward(self, src_ids, tgt_ids, src_padding=None):
        memory, x = self.encode(src_ids, src_padding), self.embed(self.tgt_embedding, tgt_ids)
        for layer in self.decoder_layers:
            x = layer(x, memory, src_padding)
        return F.linear(x, self.lm_head.weight)
