# robust: Masked rows, Half precision, Errors: a row of padding alone is averaged, float16 does not hold the fill of -1e9,
# heads that do not divide are an assertion, and too long a sequence an error of shapes.
"""BERT of the annotated transformer's parts, as in the many small repositories that began with it."""

# with blocks/encoder_layer/annotated_transformer


class TransformerEncoder(nn.Module):
    def __init__(self, vocab_size, d_model, num_layers, num_heads, d_ff, max_len, dropout=0.0, **kw):
        super().__init__()
        self.token_embedding = nn.Embedding(vocab_size, d_model, **kw)
        self.position_embedding = nn.Embedding(max_len, d_model, **kw)
        self.embedding_norm = nn.LayerNorm(d_model, 1e-12, **kw)
        self.dropout = nn.Dropout(p=dropout)
        layer = EncoderLayer(d_model, num_heads, d_ff, dropout, **kw)
        self.layers = nn.ModuleList(clones(layer, num_layers))

    def embedding(self, sequence):
        x = self.token_embedding(sequence) + self.position_embedding.weight[: sequence.size(1)]
        return self.dropout(self.embedding_norm(x))

    def forward(self, x, padding=None):
        x = self.embedding(x)
        for transformer in self.layers:
            x = transformer(x, padding)
        return x
