# robust: Errors: past the table of positions an embedding raises an IndexError.
"""Hugging Face's GPT-2 in eager mode: Conv1D by addmm, a mask of finfo.min in a buffer, NewGELU, weights tied last."""

import math

import torch
from torch import nn


class Conv1D(nn.Module):
    def __init__(self, nf, nx, **kw):
        super().__init__()
        self.nf = nf
        self.weight = nn.Parameter(torch.empty(nx, nf, **kw))
        self.bias = nn.Parameter(torch.zeros(nf, **kw))
        nn.init.normal_(self.weight, std=0.02)

    def forward(self, x):
        size_out = x.size()[:-1] + (self.nf,)
        x = torch.addmm(self.bias, x.reshape(-1, x.size(-1)), self.weight)
        return x.view(size_out)


class NewGELUActivation(nn.Module):
    def forward(self, x):
        return 0.5 * x * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * torch.pow(x, 3.0))))


class GPT2Attention(nn.Module):
    def __init__(self, embed_dim, num_heads, max_positions, **kw):
        super().__init__()
        if embed_dim % num_heads != 0:
            raise ValueError(f"`embed_dim` must be divisible by num_heads (got {embed_dim} and {num_heads})")
        mask = torch.tril(torch.ones((max_positions, max_positions), dtype=torch.bool, device=kw.get("device")))
        self.register_buffer("bias", mask.view(1, 1, max_positions, max_positions), persistent=False)
        self.split_size, self.head_dim = embed_dim, embed_dim // num_heads
        self.c_attn, self.c_proj = Conv1D(3 * embed_dim, embed_dim, **kw), Conv1D(embed_dim, embed_dim, **kw)

    def forward(self, hidden_states):
        shape = (*hidden_states.shape[:-1], -1, self.head_dim)
        query, key, value = (
            each.view(shape).transpose(1, 2) for each in self.c_attn(hidden_states).split(self.split_size, dim=2)
        )
        attn_weights = torch.matmul(query, key.transpose(-1, -2)) / value.size(-1) ** 0.5
        length = query.size(-2)
        causal_mask = self.bias[:, :, :length, :length]
        mask_value = torch.full([], torch.finfo(attn_weights.dtype).min, dtype=attn_weights.dtype, device=query.device)
        attn_weights = torch.where(causal_mask, attn_weights, mask_value)
        attn_weights = nn.functional.softmax(attn_weights, dim=-1).type(value.dtype)
        attn_output = torch.matmul(attn_weights, value).transpose(1, 2)
        return self.c_proj(attn_output.reshape(*attn_output.shape[:-2], -1).contiguous())


class GPT2MLP(nn.Module):
    def __init__(self, embed_dim, **kw):
        super().__init__()
        self.c_fc, self.c_proj = Conv1D(4 * embed_dim, embed_dim, **kw), Conv1D(embed_dim, 4 * embed_dim, **kw)
        self.act = NewGELUActivation()

    def forward(self, hidden_states):
        return self.c_proj(self.act(self.c_fc(hidden_states)))


class GPT2Block(nn.Module):
    def __init__(self, embed_dim, num_heads, max_positions, **kw):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(embed_dim, **kw), nn.LayerNorm(embed_dim, **kw)
        self.attn, self.mlp = GPT2Attention(embed_dim, num_heads, max_positions, **kw), GPT2MLP(embed_dim, **kw)

    def forward(self, hidden_states):
        hidden_states = self.attn(self.ln_1(hidden_states)) + hidden_states
        return hidden_states + self.mlp(self.ln_2(hidden_states))


class GPT2Model(nn.Module):
    def __init__(self, vocab_size, max_len, embed_dim, num_layers, num_heads, **kw):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocab_size, embed_dim, **kw), nn.Embedding(max_len, embed_dim, **kw)
        self.h = nn.ModuleList([GPT2Block(embed_dim, num_heads, max_len, **kw) for _ in range(num_layers)])
        self.ln_f = nn.LayerNorm(embed_dim, **kw)

    def forward(self, input_ids):
        position_ids = torch.arange(input_ids.shape[1], device=input_ids.device).unsqueeze(0)
        hidden_states = self.wte(input_ids) + self.wpe(position_ids)
        for block in self.h:
            hidden_states = block(hidden_states)
        return self.ln_f(hidden_states)


class GPT2(nn.Module):
    def __init__(self, vocab_size, max_len, d_model, num_layers, num_heads, *, device=None, dtype=None):
        super().__init__()
        self.transformer = GPT2Model(vocab_size, max_len, d_model, num_layers, num_heads, device=device, dtype=dtype)
        self.lm_head = nn.Linear(d_model, vocab_size, bias=False, device=device, dtype=dtype)
        self.lm_head.weight = self.transformer.wte.weight

    def forward(self, input_ids):
        return self.lm_head(self.transformer(input_ids))
