# robust: Masked rows, Positions, Half precision, Errors: a source of padding alone is averaged, the table is a saved
# buffer, float16 does not hold the fill of -1e9, and assertions are gone under `python -O`.
"""The annotated transformer: positions in a buffer, `encode` and `decode`, no norm at the end of a post-norm stack."""

# with blocks/decoder_layer/annotated_transformer


class PositionalEncoding(nn.Module):
    def __init__(self, d_model, dropout, max_len=5000, device=None):
        super().__init__()
        self.dropout = nn.Dropout(p=dropout)
        pe = torch.zeros(max_len, d_model, device=device)
        position = torch.arange(0, max_len, device=device).unsqueeze(1)
        div_term = torch.exp(torch.arange(0, d_model, 2, device=device) * -(math.log(10000.0) / d_model))
        pe[:, 0::2] = torch.sin(position * div_term)
        pe[:, 1::2] = torch.cos(position * div_term)
        self.register_buffer("pe", pe.unsqueeze(0))

    def forward(self, x):
        x = x + self.pe[:, : x.size(1)].requires_grad_(False)
        return self.dropout(x)


class Seq2SeqTransformer(nn.Module):
    def __init__(self, src_vocab, tgt_vocab, d_model, num_layers, num_heads, d_ff, max_len, dropout=0.0, **kw):
        super().__init__()
        self.d_model = d_model
        self.src_embedding = nn.Embedding(src_vocab, d_model, **kw)
        self.tgt_embedding = nn.Embedding(tgt_vocab, d_model, **kw)
        self.position = PositionalEncoding(d_model, dropout, max_len, kw.get("device"))
        self.encoder_layers = nn.ModuleList(clones(EncoderLayer(d_model, num_heads, d_ff, dropout, **kw), num_layers))
        self.decoder_layers = nn.ModuleList(clones(DecoderLayer(d_model, num_heads, d_ff, dropout, **kw), num_layers))
        self.lm_head = nn.Linear(d_model, tgt_vocab, bias=False, **kw)

    def forward(self, src, tgt, src_padding=None):
        return self.lm_head(self.decode(self.encode(src, src_padding), src_padding, tgt))

    def encode(self, src, src_mask):
        x = self.position(self.src_embedding(src) * math.sqrt(self.d_model))
        for layer in self.encoder_layers:
            x = layer(x, src_mask)
        return x

    def decode(self, memory, src_mask, tgt):
        x = self.position(self.tgt_embedding(tgt) * math.sqrt(self.d_model))
        for layer in self.decoder_layers:
            x = layer(x, memory, src_mask)
        return x
