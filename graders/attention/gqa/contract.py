"""What `GroupedQueryAttention` must do. The oracle gives each query head the key head of its group, one at a time."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from dojo.contracts import Attempt, AttentionContract, Call, Draw, assert_raises, robust
from dojo.contracts.oracles import weights


def of_groups(d: Draw, heads: int, kv_heads: int) -> Call:
    """A call with this many query heads to this many key heads."""
    init = {"d_model": 4 * heads, "num_heads": heads, "num_kv_heads": kv_heads}
    inputs = {"x": d.normal(2, 5, 4 * heads), "mask": d.mask(2, heads, 5, 5)}
    return Call(inputs, init, weights(d, 4 * heads, 4 * kv_heads))


class TestGroupedQueryAttention(AttentionContract):
    name = "GroupedQueryAttention"
    heads = 6
    holds = {
        "Masks": ("test_no_key_behind", "test_hard_cases"),
        "Half precision": ("test_half_precision", "test_softmax_is", "test_float16"),
        "Errors": ("test_heads_must", "test_key_heads_must"),
    }
    cases = {
        "as_many_key_heads_as_heads": lambda d: of_groups(d, 6, 6),
        "one_key_head": lambda d: of_groups(d, 6, 1),
        "three_groups_of_two": lambda d: of_groups(d, 6, 3),
        "two_groups_of_four": lambda d: of_groups(d, 8, 2),
        "two_groups_of_two": lambda d: of_groups(d, 4, 2),
    }
    growth = {"heads": lambda d, n: of_groups(d, 2 * n, 2), "key heads": lambda d, n: of_groups(d, 2 * n, n)}

    @classmethod
    def kv_heads(cls, heads: int) -> int:
        return 2 if heads % 2 == 0 else 1

    @classmethod
    def of_heads(cls, heads: int) -> dict:
        return {"num_heads": heads, "num_kv_heads": cls.kv_heads(heads)}

    @robust
    def test_key_heads_must_divide_the_heads(self, attempt: Attempt, draw: Draw) -> None:
        """A wrong configuration shows as a shape error deep in the model. In Llama's own code it is an assertion."""
        sentence = "num_heads that num_kv_heads does not divide is a ValueError"
        for heads, kv_heads in ((6, 4), (3, 6)):
            made = replace(of_groups(draw, heads, kv_heads), params={})
            assert_raises(partial(self.run, attempt, "", made), heads, kv_heads, sentence=sentence)
