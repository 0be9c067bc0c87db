"""Heads by einops, the residual and its norm in one place."""

# with blocks/encoder_layer/einops_and_shared_residual


class DecoderLayer(PostNorm):
    def __init__(self, d_model, num_heads, d_ff, dropout=0.0, eps=1e-12, **kind):
        super().__init__()
        self.self_attn, self.cross_attn = (Attention(d_model, num_heads, **kind) for _ in range(2))
        self.ffn, self.dropout = FeedForward(d_model, d_ff, dropout, **kind), nn.Dropout(dropout)
        for name in ("self_attn_norm", "cross_attn_norm", "ffn_norm"):
            self.add_module(name, nn.LayerNorm(d_model, eps, **kind))

    def forward(self, x, memory, memory_padding=None):
        place = torch.arange(x.shape[1], device=x.device)
        mask = None if memory_padding is None else rearrange(memory_padding, "b s -> b 1 1 s")
        x = self.add(x, self.self_attn(x, x, place[:, None] >= place), self.self_attn_norm)
        x = self.add(x, self.cross_attn(x, memory, mask), self.cross_attn_norm)
        return self.add(x, self.ffn(x), self.ffn_norm)
