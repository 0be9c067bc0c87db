"""What `window_mask` and `attention_with_sinks` must do. The oracles go key by key, and query by query."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from dojo.contracts import (
    FUSED,
    HALF,
    Attempt,
    Call,
    Draw,
    Formula,
    GeneratorContract,
    SoftmaxContract,
    bare,
    fail,
    in_part,
    robust,
)
from dojo.contracts.oracles import Attention, by_logsumexp, normalised_last, stage_by_stage


def who_sees_whom(q_len: int, k_len: int | None = None, window: int = 1, sinks: int = 0) -> Tensor:
    keys = q_len if k_len is None else k_len
    seen = torch.zeros(q_len, keys, dtype=torch.bool)
    for row, position in zip(seen, range(keys - q_len, keys), strict=True):
        row[: min(sinks, position + 1)] = True
        row[max(0, position - window + 1) : position + 1] = True
    return seen


class TestWindowMask(GeneratorContract):
    name = "window_mask"
    oracle = who_sees_whom
    holds = {
        "Positions": ("test_a_window_counts", "test_queries_are", "test_the_first_tokens", "test_no_query"),
        "Device": ("test_the_mask_is_on",),
        "Errors": ("test_a_window_below",),
    }
    claims = {
        "a window counts the token itself": [(5, None, 1), (6, None, 3), (7, 7, 2), (40, 40, 17), (4, None, 100)],
        "queries are the last of the keys": [
            *((2, 5, 2), (1, 7, 4), (6, 9, 3), (20, 70, 31), (3, 8, 8)),
            *((1, 1500, 700), (9, 2101, 30)),  # float16 would tell positions apart up to 2,048
        ],
        "the first tokens stay visible": [(8, None, 3, 2), (2, 9, 3, 2), (5, 5, 2, 1), (6, 11, 1, 4), (1, 9, 2, 3)],
        "no query sees a sink behind itself": [(5, None, 1, 4), (4, 6, 2, 9), (7, None, 2, 7)],
    }
    refused = {"a window below 1 is a ValueError": {(5, None, 0): (0,), (5, 7, -2): (-2,), (4, None, -1, 2): (-1,)}}
    growth = {
        "the lengths": lambda n: (n, n + 1, 3, 2),
        "the window": lambda n: (50, 60, n, 2),
        "the sinks": lambda n: (50, 60, 3, n),
    }
    timed = (700, 900, 20_000_000, 60)  # nothing may be made for each place of a window

    @robust
    def test_the_mask_is_on_the_device_that_is_asked_for(self, attempt: Attempt) -> None:
        """On a GPU the mask meets scores of another device, and the first forward pass fails."""
        for device in (torch.device("meta"), "meta"):
            asked = {"window": 2, "sinks": 1, "device": device}
            placed = attempt.window_mask.fake_device(3, 5, **asked)["placed"]
            if placed is None:  # our make-believe device could not tell: ask a real one, which is slow to start
                placed = attempt.window_mask(3, 5, **asked).is_meta
            if not placed:
                fail("the mask is on the device that is asked for", "it stayed on the CPU")


def query_by_query(q: Tensor, k: Tensor, v: Tensor, sink_logits: Tensor, mask: Tensor | None = None) -> Tensor:
    shape, q, k, v, seen = _flat(q, k, v, mask)
    rows = []
    for entry, sink in enumerate(sink_logits.repeat(math.prod(shape[:-1]))):
        apart = zip(q[entry].split(1), seen[entry], strict=True)
        for queries, allowed in [(q[entry], ...)] if mask is None else apart:
            if mask is not None and not allowed.any():
                rows.append(0 * (v[entry, :1] + queries.sum()))
                continue
            scores = queries @ k[entry][allowed].mT / math.sqrt(q.shape[-1])
            weights = torch.cat([scores, sink.expand(len(queries), 1)], 1).softmax(1)[:, :-1]
            rows.append(weights @ v[entry][allowed])
    return torch.cat(rows).view(*shape, q.shape[-2], v.shape[-1])


def _flat(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> tuple:
    """The leading axes, and all tensors with these in one."""
    mask = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool) if mask is None else mask
    mask = mask.expand(*q.shape[:-1], k.shape[-2]).flatten(0, -3)
    return q.shape[:-2], *(t.flatten(0, -3) for t in (q, k, v)), mask


def gated(attend: Attention) -> Formula:
    """Plain attention times the sigmoid of lse - sink."""

    def formula(q: Tensor, k: Tensor, v: Tensor, sink_logits: Tensor, mask: Tensor | None = None) -> Tensor:
        shape, q, k, v, allowed = _flat(q, k, v, mask)
        wide = torch.promote_types(q.dtype, torch.float32)
        scores = (q.to(wide) @ k.to(wide).mT / q.shape[-1] ** 0.5).masked_fill(~allowed, torch.finfo(wide).min)
        sinks = sink_logits.to(wide).repeat(math.prod(shape[:-1]))[:, None, None]
        share = torch.sigmoid(scores.logsumexp(-1, keepdim=True) - sinks)
        plain = attend(q, k, v, None if mask is None else allowed)
        return (plain.to(wide) * share).to(q.dtype).unflatten(0, shape)

    return formula


def a_column_more(q: Tensor, k: Tensor, v: Tensor, sink_logits: Tensor, mask: Tensor | None = None) -> Tensor:
    """Scores and weights rounded to the dtype of the inputs, as transformers does."""
    shape, q, k, v, allowed = _flat(q, k, v, mask)
    scores = (q @ k.mT / q.shape[-1] ** 0.5).masked_fill(~allowed, torch.finfo(q.dtype).min)
    sinks = sink_logits.to(q.dtype).repeat(math.prod(shape[:-1]))[:, None, None].expand(*scores.shape[:-1], 1)
    wide = torch.promote_types(q.dtype, torch.float32)
    weights = torch.cat([scores, sinks], -1).softmax(-1, dtype=wide)[..., :-1] * allowed
    return (weights.to(v.dtype) @ v).unflatten(0, shape)


def call(
    d: Draw, shape: tuple = (2,), heads: int = 3, q_len: int = 5, k_len: int = 7, d_k: int = 6, d_v: int = 4,
    logit_scale: float = 1.4, sinks: tuple = (), mask: tuple = (),
) -> Call:  # fmt: skip
    """Inputs with `shape` before the heads. Scores deviate by about `logit_scale` squared."""
    inputs = {
        "q": d.normal(*shape, heads, q_len, d_k, scale=logit_scale),
        "k": d.normal(*shape, heads, k_len, d_k, scale=logit_scale),
        "v": d.normal(*shape, heads, k_len, d_v),
        "sink_logits": torch.tensor(sinks) if sinks else d.normal(heads, scale=2.0),
    }
    return Call(inputs | ({"mask": in_part(d, *mask)} if mask else {}))


def far_below_zero(d: Draw) -> Call:
    """Queries of positive entries alone, and keys of negative ones: far below what a mask is often filled with."""
    made = call(d, logit_scale=200.0, mask=(2, 1, 5, 7), sinks=NONE)
    return made.with_inputs(q=made.inputs["q"].abs(), k=-made.inputs["k"].abs())


def one_value_for_many_keys(d: Draw) -> Call:
    # Sinks that take about half: were it little, all results would be rounded alike.
    made = call(d, (), heads=2, q_len=256, k_len=1000, d_k=8, logit_scale=0.7, sinks=(6.5, 7.2))
    return made.with_inputs(v=d.uniform(64, low=1.7, high=2.0).expand(2, 1000, -1))


NONE, FAR_ABOVE = (-math.inf,) * 3, (200.0, 150.0, -200.0)


def dead(sinks: tuple = (), *shape: int) -> object:
    return lambda d: call(d, sinks=sinks).with_inputs(mask=d.mask(*shape, 5, 7, dead_row=True))


class TestAttentionWithSinks(SoftmaxContract):
    name = "attention_with_sinks"
    oracle = query_by_query
    variants = (a_column_more, *map(gated, (stage_by_stage, normalised_last, by_logsumexp)))
    ban = FUSED
    call = call
    one_value_for_many_keys = one_value_for_many_keys
    holds = {
        "Masks": ("test_hard_cases",),
        "Masked rows": ("test_a_query_that_may",),
        "Sinks": ("test_float32_sinks", "test_hard_cases"),
        "Half precision": ("test_half_precision", "test_softmax_is"),
        "Errors": ("test_sinks_that_are",),
    }
    cases = {
        "heads_alone": {"shape": ()},
        "a_batch": {},
        "a_mask_for_all": {"mask": (5, 7)},
        "padding": {"mask": (2, 1, 1, 7)},
        "a_mask_for_each": {"mask": (2, 3, 5, 7)},
        "a_window": lambda d: call(d).with_inputs(mask=who_sees_whom(5, 7, 3, 1)),
        "as_many_of_everything": {"shape": (4,), "heads": 4, "q_len": 4, "k_len": 4, "d_k": 4},
        "sinks_larger_than_most_scores": {"sinks": (4.0, 6.0, 2.5), "mask": (3, 5, 7)},
    }
    hard_cases = {
        "one_head_without_a_sink": {"sinks": (0.5, -math.inf, -1.0), "mask": (2, 3, 5, 7)},
        "sinks_far_above_all_scores": {"sinks": FAR_ABOVE, "mask": (2, 3, 5, 7)},
        "very_large_scores": {"logit_scale": 120.0, "mask": (2, 1, 5, 7)},
        "very_large_scores_and_no_mask": {"logit_scale": 120.0},
        "scores_far_below_zero": far_below_zero,
    }
    dead_rows = {
        "one_query_of_each": dead((), 2, 3),
        "one_query_of_each_without_sinks": dead(NONE, 2, 3),
        "one_query_of_all_without_sinks": dead(NONE),
        "a_mask_of_one_column": lambda d: call(d).with_inputs(mask=d.mask(2, 1, 5, 1, dead_row=True)),
    }
    representative = ("a_batch", "a_mask_for_each", "padding")
    more_shapes = {
        "one_query": {"q_len": 1},
        "one_key": {"k_len": 1},
        "one_head": {"heads": 1},
        "one_of_each": {"shape": (), "heads": 1, "q_len": 1, "k_len": 1, "d_k": 1, "d_v": 1},
        "three_leading_dimensions": {"shape": (2, 1, 2), "mask": (2, 1, 2, 3, 5, 7)},
    }
    grows = {"heads": "heads", "q_len": "q_len", "k_len": "k_len", "the leading axes": "shape"}
    timed = {"shape": (4,), "heads": 6, "q_len": 96, "k_len": 96, "d_k": 16, "d_v": 16, "mask": (96, 96)}
    time_limit = 12.0

    @robust
    def test_float32_sinks_beside_half_inputs(self, attempt: Attempt, draw: Draw) -> None:
        """A model keeps its sinks in float32: products of two dtypes fail, or the whole model goes on in float32."""
        for dtype in HALF:
            made = call(draw, mask=(2, 3, 5, 7))
            made = made.cast(dtype).with_inputs(sink_logits=made.inputs["sink_logits"])
            label = f"sink_logits in float32, the rest in {bare(dtype)}"
            with self.case_context(attempt, label, made):
                args, kwargs = self.arguments(made.to(attempt.device))
                got = {"result": self.ready(attempt, made).request(args, kwargs)["value"]}
            self.compare(attempt, draw, label, made, got, dtype)

    @robust
    def test_sinks_that_are_not_one_for_each_head_are_refused(self, attempt: Attempt, draw: Draw) -> None:
        """A sink for each query, or one for all, broadcasts without a word."""
        for length in (1, 5, 4, 7):
            made, sentence = call(draw), f"{length} sink_logits for 3 heads are a ValueError"
            self.refuses(attempt, made.with_inputs(sink_logits=draw.normal(length)), length, sentence=sentence)
