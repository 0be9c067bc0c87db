"""nn.Transformer's layers, and the embeddings of its tutorial, with a table that no cast rounds."""

# with blocks/decoder_layer/nn_transformer_decoder_layer

import math

import torch


class PositionalEncoding(nn.Module):
    def __init__(self, emb_size, dropout, maxlen):
        super().__init__()
        if emb_size % 2:
            raise ValueError(f"emb_size {emb_size} is odd")
        den = torch.exp(-torch.arange(0, emb_size, 2).double() * math.log(10000) / emb_size)
        pos = torch.arange(0, maxlen).double().reshape(maxlen, 1)
        self.pos_embedding = torch.zeros((maxlen, emb_size), dtype=torch.float64)
        self.pos_embedding[:, 0::2] = torch.sin(pos * den)
        self.pos_embedding[:, 1::2] = torch.cos(pos * den)
        self.dropout = nn.Dropout(dropout)

    def forward(self, token_embedding):
        seq, longest = token_embedding.size(1), len(self.pos_embedding)
        if seq > longest:
            raise ValueError(f"a sequence of {seq} tokens is longer than {longest}")
        self.pos_embedding = self.pos_embedding.to(token_embedding.device)
        placed = token_embedding.double() + self.pos_embedding[:seq]
        return self.dropout(placed.to(token_embedding.dtype))


class Seq2SeqTransformer(nn.Module):
    def __init__(
        self,
        src_vocab,
        tgt_vocab,
        d_model,
        num_layers,
        num_heads,
        d_ff,
        max_len,
        dropout=0.0,
        *,
        device=None,
        dtype=None,
    ):
        super().__init__()
        kw = {"device": device, "dtype": dtype}
        self.emb_size = d_model
        self.positional_encoding = PositionalEncoding(d_model, dropout, max_len)
        self.src_embedding = nn.Embedding(src_vocab, d_model, **kw)
        self.tgt_embedding = nn.Embedding(tgt_vocab, d_model, **kw)
        self.encoder_layers = nn.ModuleList(
            EncoderLayer(d_model, num_heads, d_ff, dropout, **kw) for _ in range(num_layers)
        )
        self.decoder_layers = nn.ModuleList(
            DecoderLayer(d_model, num_heads, d_ff, dropout, **kw) for _ in range(num_layers)
        )
        self.lm_head = nn.Linear(d_model, tgt_vocab, bias=False, **kw)

    def forward(self, src, trg, src_padding=None):
        memory = self.encode(src, src_padding)
        output = self.positional_encoding(self.tgt_embedding(trg) * math.sqrt(self.emb_size))
        for mod in self.decoder_layers:
            output = mod(output, memory, src_padding)
        return self.lm_head(output)

    def encode(self, src, src_padding):
        output = self.positional_encoding(self.src_embedding(src) * math.sqrt(self.emb_size))
        for mod in self.encoder_layers:
            output = mod(output, src_padding)
        return output
