"""Functional: one product for q, k and v, embedding and norm as functions of the weights, layers in a dict."""

# with blocks/encoder_layer/one_product_for_q_k_v


class TransformerEncoder(nn.Module):
    def __init__(self, vocab_size, d_model, num_layers, num_heads, d_ff, max_len, dropout=0.0, device=None, dtype=None):
        super().__init__()
        self.p, kind = dropout, dict(device=device, dtype=dtype)
        self.token_embedding = nn.Embedding(vocab_size, d_model, **kind)
        self.position_embedding = nn.Embedding(max_len, d_model, **kind)
        self.embedding_norm = nn.LayerNorm(d_model, 1e-12, **kind)
        layer = lambda: EncoderLayer(d_model, num_heads, d_ff, dropout, **kind)
        self.layers = nn.ModuleDict({str(i): layer() for i in range(num_layers)})

    def forward(self, token_ids, padding=None):
        places = self.position_embedding.weight
        if token_ids.shape[-1] > places.shape[0]:
            raise ValueError("%d tokens, at most %d" % (token_ids.shape[-1], places.shape[0]))
        x = F.embedding(token_ids, self.token_embedding.weight) + places.narrow(0, 0, token_ids.shape[-1])
        x = F.layer_norm(x, x.shape[-1:], self.embedding_norm.weight, self.embedding_norm.bias, 1e-12)
        x = F.dropout(x, self.p, self.training)
        for layer in self.layers.values():
            x = layer(x, padding)
        return x
