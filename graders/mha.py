"""What `MultiHeadAttention` must do. The oracle computes one head at a time with torch's own attention, in float64."""

from __future__ import annotations

from dojo import attending
from dojo.attending import COMMON_BUGS, FUSED, AttentionContract
from dojo.bugs import Bug
from dojo.expect import Call, Draw


def crossing(d: Draw, batch: int, q_len: int, k_len: int, *mask: int) -> Call:
    """A call with a context of a length of its own."""
    call = TestMultiHeadAttention.call(d, batch, q_len, context=d.normal(batch, k_len, 12))
    return call.with_inputs(mask=d.mask(*mask)) if mask else call


class TestMultiHeadAttention(AttentionContract):
    name = "MultiHeadAttention"
    ban = FUSED
    cases = {
        "a_context": lambda d: crossing(d, 2, 5, 7),
        "a_context_and_a_mask": lambda d: crossing(d, 2, 5, 7, 5, 7),
        "a_context_with_padding": lambda d: crossing(d, 2, 5, 7, 2, 1, 1, 7),
        "a_context_as_long_as_the_queries": lambda d: crossing(d, 2, 5, 5, 5, 5),
        "a_shorter_context": lambda d: crossing(d, 2, 5, 3, 2, 3, 5, 3),
    }
    more_shapes = {
        "one_query": lambda d: crossing(d, 2, 1, 7),
        "one_key": lambda d: crossing(d, 2, 5, 1),
    }
    growth = {"context": lambda d, n: crossing(d, 2, 5, n)}


BUGS = [
    *COMMON_BUGS,
    Bug(
        "scaled by the square root of d_model instead of head_dim",
        "each head's scores are sums over head_dim products, so that is what they are scaled by.",
        "scores = scores / math.sqrt(q.shape[-1])",
        "scores = scores / math.sqrt(q.shape[-1] * q.shape[-3])",
    ),
    Bug(
        "mask ignored",
        "keys where the mask is False get weight 0.",
        "heads = attend(q, k, v, mask)",
        "heads = attend(q, k, v, None)",
    ),
    Bug(
        "heads interleaved over the features",
        "head h owns neighbouring rows h·head_dim … (h+1)·head_dim, not every num_heads-th one.",
        "return x.unflatten(-1, (num_heads, -1)).transpose(-3, -2)",
        "return x.unflatten(-1, (-1, num_heads)).movedim(-1, -3)",
    ),
    Bug(
        "context ignored",
        "keys and values come from the context where there is one.",
        "source = x if context is None else context",
        "source = x",
    ),
    Bug(
        "values taken from x instead of the context",
        "keys and values belong together: both come from the context.",
        "v = split_heads(self.v_proj(source), self.num_heads)",
        "v = split_heads(self.v_proj(x if x.shape == source.shape else source.roll(1, 1)), self.num_heads)",
    ),
    Bug(
        "a projection with a bias",
        "projections carry no bias here: state dicts must be exchangeable.",
        "self.v_proj = nn.Linear(d_model, d_model, bias=False, device=device, dtype=dtype)",
        "self.v_proj = nn.Linear(d_model, d_model, device=device, dtype=dtype)",
    ),
]

EQUIVALENT = (*attending.EQUIVALENT,)
