"""Llama's TransformerBlock, each key head with one query head; the post-norm block has the same parts."""

# with attention/gqa/llama
# with basics/rmsnorm/llama
# with feedforward/swiglu


class PreNormBlock(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, *, device=None, dtype=None):
        super().__init__()
        kw = {"device": device, "dtype": dtype}
        self.attn = GroupedQueryAttention(d_model, num_heads, num_heads, **kw)
        self.ffn = SwiGLU(d_model, d_ff, **kw)
        self.attn_norm, self.ffn_norm = RMSNorm(d_model, **kw), RMSNorm(d_model, **kw)

    def forward(self, x, mask=None):
        h = x + self.attn(self.attn_norm(x), mask)
        out = h + self.ffn(self.ffn_norm(h))
        return out


class PostNormBlock(PreNormBlock):
    def forward(self, x, mask=None):
        h = self.attn_norm(x + self.attn(x, mask))
        out = self.ffn_norm(h + self.ffn(h))
        return out
