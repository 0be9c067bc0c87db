# robust: Masked rows, Errors: a row of padding alone averages all values, and too long a sequence is an IndexError.
"""BERT as Hugging Face wrote it before fused attention."""

# with blocks/encoder_layer/bert_layer


class BertEmbeddings(nn.Module):
    def embed(self, input_ids):
        position_ids = torch.arange(input_ids.size(1), device=input_ids.device).expand((1, -1))
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
        extended_attention_mask = get_extended_attention_mask(padding, hidden_states.dtype)
        for layer_module in self.layers:
            hidden_states = layer_module(hidden_states, extended_attention_mask)
        return hidden_states
