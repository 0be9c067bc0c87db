"""Marian in today's Hugging Face: PyTorch's own attention, boolean masks, dropout in the activations too."""

from torch import nn


class MarianAttention(nn.Module):
    def __init__(self, embed_dim, num_heads, dropout=0.0, **kw):
        super().__init__()
        self.dropout, self.head_dim = dropout, embed_dim // num_heads
        if self.head_dim * num_heads != embed_dim:
            raise ValueError(f"embed_dim must be divisible by num_heads (got {embed_dim} and {num_heads}).")
        for name in ("k_proj", "v_proj", "q_proj", "o_proj"):
            setattr(self, name, nn.Linear(embed_dim, embed_dim, **kw))

    def forward(self, hidden_states, key_value_states=None, attention_mask=None, is_causal=False):
        current_states = hidden_states if key_value_states is None else key_value_states
        states = self.q_proj(hidden_states), self.k_proj(current_states), self.v_proj(current_states)
        attn_output = nn.functional.scaled_dot_product_attention(
            *(each.unflatten(-1, (-1, self.head_dim)).transpose(1, 2) for each in states),
            attn_mask=attention_mask,
            dropout_p=self.dropout if self.training else 0.0,
            is_causal=is_causal,
        )
        return self.o_proj(attn_output.transpose(1, 2).flatten(2))


def bidirectional_mask(padding):
    return None if padding is None else padding[:, None, None, :]


class MarianLayer(nn.Module):
    attentions, norms = ("self_attn", "cross_attn"), ("self_attn_norm", "cross_attn_norm", "ffn_norm")

    def __init__(self, d_model, num_heads, d_ff, dropout=0.0, eps=1e-12, *, device=None, dtype=None):
        super().__init__()
        self.dropout, kw = dropout, {"device": device, "dtype": dtype}
        for name in self.attentions:
            setattr(self, name, MarianAttention(d_model, num_heads, dropout, **kw))
        for name in self.norms:
            setattr(self, name, nn.LayerNorm(d_model, eps, **kw))
        self.ffn = nn.ModuleDict({"fc1": nn.Linear(d_model, d_ff, **kw), "fc2": nn.Linear(d_ff, d_model, **kw)})

    def add(self, residual, hidden_states, norm):
        hidden_states = nn.functional.dropout(hidden_states, p=self.dropout, training=self.training)
        return norm(residual + hidden_states)

    def feed_forward(self, hidden_states):
        inner = nn.functional.gelu(self.ffn["fc1"](hidden_states))
        inner = nn.functional.dropout(inner, p=self.dropout, training=self.training)
        return self.add(hidden_states, self.ffn["fc2"](inner), self.ffn_norm)


class DecoderLayer(MarianLayer):
    def forward(self, hidden_states, encoder_hidden_states, memory_padding=None):
        x, mask = hidden_states, bidirectional_mask(memory_padding)
        x = self.add(x, self.self_attn(x, is_causal=True), self.self_attn_norm)
        x = self.add(x, self.cross_attn(x, encoder_hidden_states, mask), self.cross_attn_norm)
        return self.feed_forward(x)
