"""Layers by einsum, with embeddings and a norm of its own."""

# with blocks/encoder_layer/einsum_and_own_norm


class Table(nn.Module):
    def __init__(self, rows, size, device=None, dtype=None):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(rows, size, device=device, dtype=dtype))

    def forward(self, ids):
        return self.weight[ids.long()]


class TransformerEncoder(nn.Module):
    def __init__(self, vocab_size, d_model, num_layers, num_heads, d_ff, max_len, dropout=0.0, **kind):
        super().__init__()
        self.max_len = max_len
        self.token_embedding, self.position_embedding = (Table(n, d_model, **kind) for n in (vocab_size, max_len))
        self.embedding_norm, self.dropout = LayerNorm(d_model, 1e-12, **kind), nn.Dropout(dropout)
        sizes = (d_model, num_heads, d_ff, dropout)
        self.layers = nn.Sequential(*(EncoderLayer(*sizes, **kind) for _ in range(num_layers)))

    def forward(self, token_ids, padding=None):
        _, seq = token_ids.shape
        if seq > self.max_len:
            raise ValueError(f"{seq} tokens but only {self.max_len} positions")
        x = self.token_embedding(token_ids) + self.position_embedding(torch.arange(seq, device=token_ids.device))
        x = self.dropout(self.embedding_norm(x))
        for layer in self.layers:
            x = layer(x, padding)
        return x
