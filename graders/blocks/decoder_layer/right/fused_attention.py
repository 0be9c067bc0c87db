"""Object style out of the library: its attention, which knows causality, its norm, its activation."""

# with blocks/encoder_layer/fused_attention


class DecoderLayer(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, dropout=0.0, eps=1e-12, *, device=None, dtype=None):
        super().__init__()
        factory = {"device": device, "dtype": dtype}
        self.self_attn = Attention(d_model, num_heads, dropout, **factory)
        self.cross_attn = Attention(d_model, num_heads, dropout, **factory)
        self.ffn = FeedForward(d_model, d_ff, dropout, **factory)
        self.self_attn_norm = nn.LayerNorm(d_model, eps=eps, **factory)
        self.cross_attn_norm = nn.LayerNorm(d_model, eps=eps, **factory)
        self.ffn_norm = nn.LayerNorm(d_model, eps=eps, **factory)
        self.drop = nn.Dropout(dropout)

    def forward(self, x, memory, memory_padding=None):
        x = self.self_attn_norm(x + self.drop(self.self_attn(x, x, causal=True)))
        x = self.cross_attn_norm(x + self.drop(self.cross_attn(x, memory, memory_padding)))
        return self.ffn_norm(x + self.drop(self.ffn(x)))
