"""Object style: embeddings that know their positions, the library's attention."""

# with blocks/decoder_layer/fused_attention
# with positions/absolute_positions


class Embed(nn.Embedding):
    def __init__(self, vocab, d_model, max_len, dropout, **factory):
        super().__init__(vocab, d_model, **factory)
        self.place, self.drop = SinusoidalPositions(max_len, d_model), nn.Dropout(dropout)

    def forward(self, ids):
        return self.drop(self.place(super().forward(ids) * self.embedding_dim**0.5))


class Seq2SeqTransformer(nn.Module):
    def __init__(self, src_vocab, tgt_vocab, d_model, num_layers, num_heads, d_ff, max_len, dropout=0.0, **factory):
        super().__init__()
        self.src_embedding = Embed(src_vocab, d_model, max_len, dropout, **factory)
        self.tgt_embedding = Embed(tgt_vocab, d_model, max_len, dropout, **factory)
        sizes = (d_model, num_heads, d_ff, dropout)
        self.encoder_layers = nn.ModuleList([EncoderLayer(*sizes, **factory) for _ in range(num_layers)])
        self.decoder_layers = nn.ModuleList([DecoderLayer(*sizes, **factory) for _ in range(num_layers)])
        self.lm_head = nn.Linear(d_model, tgt_vocab, bias=False, **factory)

    def forward(self, src_ids, tgt_ids, src_padding=None):
        memory, x = self.src_embedding(src_ids), self.tgt_embedding(tgt_ids)
        for layer in self.encoder_layers:
            memory = layer(memory, src_padding)
        for layer in self.decoder_layers:
            x = layer(x, memory, src_padding)
        return self.lm_head(x)
