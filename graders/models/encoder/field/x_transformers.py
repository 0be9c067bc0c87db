"""As x-transformers' wrapper: rows of positions by slice, `post_emb_norm`, then the layers."""

# with blocks/encoder_layer/x_transformers


class TransformerEncoder(nn.Module):
    def __init__(self, vocab_size, d_model, num_layers, num_heads, d_ff, max_len, dropout=0.0, **kw):
        super().__init__()
        self.max_seq_len = max_len
        self.token_embedding = nn.Embedding(vocab_size, d_model, **kw)
        self.position_embedding = nn.Embedding(max_len, d_model, **kw)
        self.embedding_norm, self.emb_dropout = nn.LayerNorm(d_model, 1e-12, **kw), nn.Dropout(dropout)
        self.layers = nn.ModuleList([EncoderLayer(d_model, num_heads, d_ff, dropout, **kw) for _ in range(num_layers)])

    def forward(self, x, padding=None):
        seq_len = x.shape[1]
        if seq_len > self.max_seq_len:
            raise ValueError(f"a sequence length of {seq_len}, but a max sequence length of {self.max_seq_len}")
        x = self.token_embedding(x) + self.position_embedding.weight[:seq_len]
        x = self.emb_dropout(self.embedding_norm(x))
        for layer in self.layers:
            x = layer(x, padding)
        return x
