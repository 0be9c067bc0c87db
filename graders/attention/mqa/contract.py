"""What `MultiQueryAttention` must do. The oracle computes one query head at a time, all with the same key head."""

from __future__ import annotations

from dojo.contracts import Attempt, AttentionContract, Draw, fail, fast


class TestMultiQueryAttention(AttentionContract):
    name = "MultiQueryAttention"
    holds = {
        "Masks": ("test_no_key_behind", "test_hard_cases"),
        "Copies": ("test_keys_and_values_serve",),
        "Half precision": ("test_half_precision", "test_softmax_is", "test_float16"),
        "Errors": ("test_heads_must",),
    }

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
