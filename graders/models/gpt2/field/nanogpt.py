# robust: Errors: both are assertions, and one of them names no number.
"""As nanoGPT: a ModuleDict, one split of `c_attn`, fused attention, and the tie from `lm_head` to `wte`."""

import torch
from torch import nn
from torch.nn import functional as F


class Conv1D(nn.Linear):
    def __init__(self, in_features, out_features, **kw):
        super().__init__(in_features, out_features, **kw)
        self.weight = nn.Parameter(self.weight.detach().t().contiguous())

    def forward(self, x):
        return x @ self.weight + self.bias


class CausalSelfAttention(nn.Module):
    def __init__(self, n_embd, n_head, **kw):
        super().__init__()
        assert n_embd % n_head == 0
        self.c_attn, self.c_proj = Conv1D(n_embd, 3 * n_embd, **kw), Conv1D(n_embd, n_embd, **kw)
        self.n_head, self.n_embd = n_head, n_embd

    def forward(self, x):
        B, T, C = x.size()
        q, k, v = self.c_attn(x).split(self.n_embd, dim=2)
        k = k.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        q = q.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        v = v.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=None, dropout_p=0, is_causal=True)
        return self.c_proj(y.transpose(1, 2).contiguous().view(B, T, C))


class MLP(nn.Module):
    def __init__(self, n_embd, **kw):
        super().__init__()
        self.c_fc, self.c_proj = Conv1D(n_embd, 4 * n_embd, **kw), Conv1D(4 * n_embd, n_embd, **kw)
        self.gelu = nn.GELU(approximate="tanh")

    def forward(self, x):
        return self.c_proj(self.gelu(self.c_fc(x)))


class Block(nn.Module):
    def __init__(self, n_embd, n_head, **kw):
        super().__init__()
        self.ln_1, self.attn = nn.LayerNorm(n_embd, **kw), CausalSelfAttention(n_embd, n_head, **kw)
        self.ln_2, self.mlp = nn.LayerNorm(n_embd, **kw), MLP(n_embd, **kw)

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class GPT2(nn.Module):
    def __init__(self, vocab_size, max_len, d_model, num_layers, num_heads, *, device=None, dtype=None):
        super().__init__()
        self.block_size, kw = max_len, {"device": device, "dtype": dtype}
        self.transformer = nn.ModuleDict(
            dict(
                wte=nn.Embedding(vocab_size, d_model, **kw),
                wpe=nn.Embedding(max_len, d_model, **kw),
                h=nn.ModuleList([Block(d_model, num_heads, **kw) for _ in range(num_layers)]),
                ln_f=nn.LayerNorm(d_model, **kw),
            )
        )
        self.lm_head = nn.Linear(d_model, vocab_size, bias=False, **kw)
        self.transformer.wte.weight = self.lm_head.weight

    def forward(self, idx):
        b, t = idx.size()
        assert t <= self.block_size, f"Cannot forward sequence of length {t}, block size is only {self.block_size}"
        pos = torch.arange(0, t, dtype=torch.long, device=idx.device)
        x = self.transformer.wte(idx) + self.transformer.wpe(pos)
        for block in self.transformer.h:
            x = block(x)
        return self.lm_head(self.transformer.ln_f(x))
