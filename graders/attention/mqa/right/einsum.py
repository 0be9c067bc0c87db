"""Grouped-query attention by einsum with a single group."""

# with attention/gqa/einsum


class MultiQueryAttention(GroupedQueryAttention):
    def __init__(self, d_model, num_heads, *, device=None, dtype=None):
        super().__init__(d_model, num_heads, 1, device=device, dtype=dtype)
