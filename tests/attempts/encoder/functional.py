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


class TransformerEncoder(nn.Module):
    def __init__(self, vocab_size, d_model, num_layers, num_heads, d_ff, max_len, dropout=0.0, device=None, dtype=None):
        super().__init__()
        self.p = dropout
        self.token_embedding = nn.Embedding(vocab_size, d_model, device=device, dtype=dtype)
        self.position_embedding = nn.Embedding(max_len, d_model, device=device, dtype=dtype)
        self.embedding_norm = nn.LayerNorm(d_model, 1e-12, device=device, dtype=dtype)
        self.layers = nn.ModuleDict(
            {
                str(i): EncoderLayer(d_model, num_heads, d_ff, dropout, device=device, dtype=dtype)
                for i in range(num_layers)
            }
        )

    def forward(self, token_ids, padding=None):
        places = self.position_embedding.weight
        if token_ids.shape[-1] > places.shape[0]:
            raise ValueError("%d tokens, at most %d" % (token_ids.shape[-1], places.shape[0]))
        x = F.embedding(token_ids, self.token_embedding.weight) + places.narrow(0, 0, token_ids.shape[-1])
        x = F.layer_norm(x, x.shape[-1:], self.embedding_norm.weight, self.embedding_norm.bias, 1e-12)
        x = F.dropout(x, self.p, self.training)
        for layer in self.layers.values():
            x = layer(x, padding)
        return x
