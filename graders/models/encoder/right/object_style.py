"""Object style, out of the library's attention, norms and embeddings."""

import torch

# with blocks/encoder_layer/fused_attention


class TransformerEncoder(nn.Module):
    def __init__(self, vocab_size, d_model, num_layers, num_heads, d_ff, max_len, dropout=0.0, **factory):
        super().__init__()
        self.token_embedding = nn.Embedding(vocab_size, d_model, **factory)
        self.position_embedding = nn.Embedding(max_len, d_model, **factory)
        self.embedding_norm = nn.LayerNorm(d_model, eps=1e-12, **factory)
        self.layers = nn.ModuleList()
        for _ in range(num_layers):
            self.layers.append(EncoderLayer(d_model, num_heads, d_ff, dropout, **factory))
        self.drop = nn.Dropout(dropout)

    def forward(self, token_ids, padding=None):
        n = token_ids.size(1)
        if n > self.position_embedding.num_embeddings:
            raise ValueError(f"sequence length {n} exceeds max_len {self.position_embedding.num_embeddings}")
        positions = torch.arange(n, device=token_ids.device).expand_as(token_ids)
        x = self.drop(self.embedding_norm(self.token_embedding(token_ids) + self.position_embedding(positions)))
        for layer in self.layers:
            x = layer(x, padding)
        return x
