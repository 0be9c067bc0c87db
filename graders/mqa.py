"""What `MultiQueryAttention` must do. The oracle computes one query head at a time, all with the same key head."""

from __future__ import annotations

from dojo.attending import AttentionContract
from dojo.bugs import Bug
from dojo.contract import fast
from dojo.expect import Draw, fail
from dojo.judge.proxy import Attempt

COPYING = {"aten::repeat", "aten::repeat_interleave", "aten::tile"}


class TestMultiQueryAttention(AttentionContract):
    name = "MultiQueryAttention"

    @classmethod
    def kv_heads(cls, heads: int) -> int:
        return 1

    @fast
    def test_keys_and_values_serve_all_heads_by_broadcasting(self, attempt: Attempt, draw: Draw) -> None:
        reading = self.readings(attempt, type(self).call(draw, 2, 5))[-1]
        copied = sorted(COPYING & set(reading["profiled"]))
        if copied:
            sentence = "one key and one value head serve all query heads by broadcasting, not by copies"
            fail(sentence, f"ran: {', '.join(copied)}")


BUGS = [
    Bug(
        "no scale",
        "without 1/√head_dim the scores grow with the width and softmax saturates.",
        "scores = scores / math.sqrt(q.shape[-1])",
        "scores = scores * 1.0",
    ),
    Bug(
        "scaled by the square root of d_model instead of head_dim",
        "each head's scores are sums over head_dim products, so that is what they are scaled by.",
        "scores = scores / math.sqrt(q.shape[-1])",
        "scores = scores / math.sqrt(q.shape[-1] * q.shape[-3])",
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
        "mask ignored",
        "keys where the mask is False get weight 0.",
        "heads = attend(q, k, v, mask)",
        "heads = attend(q, k, v, None)",
    ),
    Bug(
        "heads not moved back before the merge",
        "without the transpose the merge mixes heads and positions.",
        "merged = heads.transpose(-3, -2).flatten(-2)",
        "merged = heads.reshape(x.shape)",
    ),
    Bug(
        "heads interleaved over the features",
        "head h owns neighbouring rows h·head_dim … (h+1)·head_dim, not every num_heads-th one.",
        "q = self.q_proj(x).unflatten(-1, (self.num_heads, -1)).transpose(-3, -2)",
        "q = self.q_proj(x).unflatten(-1, (-1, self.num_heads)).movedim(-1, -3)",
    ),
    Bug(
        "keys also used as values",
        "the values have a projection of their own.",
        "v = self.v_proj(x).unsqueeze(-3)",
        "v = k + 0 * self.v_proj(x).unsqueeze(-3)",
    ),
    Bug(
        "keys copied for every head",
        "the one key head broadcasts; copies give up the memory that multi-query attention saves.",
        "k = self.k_proj(x).unsqueeze(-3)",
        "k = self.k_proj(x).unsqueeze(-3).repeat_interleave(self.num_heads, -3)",
    ),
]
