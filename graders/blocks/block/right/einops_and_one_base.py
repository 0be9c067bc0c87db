"""One base class holds parts by einops; the two orders are two lines each."""

# with attention/gqa/einops_groups
# with basics/rmsnorm/llama
# with feedforward/swiglu/einops_and_own_backward


class Block(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, *, device=None, dtype=None):
        super().__init__()
        kind = {"device": device, "dtype": dtype}
        self.attn = GroupedQueryAttention(d_model, num_heads, num_heads, **kind)
        self.ffn = SwiGLU(d_model, d_ff, **kind)
        self.attn_norm, self.ffn_norm = RMSNorm(d_model, **kind), RMSNorm(d_model, **kind)

    def forward(self, x, mask=None):
        x = self.step(x, lambda h: self.attn(h, mask=mask), self.attn_norm)
        return self.step(x, self.ffn, self.ffn_norm)


class PreNormBlock(Block):
    def step(self, x, branch, norm):
        return torch.add(x, branch(norm(x)))


class PostNormBlock(Block):
    def step(self, x, branch, norm):
        return norm(torch.add(x, branch(x)))
