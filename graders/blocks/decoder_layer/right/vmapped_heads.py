"""vmap over heads and entries, a norm of one vector at a time, branches in a row."""

# with blocks/encoder_layer/vmapped_heads


class DecoderLayer(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, dropout=0.0, eps=1e-12, *, device=None, dtype=None):
        super().__init__()
        kind = {"device": device, "dtype": dtype}
        self.self_attn, self.cross_attn = (MultiHeadAttention(d_model, num_heads, bias=True, **kind) for _ in range(2))
        self.ffn, self.drop = FFN(d_model, d_ff, dropout, **kind), nn.Dropout(dropout)
        for name in ("self_attn_norm", "cross_attn_norm", "ffn_norm"):
            self.register_module(name, LayerNorm(d_model, eps, **kind))

    def forward(self, x, memory, memory_padding=None):
        causal = torch.ones(x.shape[1], x.shape[1], device=x.device).tril().bool()
        mask = None if memory_padding is None else memory_padding[:, None, None, :]
        for norm, branch in (
            (self.self_attn_norm, lambda x: self.self_attn(x, mask=causal)),
            (self.cross_attn_norm, lambda x: self.cross_attn(x, memory, mask)),
            (self.ffn_norm, self.ffn),
        ):
            x = norm(x + self.drop(branch(x)))
        return x
