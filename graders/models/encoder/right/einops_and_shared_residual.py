"""Layers of heads by einops; rows of the table by indexing, the places by their embedding."""

# with blocks/encoder_layer/einops_and_shared_residual


class TransformerEncoder(nn.Module):
    def __init__(self, vocab_size, d_model, num_layers, num_heads, d_ff, max_len, dropout=0.0, **kind):
        super().__init__()
        self.token_embedding = nn.Embedding(vocab_size, d_model, **kind)
        self.position_embedding = nn.Embedding(max_len, d_model, **kind)
        self.embedding_norm = nn.LayerNorm(d_model, eps=1e-12, **kind)
        self.dropout = nn.Dropout(dropout)
        self.layers = nn.ModuleList(EncoderLayer(d_model, num_heads, d_ff, dropout, **kind) for _ in range(num_layers))

    def forward(self, token_ids, padding=None):
        seq, limit = token_ids.shape[1], self.position_embedding.num_embeddings
        if seq > limit:
            raise ValueError(f"sequence of {seq} is longer than max_len {limit}")
        places = torch.arange(seq, device=token_ids.device)
        x = self.token_embedding.weight[token_ids] + self.position_embedding(places)
        x = self.dropout(self.embedding_norm(x))
        for layer in self.layers:
            x = layer(x, padding)
        return x
