"""Layers by einsum, with a norm of its own; one sum of tokens and positions for both languages."""

# with blocks/decoder_layer/einsum_and_own_norm
# with positions/absolute_positions


class Seq2SeqTransformer(nn.Module):
    def __init__(self, src_vocab, tgt_vocab, d_model, num_layers, num_heads, d_ff, max_len, dropout=0.0, **kind):
        super().__init__()
        self.positions = SinusoidalPositions(max_len, d_model, device=kind.get("device"))
        self.src_embedding = nn.Embedding(src_vocab, d_model, **kind)
        self.tgt_embedding = nn.Embedding(tgt_vocab, d_model, **kind)
        self.encoder_layers, self.decoder_layers = nn.ModuleList(), nn.ModuleList()
        for _ in range(num_layers):
            self.encoder_layers.append(EncoderLayer(d_model, num_heads, d_ff, dropout, **kind))
            self.decoder_layers.append(DecoderLayer(d_model, num_heads, d_ff, dropout, **kind))
        self.lm_head = nn.Linear(d_model, tgt_vocab, bias=False, **kind)
        self.dropout, self.scale = nn.Dropout(dropout), math.sqrt(d_model)

    def forward(self, src_ids, tgt_ids, src_padding=None):
        m = self.dropout(self.positions(self.src_embedding(src_ids) * self.scale))
        for layer in self.encoder_layers:
            m = layer(m, src_padding)
        y = self.dropout(self.positions(self.tgt_embedding(tgt_ids) * self.scale))
        for layer in self.decoder_layers:
            y = layer(y, m, src_padding)
        return self.lm_head(y)
