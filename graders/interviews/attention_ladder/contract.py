"""What each stage must do. The oracle knows no cache: one query head at a time, by torch's own attention in float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from dojo.contracts import (
    FUSED,
    HALF,
    Attempt,
    AttentionContract,
    Call,
    Callee,
    Draw,
    Fault,
    ModuleContract,
    SoftmaxContract,
    core,
    fail,
    fast,
    in_part,
    match,
    oracles,
    robust,
    tensor,
    too_much,
)

COPIES = {"clone", "repeat", "index_select", "index", "gather", "cat", "stack", "copy", "expand_copy"}


def of(attend: oracles.Attention) -> Callable[..., Tensor]:
    return lambda q, k, v, mask=None: attend(q, k, v, None if mask is None else mask.expand(*q.shape[:-1], k.shape[-2]))


def call(
    d: Draw, shape: tuple = (2, 3), q_len: int = 5, k_len: int = 7, dim: int = 4, logit_scale: float = 1.6,
    mask: tuple = (),
) -> Call:  # fmt: skip
    """Inputs with `shape` before their last two axes. Scores deviate by about `logit_scale` squared."""
    q, k = (d.normal(*shape, length, dim, scale=logit_scale) for length in (q_len, k_len))
    inputs = {"q": q, "k": k, "v": d.normal(*shape, k_len, dim)}
    return Call(inputs | ({"mask": in_part(d, *mask)} if mask else {}))


def far_below_zero(d: Draw) -> Call:
    """Queries of positive entries alone, and keys of negative ones: far below what a mask is often filled with."""
    made = call(d, logit_scale=200.0, mask=(2, 1, 5, 7))
    return made.with_inputs(q=made.inputs["q"].abs(), k=-made.inputs["k"].abs())


def one_value_for_many_keys(d: Draw) -> Call:
    made = call(d, (), q_len=256, k_len=1000, dim=16, logit_scale=0.6)
    return made.with_inputs(v=d.uniform(16, low=1.7, high=2.0).expand(1000, -1))


class TestAttention(SoftmaxContract):
    name = "attention"
    stage = 1
    oracle = of(oracles.library)
    variants = tuple(map(of, oracles.WAYS))
    ban = FUSED
    call = call
    one_value_for_many_keys = one_value_for_many_keys
    holds = {
        "Mask": ("test_hard_cases",),
        "Masked rows": ("test_a_query_that_may",),
        "Half precision": ("test_half_precision", "test_softmax_is"),
        "Scale": ("test_values_match",),
    }
    cases = {
        "no_leading_axes": {"shape": ()},
        "a_batch": {"shape": (2,)},
        "a_mask_for_all": {"mask": (5, 7)},
        "padding": {"mask": (2, 1, 1, 7)},
        "a_mask_for_each": {"mask": (2, 3, 5, 7)},
    }
    hard_cases = {
        "very_large_scores": {"logit_scale": 150.0, "mask": (2, 1, 5, 7)},
        "scores_far_below_zero": far_below_zero,
    }
    dead_rows = {
        "one_query_of_each": lambda d: call(d).with_inputs(mask=d.mask(2, 3, 5, 7, dead_row=True)),
        "one_query_of_all": lambda d: call(d).with_inputs(mask=d.mask(5, 7, dead_row=True)),
    }
    representative = ("a_batch", "a_mask_for_each")
    more_shapes = {
        "one_of_each": {"shape": (), "q_len": 1, "k_len": 1, "dim": 1},
        "as_many_of_everything": {"k_len": 5, "dim": 5, "mask": (5, 5)},
    }
    grows = {"the leading axes": "shape", "q_len": "q_len", "k_len": "k_len"}
    timed = {"shape": (4, 6), "q_len": 96, "k_len": 96, "dim": 16, "mask": (96, 96)}


class TestDecoderMask:
    stage = 2
    holds = {
        "Causal": ("test_a_real_token",),
        "Padding keys": ("test_nobody",),
        "Padding queries": ("test_a_padded",),
        "Device": ("test_the_mask_is",),
        "Cost": ("test_operations",),
    }

    def made(self, attempt: Attempt, lengths: list[int], seq: int) -> Tensor:
        """The mask (batch, seq, seq)."""
        got = tensor(attempt.decoder_mask(torch.tensor(lengths, device=attempt.device), seq), attempt.device).cpu()
        if got.dtype is not torch.bool or got.shape != (len(lengths), 1, seq, seq):
            seen = f"got {got.dtype} {tuple(got.shape)} for {len(lengths)} lengths and seq {seq}"
            fail("the mask is boolean, (batch, 1, seq, seq)", seen)
        return got[:, 0]

    @core
    def test_a_real_token_sees_itself_and_what_stands_before_it(self, attempt: Attempt) -> None:
        for lengths, seq in (([3, 5, 1], 5), ([4, 4, 4, 4], 4), ([1], 1), ([2, 6], 7), ([9, 30], 40)):
            for length, mask in zip(lengths, self.made(attempt, lengths, seq), strict=True):
                expected = torch.tensor([[key <= query for key in range(seq)] for query in range(length)])
                sentence = f"real tokens see themselves and those before them: lengths {lengths}, seq {seq}"
                match(mask[:length], expected, None, sentence, "query key")

    @core
    def test_nobody_sees_a_padding_key(self, attempt: Attempt) -> None:
        for lengths, seq in (([3, 5, 1], 5), ([2, 6], 7), ([7, 30], 40)):
            for length, mask in zip(lengths, self.made(attempt, lengths, seq), strict=True):
                if found := mask[:, length:].nonzero().tolist():
                    seen = (
                        f"{len(found)} times a token does, of a text of length {length}, seq {seq}: query {found[0][0]}"
                    )
                    fail("nobody sees a padding key", seen)

    @core
    def test_a_padded_text_gives_what_it_gives_alone(self, attempt: Attempt, draw: Draw) -> None:
        lengths = [3, 5, 1]
        q, k, v = (draw.normal(3, 2, 5, 4) for _ in range(3))
        mask = attempt.decoder_mask(torch.tensor(lengths, device=attempt.device), 5)
        got = tensor(attempt.attention(*(t.to(attempt.device) for t in (q, k, v)), mask), attempt.device).cpu()
        if not got.isfinite().all():
            fail(
                "with the mask all results are finite, those of padding too", f"got {got[~got.isfinite()][:3].tolist()}"
            )
        for row, length in enumerate(lengths):
            alone = oracles.library(*(t[row, :, :length].double() for t in (q, k, v)), oracles.causal(length))
            allowed = torch.full_like(alone, 1e-5)
            match(got[row, :, :length], alone, allowed, f"a text of {length} in a batch is as alone", "head query dim")

    @robust
    def test_the_mask_is_on_the_device_of_the_lengths(self, attempt: Attempt) -> None:
        """On a GPU the mask meets scores of another device, and the first forward pass fails."""
        reply = attempt.decoder_mask.fake_device(torch.tensor([3, 5]), 5)
        if reply["mixed"] or reply["placed"] is False:
            fail("the mask is on the device of the lengths", reply["mixed"] or "it stayed on the CPU")

    @fast
    def test_operations_do_not_grow_with_the_batch(self, attempt: Attempt) -> None:
        counts = [
            sum(attempt.decoder_mask.operations(torch.arange(1, size + 1), size)["profiled"].values())
            for size in (2, 14)
        ]
        if counts[1] > counts[0]:
            too_much("no loop over the batch or the tokens", f"{counts[0]} operations for 2 texts, {counts[1]} for 14")


class TestHeads(AttentionContract):
    name = "Attention"
    stage = 3
    ban = FUSED
    holds = {"Split": ("test_values_match",), "Errors": ("test_heads_must",)}
    off = {
        "test_takes_device_and_dtype": "nobody writes them in an interview",
        "test_softmax_is_computed_in_float32": "`attention` is asked",
        "test_float16_values_near_300_do_not_overflow": "`attention` is asked",
    }


def only(contract: type, *kept: str) -> dict[str, str]:
    """What a later stage does not ask again: all of a contract's checks but these."""
    rules = [name for name in dir(contract) if name.startswith("test_") and not name.startswith(kept)]
    return dict.fromkeys(rules, "an earlier stage has asked for it")


