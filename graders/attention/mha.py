"""What `MultiHeadAttention` must do. The oracle computes one head at a time with torch's own attention, in float64."""

from __future__ import annotations

from dojo.contracts import FUSED, AttentionContract, Call, Draw, KnownBugs


def cross_attention(d: Draw, q_len: int, k_len: int, *mask: int) -> Call:
    """A call with a context of a length of its own."""
    call = TestMultiHeadAttention.call(d, 2, q_len, context=d.normal(2, k_len, 12))
    return call.with_inputs(mask=d.mask(*mask)) if mask else call


class TestMultiHeadAttention(AttentionContract):
    name = "MultiHeadAttention"
    ban = FUSED
    cases = {
        "a_context_as_long_as_the_queries": lambda d: cross_attention(d, 5, 5),
        "a_context": lambda d: cross_attention(d, 5, 7),
        "a_context_and_a_mask": lambda d: cross_attention(d, 5, 7, 5, 7),
        "a_context_with_padding": lambda d: cross_attention(d, 5, 7, 2, 1, 1, 7),
        "a_context_as_long_as_the_queries_and_a_mask": lambda d: cross_attention(d, 5, 5, 5, 5),
        "a_shorter_context": lambda d: cross_attention(d, 5, 3, 2, 3, 5, 3),
    }
    more_shapes = {"one_query": lambda d: cross_attention(d, 1, 7), "one_key": lambda d: cross_attention(d, 5, 1)}
    growth = {"context": lambda d, n: cross_attention(d, 5, n)}


BUGS = KnownBugs(
    """
heads not moved back before the merge
    without the transpose the merge mixes heads and positions.
    heads.transpose(-3, -2).flatten(-2)  →  heads.reshape(x.shape)
heads split without a transpose
    reading (seq, d_model) as (heads, seq, head_dim) cuts the sequence into heads instead of the width.
    x.unflatten(-1, (num_heads, -1)).transpose(-3, -2)  →  x.reshape(x.shape[0], num_heads, x.shape[1], -1)
heads joined feature by feature
    each head's result stands in neighbouring places, those of its rows.
    heads.transpose(-3, -2).flatten(-2)  →  heads.movedim(-3, -1).flatten(-2)
heads interleaved over the features
    head h owns neighbouring rows h·head_dim … (h+1)·head_dim, not every num_heads-th one.
    x.unflatten(-1, (num_heads, -1)).transpose(-3, -2)  →  x.unflatten(-1, (-1, num_heads)).movedim(-1, -3)
heads that do not divide the model are not refused
    rounding head_dim down silently drops features.
    if num_heads < 1 or d_model % num_heads != 0:  →  if num_heads < 1:
scaled by the square root of d_model instead of head_dim
    each head's scores are sums over head_dim products, so that is what they are scaled by.
    softmax(scores, dim=-1)  →  softmax(scores / math.sqrt(scores.shape[-3]), dim=-1)
softmax over the heads
    each query spreads a weight of 1 over the keys, so softmax runs over the last axis.
    softmax(scores, dim=-1)  →  softmax(scores, dim=-3)
mask transposed
    its last two axes are queries and keys, in this order.
    scores.masked_fill(~mask  →  scores.masked_fill(~mask.mT
    weights.masked_fill(~mask  →  weights.masked_fill(~mask.mT
weights stored (in, out)
    weights are stored (out_features, in_features), as nn.Linear stores them.
    self.q_proj(x)  →  (x @ self.q_proj.weight)
    self.k_proj(source)  →  (source @ self.k_proj.weight)
    self.v_proj(source)  →  (source @ self.v_proj.weight)
    self.o_proj(merged)  →  merged @ self.o_proj.weight
no output projection
    the merged heads pass through o_proj.
    return self.o_proj(merged)  →  return merged
a projection with a bias
    projections carry no bias here: state dicts must be exchangeable.
    o_proj = nn.Linear(d_model, d_model, bias=False, device  →  o_proj = nn.Linear(d_model, d_model, device
context ignored
    keys and values come from the context where there is one.
    source = x if context is None else context  →  source = x
queries taken from the context
    x asks and the context answers: only keys and values come from the context.
    source = x if context is None else context  →  source = x = x if context is None else context
x and the context swapped
    x asks and the context answers.
    self.q_proj(x)  →  self.q_proj(source)
    self.k_proj(source)  →  self.k_proj(x)
    self.v_proj(source)  →  self.v_proj(x)
values taken from x instead of the context
    keys and values belong together: both come from the context.
    self.v_proj(source)  →  self.v_proj(x)
""",
    builds_on=("sdpa",),
    but=("scaled by the width of the values",),  # queries are as wide
)
