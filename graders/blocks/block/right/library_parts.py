"""Object style, out of the library's own norm and attention; one order inherits the parts of the other."""

# with attention/gqa/library_attention
# with feedforward/swiglu/one_matrix_product


class PreNormBlock(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, *, device=None, dtype=None):
        super().__init__()
        kw = {"device": device, "dtype": dtype}
        self.attn_norm = nn.RMSNorm(d_model, eps=1e-5, **kw)
        self.attn = GroupedQueryAttention(d_model, num_heads, num_heads, **kw)
        self.ffn_norm = nn.RMSNorm(d_model, eps=1e-5, **kw)
        self.ffn = SwiGLU(d_model, d_ff, **kw)

    def forward(self, x, mask=None):
        h = x + self.attn(self.attn_norm(x), mask)
        return h + self.ffn(self.ffn_norm(h))


class PostNormBlock(PreNormBlock):
    def forward(self, x, mask=None):
        h = self.attn_norm(x + self.attn(x, mask))
        return self.ffn_norm(torch.add(h, self.ffn(h)))
