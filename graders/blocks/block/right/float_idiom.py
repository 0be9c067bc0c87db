"""Float32 inside the norm, the softmax and the feed-forward layer, the residual stream in the dtype of the input."""

# with attention/mha/float_idiom
# with basics/rmsnorm/float_idiom
# with feedforward/swiglu/float_idiom


class Block(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, *, device=None, dtype=None):
        super().__init__()
        self.attn = MultiHeadAttention(d_model, num_heads, device=device, dtype=dtype)
        self.ffn = SwiGLU(d_model, d_ff, device=device, dtype=dtype)
        self.attn_norm = RMSNorm(d_model, device=device, dtype=dtype)
        self.ffn_norm = RMSNorm(d_model, device=device, dtype=dtype)


class PreNormBlock(Block):
    def forward(self, x, mask=None):
        x = x + self.attn(self.attn_norm(x), mask=mask)
        return x + self.ffn(self.ffn_norm(x))


class PostNormBlock(Block):
    def forward(self, x, mask=None):
        x = self.attn_norm(x + self.attn(x, mask=mask))
        return self.ffn_norm(x + self.ffn(x))
