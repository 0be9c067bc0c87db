"""nn.TransformerDecoderLayer's own way: `_sa_block`, `_mha_block` and `_ff_block`, each with a dropout of its own."""

# with blocks/encoder_layer/nn_transformer_encoder_layer


class DecoderLayer(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, dropout=0.0, eps=1e-12, *, device=None, dtype=None):
        factory_kwargs = {"device": device, "dtype": dtype}
        super().__init__()
        self.self_attn = MultiheadAttention(d_model, num_heads, dropout=dropout, **factory_kwargs)
        self.cross_attn = MultiheadAttention(d_model, num_heads, dropout=dropout, **factory_kwargs)
        self.ffn = FeedForward(d_model, d_ff, dropout, **factory_kwargs)
        self.self_attn_norm = nn.LayerNorm(d_model, eps=eps, **factory_kwargs)
        self.cross_attn_norm = nn.LayerNorm(d_model, eps=eps, **factory_kwargs)
        self.ffn_norm = nn.LayerNorm(d_model, eps=eps, **factory_kwargs)
        self.dropout1 = nn.Dropout(dropout)
        self.dropout2 = nn.Dropout(dropout)
        self.dropout3 = nn.Dropout(dropout)

    def forward(self, tgt, memory, memory_padding=None):
        memory_key_padding_mask = None if memory_padding is None else ~memory_padding
        x = tgt
        x = self.self_attn_norm(x + self._sa_block(x))
        x = self.cross_attn_norm(x + self._mha_block(x, memory, memory_key_padding_mask))
        x = self.ffn_norm(x + self._ff_block(x))
        return x

    def _sa_block(self, x):
        return self.dropout1(self.self_attn(x, x, x, is_causal=True))

    def _mha_block(self, x, mem, key_padding_mask):
        return self.dropout2(self.cross_attn(x, mem, mem, key_padding_mask=key_padding_mask))

    def _ff_block(self, x):
        return self.dropout3(self.ffn(x))
