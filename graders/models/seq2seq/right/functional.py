"""Functional: one product for q, k and v, embedding, dropout and head as functions of the weights."""

# with blocks/decoder_layer/one_product_for_q_k_v
# with positions/absolute_positions


class Seq2SeqTransformer(nn.Module):
    def __init__(self, src_vocab, tgt_vocab, d_model, num_layers, num_heads, d_ff, max_len, dropout=0.0, **f):
        if d_model % 2:
            raise ValueError(f"a width of {d_model} has no pairs of sine and cosine")
        super().__init__()
        self.p, self.longest, self.waves = dropout, max_len, SinusoidalPositions(max_len, d_model)
        self.src_embedding, self.tgt_embedding = (nn.Embedding(n, d_model, **f) for n in (src_vocab, tgt_vocab))
        sizes = (d_model, num_heads, d_ff, dropout)
        self.encoder_layers = nn.ModuleList(EncoderLayer(*sizes, **f) for _ in range(num_layers))
        self.decoder_layers = nn.ModuleList(DecoderLayer(*sizes, **f) for _ in range(num_layers))
        self.lm_head = nn.Linear(d_model, tgt_vocab, bias=False, **f)

    def embed(self, table, ids):
        if ids.shape[1] > self.longest:
            raise ValueError(f"{ids.shape[1]} ids, but at most {self.longest} have a position")
        x = self.waves(F.embedding(ids, table.weight) * table.weight.shape[1] ** 0.5)
        return F.dropout(x, self.p, self.training)

    def encode(self, src_ids, src_padding=None):
        x = self.embed(self.src_embedding, src_ids)
        for layer in self.encoder_layers:
            x = layer(x, src_padding)
        return x

    def forward(self, src_ids, tgt_ids, src_padding=None):
        memory, x = self.encode(src_ids, src_padding), self.embed(self.tgt_embedding, tgt_ids)
        for layer in self.decoder_layers:
            x = layer(x, memory, src_padding)
        return F.linear(x, self.lm_head.weight)
