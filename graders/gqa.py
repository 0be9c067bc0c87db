"""What `GroupedQueryAttention` must do. The oracle gives each query head the key head of its group, one at a time."""

from __future__ import annotations

from dojo.attending import AttentionContract, weights
from dojo.bugs import Bug
from dojo.contract import robust
from dojo.expect import Call, Draw, refuses
from dojo.judge.proxy import Attempt


def of_groups(d: Draw, heads: int, kv_heads: int) -> Call:
    """A call with this many query heads to this many key heads."""
    d_model, head_dim = heads * 4, 4
    init = {"d_model": d_model, "num_heads": heads, "num_kv_heads": kv_heads}
    inputs = {"x": d.normal(2, 5, d_model), "mask": d.mask(2, heads, 5, 5)}
    return Call(inputs, init, weights(d, d_model, kv_heads * head_dim))


class TestGroupedQueryAttention(AttentionContract):
    name = "GroupedQueryAttention"
    heads = 6
    cases = {
        "as_many_key_heads_as_heads": lambda d: of_groups(d, 6, 6),
        "one_key_head": lambda d: of_groups(d, 6, 1),
        "three_groups_of_two": lambda d: of_groups(d, 6, 3),
        "two_groups_of_four": lambda d: of_groups(d, 8, 2),
    }

    @classmethod
    def kv_heads(cls, heads: int) -> int:
        return 2 if heads % 2 == 0 else 1

    @classmethod
    def init(cls, heads: int, head_dim: int) -> dict:
        return super().init(heads, head_dim) | {"num_kv_heads": cls.kv_heads(heads)}

    @robust
    def test_key_heads_must_divide_the_heads(self, attempt: Attempt, draw: Draw) -> None:
        sentence = "num_heads that num_kv_heads does not divide is a ValueError"
        refuses(lambda: attempt.GroupedQueryAttention(24, 6, 4), 6, 4, sentence=sentence)
        refuses(lambda: attempt.GroupedQueryAttention(24, 3, 6), 3, 6, sentence=sentence)


BUGS = [
    Bug(
        "no scale",
        "without 1/√head_dim the scores grow with the width and softmax saturates.",
        "scores = scores / math.sqrt(q.shape[-1])",
        "scores = scores * 1.0",
    ),
    Bug(
        "scaled by head_dim instead of its square root",
        "a sum of head_dim products has a standard deviation of √head_dim, not head_dim.",
        "scores = scores / math.sqrt(q.shape[-1])",
        "scores = scores / q.shape[-1]",
    ),
    Bug(
        "softmax over the queries",
        "each query spreads a weight of 1 over the keys, so softmax runs over the last axis.",
        "weights = torch.softmax(scores, dim=-1)",
        "weights = torch.softmax(scores, dim=-2)",
    ),
    Bug(
        "mask inverted",
        "True means that a query may attend to a key, so what is filled is where the mask is False.",
        "scores = scores.masked_fill(~mask, torch.finfo(acc).min)",
        "scores, mask = scores.masked_fill(mask, torch.finfo(acc).min), ~mask",
    ),
    Bug(
        "mask added to the scores",
        "a boolean mask added to the scores only raises them by 1.",
        "scores = scores.masked_fill(~mask, torch.finfo(acc).min)",
        "scores, mask = scores + mask, torch.ones_like(mask)",
    ),
    Bug(
        "masked after softmax without normalising again",
        "weights that the mask removes must be gone before the sum is taken.",
        "scores = scores.masked_fill(~mask, torch.finfo(acc).min)",
        "scores = scores.clone()",
    ),
    Bug(
        "rows that may attend to nothing give nan",
        "softmax of a row of only -inf is nan; such a query gets zeros.",
        "scores = scores.masked_fill(~mask, torch.finfo(acc).min)",
        "scores, mask = scores.masked_fill(~mask, -torch.inf), torch.ones_like(mask)",
    ),
    Bug(
        "rows that may attend to nothing average all values",
        "a row filled with the smallest number gives equal weights; such a query gets zeros.",
        "weights = weights.masked_fill(~mask, 0.0)",
        "weights = weights * 1.0",
    ),
    Bug(
        "no output projection",
        "the merged heads pass through o_proj.",
        "return self.o_proj(merged)",
        "return merged + 0 * self.o_proj(merged)",
    ),
    Bug(
        "weights detached from the graph",
        "no gradient reaches queries and keys, so attention never learns where to look.",
        "weights = torch.softmax(scores, dim=-1)",
        "weights = torch.softmax(scores, dim=-1).detach()",
    ),
    Bug(
        "heads that do not divide the model are not refused",
        "rounding head_dim down silently drops features.",
        "if num_heads < 1 or d_model % num_heads != 0:",
        "if num_heads < 1:",
    ),
    Bug(
        "scaled by the square root of d_model instead of head_dim",
        "each head's scores are sums over head_dim products, so that is what they are scaled by.",
        "scores = scores / math.sqrt(q.shape[-1])",
        "scores = scores / math.sqrt(x.shape[-1])",
    ),
    Bug(
        "heads not moved back before the merge",
        "without the transpose the merge mixes heads and positions.",
        "merged = heads.transpose(-3, -2).flatten(-2)",
        "merged = heads.reshape(x.shape)",
    ),
    Bug(
        "repeat instead of repeat_interleave",
        "query head h reads key head h // group; tiled key heads give it key head h % num_kv_heads.",
        "k, v = k.unsqueeze(-3), v.unsqueeze(-3)",
        "k, v = (t.repeat(1, group, 1, 1).unflatten(-3, (-1, group)) for t in (k, v))",
    ),
    Bug(
        "every head reads the first key head",
        "each group has a key head of its own.",
        "k, v = k.unsqueeze(-3), v.unsqueeze(-3)",
        "k, v = k[:, :1].unsqueeze(-3), v[:, :1].unsqueeze(-3)",
    ),
    Bug(
        "values grouped in another order than keys",
        "keys and values of one head belong together.",
        "k, v = k.unsqueeze(-3), v.unsqueeze(-3)",
        "k, v = k.unsqueeze(-3), v.flip(-3).unsqueeze(-3)",
    ),
    Bug(
        "key heads that do not divide the heads are not refused",
        "some query head would have no key head, or two.",
        "if num_kv_heads < 1 or num_heads % num_kv_heads != 0:",
        "if num_kv_heads < 1:",
    ),
]
