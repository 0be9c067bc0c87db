"""What `MultiQueryAttention` must do. The oracle computes one query head at a time, all with the same key head."""

from __future__ import annotations

from dojo.contracts import Attempt, AttentionContract, Draw, KnownBugs, fail, fast


class TestMultiQueryAttention(AttentionContract):
    name = "MultiQueryAttention"

    @classmethod
    def kv_heads(cls, heads: int) -> int:
        return 1

    @fast
    def test_keys_and_values_serve_all_heads_by_broadcasting(self, attempt: Attempt, draw: Draw) -> None:
        callee, args, kwargs = self.prepare_call(attempt, type(self).call(draw, 2, 5))
        ran = callee.operations(*args, **kwargs)["profiled"]
        copies = sorted({"aten::repeat", "aten::repeat_interleave", "aten::tile"} & set(ran))
        if copies:
            fail("one key and one value head serve all by broadcasting, not by copies", f"ran: {', '.join(copies)}")


CLAIMS = {  # words of the statement, and the checks that hold them
    "Do not repeat": "by_broadcasting",
}

BUGS = KnownBugs(
    """
heads interleaved over the features
    head h owns neighbouring rows h·head_dim … (h+1)·head_dim, not every num_heads-th one.
    .unflatten(-1, (self.num_heads, -1)).transpose(-3, -2)  →  .unflatten(-1, (-1, self.num_heads)).movedim(-1, -3)
keys also used as values
    the values have a projection of their own.
    v = self.v_proj(x).unsqueeze(-3)  →  v = k
keys copied for every head
    the one key head broadcasts; copies give up the memory that multi-query attention saves.
    self.k_proj(x).unsqueeze(-3)  →  self.k_proj(x).unsqueeze(-3).repeat_interleave(self.num_heads, -3)
""",
    builds_on=("mha",),
)
