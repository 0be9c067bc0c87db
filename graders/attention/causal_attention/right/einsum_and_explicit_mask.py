"""Grouped heads and rotation matrices by einsum, and a mask of the future."""

# with attention/gqa/einsum
# with positions/rope/einsum


class CausalSelfAttention(GroupedQueryAttention):
    def __init__(self, d_model, num_heads, max_seq_len, theta=10000.0, num_kv_heads=None, *, device=None, dtype=None):
        super().__init__(d_model, num_heads, num_kv_heads or num_heads, device=device, dtype=dtype)
        self.rope = RoPEReal(self.head_dim, max_seq_len, theta)

    def forward(self, x, positions=None):
        seq = x.shape[1]
        positions = torch.arange(seq, device=x.device) if positions is None else positions
        future = torch.triu(torch.ones(seq, seq, dtype=torch.bool, device=x.device), diagonal=1)
        q, k, v = self.heads(x)
        return self.mix(self.rope(q, positions), self.rope(k, positions), v, ~future)
