"""As x-transformers: heads by `rearrange`, keys and values of the context or of x, and a function that attends."""

from einops import rearrange
from torch import nn

# with attention/sdpa/x_transformers


class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, num_heads, bias=False, **kw):
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"dim {d_model} is not divisible by {num_heads} heads")
        self.heads = num_heads
        for name in ("q_proj", "k_proj", "v_proj", "o_proj"):
            setattr(self, name, nn.Linear(d_model, d_model, bias=bias, **kw))

    def forward(self, x, context=None, mask=None):
        kv_input = x if context is None else context
        qkv = self.q_proj(x), self.k_proj(kv_input), self.v_proj(kv_input)
        q, k, v = (rearrange(t, "b n (h d) -> b h n d", h=self.heads) for t in qkv)
        out = scaled_dot_product_attention(q, k, v, mask)
        return self.o_proj(rearrange(out, "b h n d -> b n (h d)"))
