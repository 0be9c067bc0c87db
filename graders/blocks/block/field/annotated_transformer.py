# robust: Half precision, Errors: float16 does not hold the fill of -1e9, and assertions are gone under `python -O`.
"""The annotated transformer: sublayer connections around a function, once for each order of norm and sum."""

# with attention/mha/annotated_transformer
# with feedforward/swiglu


class Norm(nn.Module):
    def __init__(self, features, eps=1e-5, **kw):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(features, **kw))
        self.eps = eps

    def forward(self, x):
        rms = x.float().pow(2).mean(-1, keepdim=True).add(self.eps).sqrt()
        return (self.weight * (x / rms)).to(x.dtype)


class PreNormBlock(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, *, device=None, dtype=None):
        super().__init__()
        kw = {"device": device, "dtype": dtype}
        self.attn, self.ffn = MultiHeadAttention(d_model, num_heads, **kw), SwiGLU(d_model, d_ff, **kw)
        self.attn_norm, self.ffn_norm = Norm(d_model, **kw), Norm(d_model, **kw)

    def sublayer(self, x, norm, branch):
        return x + branch(norm(x))

    def forward(self, x, mask=None):
        x = self.sublayer(x, self.attn_norm, lambda x: self.attn(x, mask=mask))
        return self.sublayer(x, self.ffn_norm, self.ffn)


class PostNormBlock(PreNormBlock):
    def sublayer(self, x, norm, branch):
        return norm(x + branch(x))
