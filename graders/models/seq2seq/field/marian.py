"""Marian in Hugging Face: `embed_scale`, sinusoidal positions made by NumPy, an encoder and a decoder of post-norm."""

import numpy as np
import torch

# with blocks/decoder_layer/marian


class EncoderLayer(MarianLayer):
    attentions, norms = ("self_attn",), ("attn_norm", "ffn_norm")

    def forward(self, hidden_states, padding=None):
        attn_output = self.self_attn(hidden_states, attention_mask=bidirectional_mask(padding))
        return self.feed_forward(self.add(hidden_states, attn_output, self.attn_norm))


def create_weight(n_pos, dim):
    position_enc = np.array([[pos / np.power(10000, 2 * (j // 2) / dim) for j in range(dim)] for pos in range(n_pos)])
    position_enc[:, 0::2], position_enc[:, 1::2] = np.sin(position_enc[:, 0::2]), np.cos(position_enc[:, 1::2])
    return torch.tensor(position_enc, dtype=torch.float32)


class Seq2SeqTransformer(nn.Module):
    def __init__(self, src_vocab, tgt_vocab, d_model, num_layers, num_heads, d_ff, max_len, dropout=0.0, **kw):
        super().__init__()
        self.dropout, self.embed_scale, sizes = dropout, d_model**0.5, (d_model, num_heads, d_ff, dropout)
        self.src_embedding = nn.Embedding(src_vocab, d_model, **kw)
        self.tgt_embedding = nn.Embedding(tgt_vocab, d_model, **kw)
        self.register_buffer("embed_positions", create_weight(max_len, d_model).to(kw.get("device")), persistent=False)
        self.encoder_layers = nn.ModuleList([EncoderLayer(*sizes, **kw) for _ in range(num_layers)])
        self.decoder_layers = nn.ModuleList([DecoderLayer(*sizes, **kw) for _ in range(num_layers)])
        self.lm_head = nn.Linear(d_model, tgt_vocab, bias=False, **kw)

    def embed(self, input_ids, embed_tokens):
        seq_len, max_positions = input_ids.shape[1], len(self.embed_positions)
        if seq_len > max_positions:
            raise ValueError(f"Sequence length {seq_len} is beyond {max_positions=}")
        inputs_embeds = embed_tokens(input_ids) * self.embed_scale
        hidden_states = inputs_embeds + self.embed_positions[:seq_len].type_as(inputs_embeds)
        return nn.functional.dropout(hidden_states, p=self.dropout, training=self.training)

    def forward(self, input_ids, decoder_input_ids, src_padding=None):
        hidden_states = self.embed(input_ids, self.src_embedding)
        for encoder_layer in self.encoder_layers:
            hidden_states = encoder_layer(hidden_states, src_padding)
        memory, hidden_states = hidden_states, self.embed(decoder_input_ids, self.tgt_embedding)
        for decoder_layer in self.decoder_layers:
            hidden_states = decoder_layer(hidden_states, memory, src_padding)
        return self.lm_head(hidden_states)
