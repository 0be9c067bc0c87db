"""BERT as Hugging Face writes it for fused attention: embeddings, layers, and one mask for all of them."""

# with blocks/encoder_layer/nn_transformer_encoder_layer

import torch


class TransformerEncoder(nn.Module):
    def __init__(
        self, vocab_size, d_model, num_layers, num_heads, d_ff, max_len, dropout=0.0, *, device=None, dtype=None
    ):
        super().__init__()
        kw = {"device": device, "dtype": dtype}
        self.token_embedding = nn.Embedding(vocab_size, d_model, **kw)
        self.position_embedding = nn.Embedding(max_len, d_model, **kw)
        self.embedding_norm = nn.LayerNorm(d_model, eps=1e-12, **kw)
        self.dropout = nn.Dropout(dropout)
        self.max_position_embeddings = max_len
        self.layers = nn.ModuleList([EncoderLayer(d_model, num_heads, d_ff, dropout, **kw) for _ in range(num_layers)])

    def forward(self, input_ids, padding=None):
        seq_length = input_ids.size(1)
        if seq_length > self.max_position_embeddings:
            raise ValueError(f"{seq_length} tokens, and {self.max_position_embeddings} positions")
        position_ids = torch.arange(seq_length, dtype=torch.long, device=input_ids.device).unsqueeze(0)
        embeddings = self.token_embedding(input_ids) + self.position_embedding(position_ids)
        hidden_states = self.dropout(self.embedding_norm(embeddings))
        for layer_module in self.layers:
            hidden_states = layer_module(hidden_states, padding)
        return hidden_states
