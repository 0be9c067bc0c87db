"""Attention and feed-forward layer by einsum, a norm of its own, dropout of the weights."""

# with basics/layernorm/var_mean
# with feedforward/gelu_ffn/einsum_and_bernoulli


class Attention(nn.Module):
    def __init__(self, d_model, heads, p, **kind):
        if d_model % heads != 0:
            raise ValueError(f"d_model={d_model} is not divisible by num_heads={heads}")
        super().__init__()
        self.h, self.drop = heads, nn.Dropout(p)
        for name in ("q_proj", "k_proj", "v_proj", "o_proj"):
            setattr(self, name, nn.Linear(d_model, d_model, **kind))

    def forward(self, x, source, allowed):
        q, k, v = self.q_proj(x), self.k_proj(source), self.v_proj(source)
        q, k, v = (t.unflatten(-1, (self.h, -1)).float() for t in (q, k, v))
        scores = torch.einsum("bqhd,bkhd->bhqk", q, k) / math.sqrt(q.shape[-1])
        if allowed is not None:
            alive = allowed.any(-1, keepdim=True)
            weights = scores.masked_fill(~allowed & alive, -torch.inf).softmax(-1) * alive
        else:
            weights = scores.softmax(-1)
        return self.o_proj(torch.einsum("bhqk,bkhd->bqhd", self.drop(weights), v).flatten(-2).to(x.dtype))


class EncoderLayer(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, dropout=0.0, eps=1e-12, *, device=None, dtype=None):
        super().__init__()
        self.self_attn = Attention(d_model, num_heads, dropout, device=device, dtype=dtype)
        self.ffn = FeedForward(d_model, d_ff, dropout, device=device, dtype=dtype)
        self.attn_norm = LayerNorm(d_model, eps, device, dtype)
        self.ffn_norm = LayerNorm(d_model, eps, device, dtype)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x, padding=None):
        seen = None if padding is None else padding[:, None, None]
        h = self.attn_norm(x + self.dropout(self.self_attn(x, x, seen)))
        return self.ffn_norm(h + self.dropout(self.ffn(h)))