KEPT = ("test_values", "test_gradients", "test_constructor_takes")


def of_groups(d: Draw, heads: int, kv_heads: int | None) -> Call:
    """A call with this many query heads to this many key heads."""
    made = TestGroups.call(d, 2, 5, heads, mask=d.mask(2, heads, 5, 5))
    params = oracles.weights(d, 4 * heads, 4 * (kv_heads or heads))
    return Call(made.inputs, made.init | {"num_kv_heads": kv_heads}, params)


class TestGroups(AttentionContract):
    name = "Attention"
    stage = 4
    heads = 6
    holds = {
        "Groups": ("test_values_match", "test_holds_exactly"),
        "Copies": ("test_no_key_head",),
        "Default": ("test_without_key_heads",),
    }
    off = only(AttentionContract, *KEPT, "test_holds")
    cases = {
        "one_key_head": lambda d: of_groups(d, 6, 1),
        "three_groups_of_two": lambda d: of_groups(d, 6, 3),
        "two_groups_of_four": lambda d: of_groups(d, 8, 2),
        "two_groups_of_two": lambda d: of_groups(d, 4, 2),
    }

    @classmethod
    def kv_heads(cls, heads: int) -> int:
        return 2 if heads % 2 == 0 else 1

    @classmethod
    def of_heads(cls, heads: int) -> dict:
        return {"num_heads": heads, "num_kv_heads": cls.kv_heads(heads)}

    @core
    def test_without_key_heads_it_is_as_before(self, attempt: Attempt, draw: Draw) -> None:
        made = of_groups(draw, 6, None)
        for label, init in (("left out", {"d_model": 24, "num_heads": 6}), ("None", made.init)):
            self.verify(attempt, draw, f"num_kv_heads {label}", Call(made.inputs, init, made.params))

    @fast
    def test_no_key_head_is_repeated_in_memory(self, attempt: Attempt, draw: Draw) -> None:
        made = self.call(draw, 1, 8, 16, head_dim=64).to(attempt.device)
        found = attempt.observed([self.prepare_call(attempt, made)])["made_in_all"]
        copied, wide = sum(size for name, size in found.items() if name in COPIES), 4 * 8 * 16 * 64
        if copied > 2.5 * wide:  # the queries of a group, and what the heads give
            seen = f"{copied / wide:.1f} times the queries are copied, for 16 query heads to 2 key heads"
            fail("keys and values are not repeated in memory", f"{seen}: what folds queries copies 2 times as much")


