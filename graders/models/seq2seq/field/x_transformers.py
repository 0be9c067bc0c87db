"""As x-transformers: an encoder and a decoder of its layers; positions as in ESPnet, which no cast rounds."""

# with blocks/decoder_layer/x_transformers
# with positions/absolute_positions/espnet


class Seq2SeqTransformer(nn.Module):
    def __init__(self, src_vocab, tgt_vocab, d_model, num_layers, num_heads, d_ff, max_len, dropout=0.0, **kw):
        super().__init__()
        self.max_seq_len, self.emb_scale, sizes = max_len, d_model**0.5, (d_model, num_heads, d_ff, dropout)
        self.src_embedding = nn.Embedding(src_vocab, d_model, **kw)
        self.tgt_embedding = nn.Embedding(tgt_vocab, d_model, **kw)
        self.encoder_layers = nn.ModuleList([EncoderLayer(*sizes, **kw) for _ in range(num_layers)])
        self.decoder_layers = nn.ModuleList([DecoderLayer(*sizes, **kw) for _ in range(num_layers)])
        self.pos_emb, self.emb_dropout = SinusoidalPositions(max_len, d_model, **kw), nn.Dropout(dropout)
        self.lm_head = nn.Linear(d_model, tgt_vocab, bias=False, **kw)

    def embed(self, ids, token_emb):
        seq_len = ids.shape[1]
        if seq_len > self.max_seq_len:
            raise ValueError(f"a sequence length of {seq_len}, but a max sequence length of {self.max_seq_len}")
        return self.emb_dropout(self.pos_emb(token_emb(ids) * self.emb_scale))

    def forward(self, src, tgt, src_padding=None):
        enc = self.embed(src, self.src_embedding)
        for layer in self.encoder_layers:
            enc = layer(enc, src_padding)
        x = self.embed(tgt, self.tgt_embedding)
        for layer in self.decoder_layers:
            x = layer(x, enc, src_padding)
        return self.lm_head(x)
