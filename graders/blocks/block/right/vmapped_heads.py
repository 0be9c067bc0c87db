"""vmap over heads in attention, over vectors in the norm and over tokens in the feed-forward layer."""

# with attention/mha/vmapped_heads
# with basics/rmsnorm/vmapped_vector
# with feedforward/swiglu/vmapped_token


class PreNormBlock(nn.ModuleDict):
    def __init__(self, d_model, num_heads, d_ff, *, device=None, dtype=None):
        kind = {"device": device, "dtype": dtype}
        attn, ffn = MultiHeadAttention(d_model, num_heads, **kind), SwiGLU(d_model, d_ff, **kind)
        super().__init__(dict(attn_norm=RMSNorm(d_model, **kind), attn=attn))
        self.update(dict(ffn_norm=RMSNorm(d_model, **kind), ffn=ffn))

    def forward(self, x, mask=None):
        h = x + self["attn"](self["attn_norm"](x), mask=mask)
        return h + self["ffn"](self["ffn_norm"](h))


class PostNormBlock(PreNormBlock):
    def forward(self, x, mask=None):
        h = self["attn_norm"](x + self["attn"](x, mask=mask))
        return self["ffn_norm"](h + self["ffn"](h))