def over(attend: oracles.Attention) -> Callable[..., Tensor]:
    """Causal attention of a window, with a mask besides."""
    heads = oracles.heads_one_by_one(attend)

    def formula(init: dict, params: dict, x: Tensor, mask: Tensor | None = None) -> Tensor:
        seq, window = x.shape[1], init["window"]
        near = [[query - (window or seq) < key <= query for key in range(seq)] for query in range(seq)]
        seen = torch.tensor(near)
        return heads(init, params, x, mask=seen if mask is None else mask & seen)

    return formula


def text(
    d: Draw, batch: int = 2, seq: int = 9, heads: int = 4, kv_heads: int = 2, head_dim: int = 4, mask: tuple = (),
    causal: bool = False, **init: Any,
) -> Call:  # fmt: skip
    """A text, and a mask by which each token sees at least itself."""
    width = heads * head_dim
    inputs = {"x": d.normal(batch, seq, width)}
    if mask:
        inputs["mask"] = d.mask(*mask) | torch.eye(seq, dtype=torch.bool)
    if causal:
        inputs["mask"] = oracles.causal(seq)
    init = {"d_model": width, "num_heads": heads, "num_kv_heads": kv_heads} | init
    return Call(inputs, init, oracles.weights(d, width, kv_heads * head_dim))


