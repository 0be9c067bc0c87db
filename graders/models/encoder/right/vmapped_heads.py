"""Layers with heads by vmap, and the first rows of the table of positions."""

# with blocks/encoder_layer/vmapped_heads


class TransformerEncoder(nn.Module):
    def __init__(self, vocab_size, d_model, num_layers, num_heads, d_ff, max_len, dropout=0.0, **kind):
        super().__init__()
        self.max_len, self.drop = max_len, nn.Dropout(dropout)
        self.token_embedding = nn.Embedding(vocab_size, d_model, **kind)
        self.position_embedding = nn.Embedding(max_len, d_model, **kind)
        self.embedding_norm = LayerNorm(d_model, 1e-12, **kind)
        sizes = (d_model, num_heads, d_ff, dropout)
        self.layers = nn.ModuleList([EncoderLayer(*sizes, **kind) for _ in range(num_layers)])

    def forward(self, token_ids, padding=None):
        if token_ids.size(1) > self.max_len:
            raise ValueError(f"{token_ids.size(1)} > {self.max_len}")
        rows = self.position_embedding.weight[: token_ids.size(1)]
        x = self.drop(self.embedding_norm(self.token_embedding(token_ids) + rows))
        for layer in self.layers:
            x = layer(x, padding=padding)
        return x
