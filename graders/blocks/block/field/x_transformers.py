"""As x-transformers: one loop over both layers, and a flag for the norm that stands before them, or after the sum."""

# with attention/mha/x_transformers
# with basics/rmsnorm/hugging_face
# with feedforward/swiglu


class PreNormBlock(nn.Module):
    pre_norm = True

    def __init__(self, d_model, num_heads, d_ff, **kw):
        super().__init__()
        self.attn, self.ffn = MultiHeadAttention(d_model, num_heads, **kw), SwiGLU(d_model, d_ff, **kw)
        self.attn_norm, self.ffn_norm = RMSNorm(d_model, **kw), RMSNorm(d_model, **kw)

    def forward(self, x, mask=None):
        for layer_type, block, norm in (("a", self.attn, self.attn_norm), ("f", self.ffn, self.ffn_norm)):
            residual = x
            if self.pre_norm:
                x = norm(x)
            x = (block(x, mask=mask) if layer_type == "a" else block(x)) + residual
            if not self.pre_norm:
                x = norm(x)
        return x


class PostNormBlock(PreNormBlock):
    pre_norm = False
