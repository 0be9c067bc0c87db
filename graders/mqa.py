"""What `MultiQueryAttention` must do. The oracle computes one query head at a time, all with the same key head."""

from __future__ import annotations

from dojo import attending
from dojo.attending import COMMON_BUGS, AttentionContract
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
        callee, args, kwargs = self.at_hand(attempt, type(self).call(draw, 2, 5))
        copied = sorted(COPYING & set(callee.operations(*args, **kwargs)["profiled"]))
        if copied:
            sentence = "one key and one value head serve all query heads by broadcasting, not by copies"
            fail(sentence, f"ran: {', '.join(copied)}")


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

EQUIVALENT = (*attending.EQUIVALENT,)
