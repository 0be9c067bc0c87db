"""What `GroupedQueryAttention` must do. The oracle gives each query head the key head of its group, one at a time."""

from __future__ import annotations

from functools import partial

from dojo import attending
from dojo.attending import COMMON_BUGS, AttentionContract, weights
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
        x = draw.normal(2, 5, 24).to(attempt.device)

        def use(heads: int, kv_heads: int) -> None:
            attempt.GroupedQueryAttention(24, heads, kv_heads).to(attempt.device)(x)

        for heads, kv_heads in ((6, 4), (3, 6)):
            sentence = "num_heads that num_kv_heads does not divide is a ValueError"
            refuses(partial(use, heads, kv_heads), heads, kv_heads, sentence=sentence)


BUGS = [
    *COMMON_BUGS,
    Bug(
        "scaled by the square root of d_model instead of head_dim",
        "each head's scores are sums over head_dim products, so that is what they are scaled by.",
        "scores = scores / math.sqrt(q.shape[-1])",
        "scores = scores / math.sqrt(x.shape[-1])",
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

EQUIVALENT = (*attending.EQUIVALENT,)