class Cached(ModuleContract):
    """A layer that is given a text in parts, with a dict that it fills."""

    oracle = over(oracles.library)
    variants = tuple(map(over, oracles.WAYS))
    call = text
    more_shapes = {}
    grows = {}
    timed = {}

    def cache(self, attempt: Attempt) -> Callee:
        return Callee(attempt, Callee(attempt, ["a_dict", "Attention"]).keep())

    def in_parts(
        self, attempt: Attempt, draw: Draw, case: str, made: Call, steps: tuple, dtype: torch.dtype = torch.float32,
        alone: bool = True,
    ) -> None:  # fmt: skip
        """The text in calls of so many tokens gives what the oracle gives for all of it.

        Where it is not alone, this layer and another one go on with texts of their own in between.
        """
        made = made.cast(dtype)
        module, second = (self.ready(attempt, made, dtype) for _ in range(2))
        x, mask = made.inputs["x"].to(attempt.device), made.inputs.get("mask")
        texts = [(layer, self.cache(attempt)) for layer in (module, module, second)][: 1 if alone else 3]
        asked, start = [], 0
        for number, step in enumerate(steps):
            end = start + step
            part = None if mask is None else mask[..., start:end, :end].to(attempt.device)
            for text_number, (layer, cache) in enumerate(texts):
                tokens = draw.normal(*x[:, start:end].shape).to(x) if text_number else x[:, start:end]
                args, kwargs = (tokens, part, cache.target), {}
                if number % 2:
                    args, kwargs = (tokens,), {"mask": part, "cache": cache.target}
                asked.append((layer, {"do": "call", "target": layer.target, "args": args, "kwargs": kwargs}))
            start = end
        label = f"{case}, in calls of {steps} tokens" + ("" if alone else ", by turns with other texts")
        try:
            parts = [tensor(answer["value"], attempt.device) for answer in attempt.ask_each(asked)][:: len(texts)]
            if [each.shape[1:2] for each in parts] != [(step,) for step in steps]:
                seen = f"calls of {steps} tokens gave {[tuple(each.shape) for each in parts]}"
                fail("a call gives a result for each of its tokens", seen)
            self.compare(attempt, draw, label, made, {"result": torch.cat(parts, 1)}, dtype)
        except Fault as fault:
            if not fault.failure.inputs:
                fault.failure.inputs.append(f"case `{label}`: {made.describe(self.axes, 'cpu')}")
            fault.failing = None  # it is not that of one call
            raise

    def appended(self, attempt: Attempt, draw: Draw, made: Call, first: int, count: int) -> tuple[dict, int, Callee]:
        """What `count` calls of one token make after one of `first`, in bytes by operation, and FLOPs; the cache."""
        layer, cache, x = self.ready(attempt, made), self.cache(attempt), made.inputs["x"].to(attempt.device)
        parts = [x[:, :first], *x[:, first : first + count].split(1, 1)]
        inner = [
            {"do": "call", "target": layer.target, "args": (part, None, cache.target), "kwargs": {}} for part in parts
        ]
        attempt.ask_of([layer], inner[0])
        readings = attempt.ask_of([], {"do": "observe", "inner": inner[1:], "watched": None})["readings"]
        return readings["made_in_all"], readings["flops"], cache


