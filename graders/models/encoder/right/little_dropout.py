"""Little dropout: none on the embeddings, in the layers that of the feed-forward layer alone."""

# with blocks/encoder_layer/dropout_in_the_feed_forward_layer_alone


class TransformerEncoder(nn.Module):
    def __init__(self, vocab_size, d_model, num_layers, num_heads, d_ff, max_len, dropout=0.0, **kw):
        super().__init__()
        self.token_embedding, self.position_embedding = (nn.Embedding(n, d_model, **kw) for n in (vocab_size, max_len))
        self.embedding_norm = nn.LayerNorm(d_model, 1e-12, **kw)
        self.layers = nn.ModuleList(EncoderLayer(d_model, num_heads, d_ff, dropout, **kw) for _ in range(num_layers))

    def forward(self, token_ids, padding=None):
        n, pos = token_ids.shape[1], self.position_embedding.weight
        if n > len(pos):
            raise ValueError(f"seq {n} > max_len {len(pos)}")
        x = self.embedding_norm(self.token_embedding(token_ids) + pos[:n])
        for layer in self.layers:
            x = layer(x, padding)
        return x
