"""Layers of heads by einops, one function that embeds both languages."""

# with blocks/decoder_layer/einops_and_shared_residual
# with positions/absolute_positions


class Seq2SeqTransformer(nn.Module):
    def __init__(self, src_vocab, tgt_vocab, d_model, num_layers, num_heads, d_ff, max_len, dropout=0.0, **kind):
        super().__init__()
        self.src_embedding, self.tgt_embedding = (nn.Embedding(n, d_model, **kind) for n in (src_vocab, tgt_vocab))
        layers = lambda one: nn.ModuleList(one(d_model, num_heads, d_ff, dropout, **kind) for _ in range(num_layers))
        self.encoder_layers, self.decoder_layers = layers(EncoderLayer), layers(DecoderLayer)
        self.lm_head = nn.Linear(d_model, tgt_vocab, bias=False, **kind)
        self.positions, self.dropout = SinusoidalPositions(max_len, d_model), nn.Dropout(dropout)

    def embed(self, ids, embedding):
        x = embedding(ids)
        return self.dropout(self.positions(x * x.shape[-1] ** 0.5))

    def forward(self, src_ids, tgt_ids, src_padding=None):
        memory, x = self.embed(src_ids, self.src_embedding), self.embed(tgt_ids, self.tgt_embedding)
        for layer in self.encoder_layers:
            memory = layer(memory, src_padding)
        for layer in self.decoder_layers:
            x = layer(x, memory, src_padding)
        return self.lm_head(x)
