"""Layers with heads by vmap, one class for both stacks."""

# with blocks/decoder_layer/vmapped_heads
# with positions/absolute_positions


class Stack(nn.ModuleList):
    """Layers of a kind, run one after the other with the same company."""

    def forward(self, x, *company):
        for layer in self:
            x = layer(x, *company)
        return x


class Seq2SeqTransformer(nn.Module):
    def __init__(self, src_vocab, tgt_vocab, d_model, num_layers, num_heads, d_ff, max_len, dropout=0.0, **kind):
        super().__init__()
        self.positions, self.drop = SinusoidalPositions(max_len, d_model), nn.Dropout(dropout)
        self.src_embedding = nn.Embedding(src_vocab, d_model, **kind)
        self.tgt_embedding = nn.Embedding(tgt_vocab, d_model, **kind)
        sizes = (d_model, num_heads, d_ff, dropout)
        self.encoder_layers = Stack([EncoderLayer(*sizes, **kind) for _ in range(num_layers)])
        self.decoder_layers = Stack([DecoderLayer(*sizes, **kind) for _ in range(num_layers)])
        self.lm_head = nn.Linear(d_model, tgt_vocab, bias=False, **kind)

    def place(self, rows):
        return self.drop(self.positions(rows * math.sqrt(rows.shape[-1])))

    def forward(self, src_ids, tgt_ids, src_padding=None):
        memory = self.encoder_layers(self.place(self.src_embedding(src_ids)), src_padding)
        return self.lm_head(self.decoder_layers(self.place(self.tgt_embedding(tgt_ids)), memory, src_padding))