class TestCache(Cached):
    name = "Attention"
    stage = 5
    off = only(ModuleContract)
    holds = {
        "Chunks": ("test_any_cut", "test_other_dtypes"),
        "Cached mask": ("test_a_mask_with",),
        "Growth": ("test_a_token",),
        "Several layers": ("test_each_cache",),
    }
    texts = {"shared_key_heads": {}, "plain_heads": {"kv_heads": 4}, "one_text": {"batch": 1, "kv_heads": 1}}
    cases = {case: sizes | {"causal": True} for case, sizes in texts.items()}  # what is asked of it without a cache

    @core
    def test_any_cut_into_calls_gives_what_one_call_gives(self, attempt: Attempt, draw: Draw) -> None:
        for case, sizes in self.texts.items():
            for steps in ((9,), (1,) * 9, (2, 4, 3), (5, 1, 1, 2)):
                self.in_parts(attempt, draw, case, text(draw, **sizes), steps)

    @core
    def test_a_mask_with_a_cache_is_for_all_tokens_so_far(self, attempt: Attempt, draw: Draw) -> None:
        for case, mask in (("padding", (2, 1, 1, 9)), ("a_mask_for_each_head", (2, 4, 9, 9))):
            for steps in ((1,) * 9, (4, 3, 2), (3, 1, 5)):
                self.in_parts(attempt, draw, case, text(draw, mask=mask), steps)

    @core
    def test_each_cache_goes_on_with_its_own_text(self, attempt: Attempt, draw: Draw) -> None:
        for steps in ((1,) * 9, (4, 3, 2)):
            self.in_parts(attempt, draw, "shared_key_heads", text(draw), steps, alone=False)

    @robust
    def test_other_dtypes_with_a_cache_match_the_definition(self, attempt: Attempt, draw: Draw) -> None:
        """Models are served in half precision: a query in it and a key in float32 may not be multiplied."""
        for dtype in (torch.float64, *HALF):
            self.in_parts(attempt, draw, "shared_key_heads", text(draw), (4, 1, 3, 1), dtype)

    @fast
    def test_a_token_does_not_copy_or_project_all_that_is_cached(self, attempt: Attempt, draw: Draw) -> None:
        made = text(draw, 1, 332, heads=2, head_dim=64)
        found, flops, _ = self.appended(attempt, draw, made, 300, 32)
        copied, whole = sum(found.values()), 2 * 4 * 128 * 316
        if copied > 24 * whole:  # `cat` for every token makes 32, a buffer that doubles 4
            seen = (
                f"32 tokens after 300 made {copied} bytes, {copied / whole:.0f} times all keys and values, allowed 24"
            )
            fail("a token does not copy all that is cached", seen)
        again = 32 * 4 * 128 * 128 * 300  # keys and values of what is cached; attention may run over a longer buffer
        if flops > again / 3:
            seen = f"32 tokens after 300 took {flops} FLOPs, and to project all again takes {again}"
            fail("a token projects itself alone", seen)


class TestWindow(Cached):
    name = "Attention"
    stage = 6
    off = only(ModuleContract, *KEPT, "test_serves_inputs")
    holds = {
        "Window": ("test_values_match", "test_a_mask_narrows"),
        "Bound": ("test_a_cache_is",),
        "Equality": ("test_any_cut",),
    }
    cases = {
        "a_window_of_three": {"window": 3},
        "itself_alone": {"window": 1},
        "a_window_as_long_as_the_text": {"window": 9},
        "a_window_longer_than_the_text": {"window": 20},
        "a_window_and_a_mask": {"window": 4, "mask": (2, 1, 9, 9)},
    }

    @core
    def test_any_cut_into_calls_gives_what_one_call_gives(self, attempt: Attempt, draw: Draw) -> None:
        for window in (1, 3, 4, 9):
            for steps in ((9,), (1,) * 9, (2, 1, 1, 1, 4), (6, 1, 2), (1, 7, 1)):
                self.in_parts(attempt, draw, f"a window of {window}", text(draw, window=window), steps)
        made = text(draw, 1, 40, window=3)
        self.in_parts(attempt, draw, "a long text and a window of 3", made, (5, *(1,) * 20, 3, *(1,) * 12))

    @core
    def test_a_mask_narrows_the_window(self, attempt: Attempt, draw: Draw) -> None:
        for case, mask in (("padding", (2, 1, 1, 9)), ("a_mask_for_each_head", (2, 4, 9, 9))):
            for steps in ((1,) * 9, (4, 3, 2), (6, 1, 1, 1)):
                self.in_parts(attempt, draw, case, text(draw, mask=mask, window=3), steps)

    @fast
    def test_a_cache_is_bounded_by_the_window(self, attempt: Attempt, draw: Draw) -> None:
        window, bytes_of_a_token = 16, 2 * 4 * 8
        for first, count in ((100, 1), (100, 40), (1, 90)):
            made = text(draw, 1, first + count, window=window)
            *_, cache = self.appended(attempt, draw, made, first, count)
            held = attempt.ask_of([], {"do": "held", "target": cache.target})["value"]
            tokens = held / bytes_of_a_token
            if tokens > 2 * window + 2:  # the last chunk, and a token's worth of notes
                seen = f"the memory of {tokens:.0f} after {first} tokens and {count} single ones, window {window}"
                fail("a cache takes the memory of 2 * window tokens and the last chunk at most", seen)
