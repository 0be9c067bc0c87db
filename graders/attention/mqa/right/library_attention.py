"""Grouped-query attention over torch's own, the one head of the keys expanded."""

# with attention/gqa/library_attention


class MultiQueryAttention(GroupedQueryAttention):
    def __init__(self, d_model, num_heads, *, device=None, dtype=None):
        super().__init__(d_model, num_heads, 1, device=device, dtype=dtype)
