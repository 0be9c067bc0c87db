"""Attention and feed-forward layer by einsum, a norm of its own, dropout of the weights."""

# with blocks/encoder_layer/einsum_and_own_norm


class DecoderLayer(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, dropout=0.0, eps=1e-12, *, device=None, dtype=None):
        super().__init__()
        self.self_attn = Attention(d_model, num_heads, dropout, device=device, dtype=dtype)
        self.cross_attn = Attention(d_model, num_heads, dropout, device=device, dtype=dtype)
        self.ffn = FeedForward(d_model, d_ff, dropout, device=device, dtype=dtype)
        self.self_attn_norm = LayerNorm(d_model, eps, device, dtype)
        self.cross_attn_norm = LayerNorm(d_model, eps, device, dtype)
        self.ffn_norm = LayerNorm(d_model, eps, device, dtype)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x, memory, memory_padding=None):
        index = torch.arange(x.shape[1], device=x.device)
        past = index[None, :] <= index[:, None]
        h = self.self_attn_norm(x + self.dropout(self.self_attn(x, x, past[None, None])))
        real = None if memory_padding is None else memory_padding[:, None, None, :]
        h = self.cross_attn_norm(h + self.dropout(self.cross_attn(h, memory, real)))
        return self.ffn_norm(h + self.dropout(self.ffn(h)))
