"""BERT's layer in today's Hugging Face: an attention interface that is PyTorch's own, with a boolean mask."""

from torch import nn


def sdpa_attention_forward(module, query, key, value, attention_mask, is_causal=False):
    attn_output = nn.functional.scaled_dot_product_attention(
        query, key, value, attn_mask=attention_mask, dropout_p=module.dropout * module.training, is_causal=is_causal
    )
    return attn_output.transpose(1, 2).contiguous()


class BertSelfAttention(nn.Module):
    def __init__(self, hidden_size, num_attention_heads, dropout, **kw):
        super().__init__()
        if hidden_size % num_attention_heads != 0:
            raise ValueError(f"hidden size {hidden_size} is not a multiple of {num_attention_heads} attention heads")
        self.attention_head_size, self.dropout = hidden_size // num_attention_heads, dropout
        for name in ("q_proj", "k_proj", "v_proj", "o_proj"):
            setattr(self, name, nn.Linear(hidden_size, hidden_size, **kw))

    def forward(self, hidden_states, attention_mask=None):
        hidden_shape = (*hidden_states.shape[:-1], -1, self.attention_head_size)
        query_layer = self.q_proj(hidden_states).view(hidden_shape).transpose(1, 2)
        key_layer = self.k_proj(hidden_states).view(hidden_shape).transpose(1, 2)
        value_layer = self.v_proj(hidden_states).view(hidden_shape).transpose(1, 2)
        attn_output = sdpa_attention_forward(self, query_layer, key_layer, value_layer, attention_mask)
        return self.o_proj(attn_output.reshape(hidden_states.shape))


class BertLayer(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, dropout=0.0, eps=1e-12, *, device=None, dtype=None):
        super().__init__()
        kw = {"device": device, "dtype": dtype}
        self.self_attn = BertSelfAttention(d_model, num_heads, dropout, **kw)
        self.ffn = nn.ModuleDict({"fc1": nn.Linear(d_model, d_ff, **kw), "fc2": nn.Linear(d_ff, d_model, **kw)})
        self.attn_norm = nn.LayerNorm(d_model, eps=eps, **kw)
        self.ffn_norm = nn.LayerNorm(d_model, eps=eps, **kw)
        self.dropout = nn.Dropout(dropout)

    def forward(self, hidden_states, attention_mask=None):
        attention_output = self.dropout(self.self_attn(hidden_states, attention_mask))
        attention_output = self.attn_norm(attention_output + hidden_states)
        intermediate_output = nn.functional.gelu(self.ffn["fc1"](attention_output))
        layer_output = self.dropout(self.ffn["fc2"](intermediate_output))
        return self.ffn_norm(layer_output + attention_output)


def create_bidirectional_mask(attention_mask):
    return None if attention_mask is None else attention_mask[:, None, None, :]


class EncoderLayer(BertLayer):
    def forward(self, hidden_states, padding=None):
        return super().forward(hidden_states, create_bidirectional_mask(padding))
