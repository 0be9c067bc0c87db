"""Tables as buffers that stay float32 when the module is cast; heads by einops, the mask is added."""

# with attention/gqa/einops_groups
# with positions/rope/float_idiom


class CausalSelfAttention(GroupedQueryAttention):
    def __init__(self, d_model, num_heads, max_seq_len, theta=10000.0, num_kv_heads=None, device=None, dtype=None):
        kv_heads = num_heads if num_kv_heads is None else num_kv_heads
        super().__init__(d_model, num_heads, kv_heads, device=device, dtype=dtype)
        self.rope = RoPEReal(d_model // num_heads, max_seq_len, theta, device=device)

    def forward(self, x, positions=None):
        order = torch.arange(x.shape[1], device=x.device)
        positions = order if positions is None else positions
        return super().forward(x, order[:, None] >= order, lambda t: self.rope(t, positions))
