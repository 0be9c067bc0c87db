# robust: Masked rows, Half precision, Errors: a memory of padding alone is averaged, float16 does not hold the fill of
# -1e9, and assertions are gone under `python -O`.
"""The annotated transformer: `subsequent_mask`, and a decoder layer of three sublayer connections."""

# with blocks/encoder_layer/annotated_transformer


def subsequent_mask(size, device):
    attn_shape = (1, size, size)
    return torch.triu(torch.ones(attn_shape, device=device), diagonal=1).type(torch.uint8) == 0


class DecoderLayer(Layer):
    attentions, norms = ("self_attn", "cross_attn"), ("self_attn_norm", "cross_attn_norm", "ffn_norm")

    def forward(self, x, memory, memory_padding=None):
        m, tgt_mask = memory, subsequent_mask(x.size(1), x.device)
        src_mask = None if memory_padding is None else memory_padding.unsqueeze(-2)
        x = self.sublayer(x, self.self_attn_norm, lambda x: self.self_attn(x, x, x, tgt_mask))
        x = self.sublayer(x, self.cross_attn_norm, lambda x: self.cross_attn(x, m, m, src_mask))
        return self.sublayer(x, self.ffn_norm, self.ffn)
