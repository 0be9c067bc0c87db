"""vmap over heads and entries, a norm of one vector at a time, GELU by erfc."""

import math

# with attention/mha/vmapped_heads
# with basics/layernorm/vmapped_vector


class FFN(nn.Module):
    def __init__(self, d_model, d_ff, dropout, **kind):
        super().__init__()
        self.p = dropout
        self.fc1, self.fc2 = nn.Linear(d_model, d_ff, **kind), nn.Linear(d_ff, d_model, **kind)

    def forward(self, x):
        h = self.fc1(x).to(torch.promote_types(x.dtype, torch.float32))
        h = (h * torch.special.erfc(-h / math.sqrt(2)) / 2).to(x.dtype)
        return self.fc2(nn.functional.dropout(h, self.p, self.training))


class EncoderLayer(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, dropout=0.0, eps=1e-12, *, device=None, dtype=None):
        super().__init__()
        kind = {"device": device, "dtype": dtype}
        self.self_attn = MultiHeadAttention(d_model, num_heads, bias=True, **kind)
        self.ffn, self.drop = FFN(d_model, d_ff, dropout, **kind), nn.Dropout(dropout)
        self.attn_norm, self.ffn_norm = LayerNorm(d_model, eps, **kind), LayerNorm(d_model, eps, **kind)

    def forward(self, x, padding=None):
        mask = None if padding is None else padding[:, None, None, :]
        x = self.attn_norm(x + self.drop(self.self_attn(x, mask=mask)))
        return self.ffn_norm(x + self.drop(self.ffn(x)))
