"""As x-transformers: one loop over layers of attention "a" and feed-forward "f", each with a norm and a residual."""

from collections import OrderedDict

# with attention/mha/x_transformers


def feed_forward(dim, inner_dim, dropout, **kw):
    project_in, project_out = nn.Linear(dim, inner_dim, **kw), nn.Linear(inner_dim, dim, **kw)
    return nn.Sequential(OrderedDict(fc1=project_in, act=nn.GELU(), dropout=nn.Dropout(dropout), fc2=project_out))


class AttentionLayers(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, dropout=0.0, eps=1e-12, **kw):
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        for layer_type, (block, norm) in self.layer_types.items():
            if layer_type == "f":
                self.add_module(block, feed_forward(d_model, d_ff, dropout, **kw))
            else:
                self.add_module(block, MultiHeadAttention(d_model, num_heads, bias=True, **kw))
            self.add_module(norm, nn.LayerNorm(d_model, eps, **kw))

    def run(self, x, context=None, mask=None, context_mask=None):
        for layer_type, names in self.layer_types.items():
            block, norm = map(self.get_submodule, names)
            if layer_type == "a":
                out = block(x, mask=mask)
            elif layer_type == "c":
                out = block(x, context, context_mask)
            else:
                out = block(x)
            x = norm(x + self.dropout(out))
        return x


def key_padding_mask(mask):
    return None if mask is None else rearrange(mask, "b j -> b 1 1 j")


class EncoderLayer(AttentionLayers):
    layer_types = {"a": ("self_attn", "attn_norm"), "f": ("ffn", "ffn_norm")}

    def forward(self, x, padding=None):
        return self.run(x, mask=key_padding_mask(padding))
