"""BERT in today's Hugging Face: one boolean mask for all layers, and a length that is checked as in CLIP."""

# with blocks/encoder_layer/bert_layer
import torch


class BertEmbeddings(nn.Module):
    def embed(self, input_ids):
        seq_length, max_position_embeddings = input_ids.size(1), self.position_embedding.num_embeddings
        if seq_length > max_position_embeddings:
            raise ValueError(f"Sequence length {seq_length} is beyond {max_position_embeddings=}")
        position_ids = torch.arange(seq_length, device=input_ids.device).expand((1, -1))
        embeddings = self.token_embedding(input_ids) + self.position_embedding(position_ids)
        return self.dropout(self.embedding_norm(embeddings))


class TransformerEncoder(BertEmbeddings):
    def __init__(self, vocab_size, d_model, num_layers, num_heads, d_ff, max_len, dropout=0.0, **kw):
        super().__init__()
        self.token_embedding = nn.Embedding(vocab_size, d_model, **kw)
        self.position_embedding = nn.Embedding(max_len, d_model, **kw)
        self.embedding_norm = nn.LayerNorm(d_model, eps=1e-12, **kw)
        self.dropout = nn.Dropout(dropout)
        self.layers = nn.ModuleList([BertLayer(d_model, num_heads, d_ff, dropout, **kw) for _ in range(num_layers)])

    def forward(self, input_ids, padding=None):
        hidden_states = self.embed(input_ids)
        attention_mask = create_bidirectional_mask(padding)
        for layer_module in self.layers:
            hidden_states = layer_module(hidden_states, attention_mask)
        return hidden_states
