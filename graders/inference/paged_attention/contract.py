"""What the two functions must do. The oracle collects the tokens of each sequence from their pages, one by one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from dojo.contracts import FUSED, Attempt, Call, Contract, Draw, SoftmaxContract, fast, oracles, robust, too_much


def one_by_one(block_table: Tensor, positions: Tensor, page_size: int) -> Tensor:
    table, rows = block_table.tolist(), positions.tolist()
    found = [[table[b][p // page_size] * page_size + p % page_size for p in row] for b, row in enumerate(rows)]
    return torch.tensor(found, dtype=torch.int64)


class TestSlotIndices(Contract):
    name = "slot_indices"
    oracle = one_by_one
    variants = ()
    differentiable = False
    half = ()
    off = {"test_float64_is_at_least_as_accurate_as_float32": "integers have no other dtype"}
    cases = {"pages_of_four": {}, "pages_of_one_token": {"page_size": 1}, "pages_of_seven": {"page_size": 7}}

    @classmethod
    def call(cls, d: Draw, batch: int = 3, pages: int = 5, n: int = 6, page_size: int = 4) -> Call:
        """Distinct pages in no order; positions in no order."""
        table = d.positions(batch * pages + 2, batch * pages).view(batch, pages)
        positions = d.integers(0, pages * page_size, batch, n)
        return Call({"block_table": table, "positions": positions, "page_size": page_size})


def over_tokens(attend: oracles.Attention) -> Callable[..., Tensor]:
    """Attention of each sequence and query head by itself."""

    def formula(q: Tensor, k_pages: Tensor, v_pages: Tensor, block_table: Tensor, lengths: Tensor) -> Tensor:
        size, group, results = k_pages.shape[1], q.shape[1] // k_pages.shape[2], []
        for b, (table, length) in enumerate(zip(block_table.tolist(), lengths.tolist(), strict=True)):
            places = [(table[t // size], t % size) for t in range(length)]
            k, v = (torch.stack([pages[place] for place in places], 1) for pages in (k_pages, v_pages))
            results += [attend(q[b, h : h + 1], k[h // group], v[h // group], None) for h in range(q.shape[1])]
        return torch.cat(results).view(q.shape)

    return formula


class TestPagedAttention(SoftmaxContract):
    name = "paged_attention"
    oracle = staticmethod(over_tokens(oracles.library))
    variants = tuple(over_tokens(way) for way in oracles.WAYS)
    differentiable = False
    ban = FUSED
    values = "v_pages"
    holds = {
        "Unused entries": ("test_unused_entries",),
        "Unused places": ("test_unused_places",),
        "Half precision": ("test_half_precision", "test_softmax_is"),
        "Cost": ("test_nothing_as_large",),
        "Errors": ("test_key_heads",),
    }
    cases = {
        "two_heads_a_key_head": {},
        "as_many_key_heads_as_heads": {"kv_heads": 6},
        "one_key_head": {"kv_heads": 1},
        "full_pages": {"lengths": (8, 4, 12)},
        "pages_of_one_token": {"page_size": 1, "lengths": (3, 5, 1)},
        "one_page_for_all": {"page_size": 16, "lengths": (5, 16, 1)},
    }
    hard_cases = {"scores_far_below_zero": lambda d: TestPagedAttention.far_below_zero(d)}
    more_shapes = {
        "one_sequence": {"lengths": (9,)},
        "one_token": {"lengths": (1, 1)},
        "one_head": {"heads": 1, "kv_heads": 1, "head_dim": 1},
    }
    growth = {
        "batch": lambda d, n: TestPagedAttention.call(d, lengths=(5,) * n),
        "length": lambda d, n: TestPagedAttention.call(d, lengths=(4 * n, 3)),
        "heads": lambda d, n: TestPagedAttention.call(d, heads=2 * n, kv_heads=n),
        "pages": lambda d, n: TestPagedAttention.call(d, lengths=(5, 3), spare=n),
    }
    timed = {"lengths": (64, 200, 120, 256), "heads": 8, "kv_heads": 4, "head_dim": 32, "page_size": 16}

    @classmethod
    def call(
        cls, d: Draw, lengths: tuple[int, ...] = (9, 3, 14), heads: int = 6, kv_heads: int = 3, head_dim: int = 5,
        page_size: int = 4, spare: int = 3, scale: float = 2.0,
    ) -> Call:  # fmt: skip
        """Sequences on pages in no order; pages of nobody, and unused places, hold other tokens' numbers."""
        width = 1 + max(-(-length // page_size) for length in lengths)
        count = len(lengths) * width + spare
        table = d.positions(count, len(lengths) * width).view(len(lengths), width)
        k, v = (d.normal(count, page_size, kv_heads, head_dim, scale=size) for size in (scale, 1.0))
        return Call({
            "q": d.normal(len(lengths), heads, head_dim, scale=scale), "k_pages": k, "v_pages": v,
            "block_table": table, "lengths": torch.tensor(lengths),
        })  # fmt: skip

    @classmethod
    def far_below_zero(cls, d: Draw) -> Call:
        """Queries of positive entries alone, and keys of negative ones: far below what a mask is often filled with."""
        made = cls.call(d, scale=200.0)
        return made.with_inputs(q=made.inputs["q"].abs(), k_pages=-made.inputs["k_pages"].abs())

    @classmethod
    def one_value_for_many_keys(cls, d: Draw) -> Call:
        made = cls.call(d, (500, 400), heads=32, kv_heads=32, head_dim=16, page_size=32, scale=0.8)
        one = d.uniform(32, 16, low=1.7, high=2.0)
        return made.with_inputs(v_pages=one.expand(made.inputs["v_pages"].shape).clone())

    @robust
    def test_unused_entries_of_the_table_may_hold_anything(self, attempt: Attempt, draw: Draw) -> None:
        """Tables are filled with -1, or with what a batch before left in them: an index error, or another's page."""
        for told, number in (("-1", -1), ("a number beyond the pool", 10**6)):
            made = self.call(draw, lengths=(8, 3, 14))  # the first ends with its page
            starts = 4 * torch.arange(made.inputs["block_table"].shape[1])
            table = made.inputs["block_table"].masked_fill(starts >= made.inputs["lengths"][:, None], number)
            self.verify(attempt, draw, f"unused entries are {told}", made.with_inputs(block_table=table))

    @robust
    def test_unused_places_may_hold_nan(self, attempt: Attempt, draw: Draw) -> None:
        """A pool is allocated and not filled, and 0 · nan is nan: a sequence turns into nan by what it never wrote."""
        for told, number in (("nan", torch.nan), ("inf", torch.inf), ("-inf", -torch.inf)):
            made = self.call(draw)
            table, lengths = made.inputs["block_table"].tolist(), made.inputs["lengths"].tolist()
            unused = torch.ones(made.inputs["k_pages"].shape[:2], dtype=torch.bool)
            for row, length in zip(table, lengths, strict=True):
                for t in range(length):
                    unused[row[t // 4], t % 4] = False
            pools = {
                name: made.inputs[name].masked_fill(unused[..., None, None], number) for name in ("k_pages", "v_pages")
            }
            self.verify(attempt, draw, f"unused places are {told}", made.with_inputs(**pools))

    @robust
    def test_key_heads_must_divide_the_heads(self, attempt: Attempt, draw: Draw) -> None:
        """A wrong configuration shows as a shape error deep in the model."""
        for heads, kv_heads in ((6, 4), (3, 6)):
            made = self.call(draw, heads=heads, kv_heads=kv_heads)
            self.refuses(attempt, made, heads, kv_heads, sentence=f"{heads} heads to {kv_heads} key heads are refused")

    @fast
    def test_nothing_as_large_as_the_pool_is_made(self, attempt: Attempt, draw: Draw) -> None:
        made = self.call(draw, lengths=(5, 9), spare=2000)
        callee, args, kwargs = self.prepare_call(attempt, made)
        sizes: dict[str, Any] = attempt.observed([(callee, args, kwargs)])["made"]
        name, most = max(sizes.items(), key=lambda each: each[1], default=("", 0))
        pool = made.inputs["k_pages"].nbytes
        if most > pool / 8:
            too_much("nothing as large as the pool is made", f"{name} made {most} bytes, the pool has {pool}")
