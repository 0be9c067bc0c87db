"""As x-transformers: the encoder's loop over layers, with cross-attention "c" between "a" and "f"."""

# with blocks/encoder_layer/x_transformers


class DecoderLayer(AttentionLayers):
    layer_types = {
        "a": ("self_attn", "self_attn_norm"),
        "c": ("cross_attn", "cross_attn_norm"),
        "f": ("ffn", "ffn_norm"),
    }

    def forward(self, x, memory, memory_padding=None):
        i = x.shape[1]
        causal_mask = torch.ones((i, i), device=x.device, dtype=torch.bool).triu(1)
        return self.run(x, memory, ~causal_mask, key_padding_mask(memory_padding))
