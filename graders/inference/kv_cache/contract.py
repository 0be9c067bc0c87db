"""What `KVCache` and `CachedAttention` must do. The oracle knows no cache: one query head at a time."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import torch
from torch import Tensor

from dojo.contracts import (
    FUSED,
    HALF,
    Attempt,
    Call,
    Callee,
    Draw,
    Fault,
    ModuleContract,
    SoftmaxContract,
    assert_raises,
    bare,
    core,
    fail,
    fast,
    match,
    one_value,
    oracles,
    robust,
    tensor,
    too_much,
)
from dojo.verdict.failures import Raised

AXES = "batch num_kv_heads length head_dim"


def kept(attempt: Attempt, *sizes: int, **more: Any) -> Callee:
    """A new cache in the worker, on the device of the grading."""
    return Callee(attempt, attempt.KVCache.keep(*sizes, **{"device": torch.device(attempt.device)} | more))


def pair(attempt: Attempt, draw: Draw, new: int) -> Tensor:
    """Keys and values of new tokens, as heads come out of a projection: not dense."""
    return draw.normal(2, 2, new, 3, 4).to(attempt.device).transpose(2, 3)


def length_is(cache: Callee, expected: int, after: str) -> None:
    length = cache.read("length")
    if type(length) is not int or length != expected:
        fail("`length` is the number of tokens in the cache", f"after {after} it is {length!r}, expected {expected}")


def appended(cache: Callee, given: Tensor) -> Any:
    """What `append` gives."""
    found = cache.method("append", *given)
    if not (isinstance(found, (tuple, list)) and len(found) == 2):
        fail("append gives keys and values, in a tuple", f"got a {type(found).__name__}")
    return found


def appends(attempt: Attempt, cache: Callee, given: Tensor, so_far: Tensor, after: str) -> Tensor:
    """All tokens so far, when these are appended and come back with them."""
    whole = torch.cat([so_far, given], 3)
    for name, got, expected in zip(("keys", "values"), appended(cache, given), whole, strict=True):
        sentence = f"append gives the {name} of all tokens so far, the oldest first: {after}"
        match(tensor(got, attempt.device).cpu(), expected.cpu(), None, sentence, AXES)
    return whole


class TestKVCache:
    holds = {
        "Any cut": ("test_append_gives",),
        "Buffer": ("test_append_copies", "test_the_buffer", "test_an_append"),
        "Errors": ("test_more_than_max_len",),
    }

    @core
    def test_append_gives_all_tokens_so_far(self, attempt: Attempt, draw: Draw) -> None:
        cache, so_far, after = kept(attempt, 2, 3, 11, 4), pair(attempt, draw, 0), []
        length_is(cache, 0, "construction")
        for new, left in ((3, 3), (2, 4), (3, 2), (1, 3), (2, 0), (4, 4), (6, 10), (1, 11)):
            after += [f"{new} tokens", f"truncate({left})"]
            so_far = appends(attempt, cache, pair(attempt, draw, new), so_far, ", ".join(after[:-1]))
            length_is(cache, so_far.shape[3], ", ".join(after[:-1]))
            cache.method("truncate", left)
            so_far = so_far[:, :, :, :left]
            length_is(cache, left, ", ".join(after))

    @robust
    def test_append_copies_what_it_is_given(self, attempt: Attempt, draw: Draw) -> None:
        """The buffer that keys came in is filled again in the next step, and the past changes with it."""
        for new, left in ((3, 3), (9, 2)):
            cache, given = kept(attempt, 2, 3, 9, 4), pair(attempt, draw, new)
            staged = cache.stage(*given)
            staged.go(method="append")
            staged.rescale(-2.0)
            cache.method("truncate", left)
            after = f"{new} tokens, overwritten by their owner, and truncate({left})"
            appends(attempt, cache, pair(attempt, draw, 2), given[:, :, :, :left], after)

    @robust
    def test_the_buffer_has_the_dtype_and_the_device_it_is_given(self, attempt: Attempt, draw: Draw) -> None:
        """A cache in float32 takes twice the memory, and one on the CPU the time to get there."""
        given = pair(attempt, draw, 2)
        for dtype in (*HALF, torch.float64, torch.float32):
            for each in appended(kept(attempt, 2, 3, 5, 4, dtype=dtype), given.to(dtype)):
                if tensor(each, attempt.device).dtype is not dtype:
                    fail("append gives the dtype of the cache", f"got {bare(each.dtype)} with dtype={bare(dtype)}")
        with suppress(Raised):  # what cannot be computed on a device without memory is no fault of the cache
            found = appended(kept(attempt, 2, 3, 5, 4, device=torch.device("meta")), given)
            if not all(isinstance(each, Tensor) and each.is_meta for each in found):
                fail("the buffer is on the device that the constructor is given", "with device=meta it is on another")

    @robust
    def test_more_than_max_len_tokens_are_refused(self, attempt: Attempt, draw: Draw) -> None:
        """A long answer overwrites its own beginning; or the cache that refused it can no longer be used."""
        for length, new in ((6, 1), (4, 4)):
            cache, given = kept(attempt, 2, 3, 6, 4), pair(attempt, draw, length)
            cache.method("append", *given)
            sentence = f"{length} tokens and {new} more are refused by a cache of max_len 6"
            use = partial(cache.method, "append", *pair(attempt, draw, new))
            assert_raises(use, 6, sentence=sentence)
            length_is(cache, length, f"{new} tokens were refused")
            cache.method("truncate", length - 1)
            appends(attempt, cache, pair(attempt, draw, 1), given[:, :, :, :-1], f"{new} tokens were refused")

    @fast
    def test_an_append_makes_no_tensor_as_large_as_the_cache(self, attempt: Attempt, draw: Draw) -> None:
        cache = kept(attempt, 2, 3, 4000, 4)
        cache.method("append", *pair(attempt, draw, 3900))
        asked = {"do": "call", "target": cache.target, "method": "append", "kwargs": {}}
        asked["args"] = tuple(pair(attempt, draw, 1))
        made = attempt.ask_of([], {"do": "observe", "inner": [asked], "watched": None})["readings"]["made"]
        name, most = max(made.items(), key=lambda each: each[1], default=("", 0))
        if most >= 2 * 3 * 4 * 4 * 1000:
            seen = f"{name} made {most} bytes for one token after 3,900, which takes 96"
            fail("the buffer is allocated once, at construction, and an append writes into it", seen)


def of(attend: oracles.Attention, rope: oracles.Rope) -> Callable[..., Tensor]:
    return lambda init, params, x: oracles.causal_self_attention(
        attend, rope, params, x, init["num_heads"], init["theta"]
    )


def call(
    d: Draw, batch: int = 2, seq: int = 7, heads: int = 3, head_dim: int = 4, max_seq_len: int = 23,
    logit_scale: float = 2.0, **init: float,
) -> Call:  # fmt: skip
    d_model, kv_dim = heads * head_dim, int(init.get("num_kv_heads", heads)) * head_dim
    init = {"d_model": d_model, "num_heads": heads, "max_seq_len": max_seq_len, **init}
    return Call({"x": d.normal(batch, seq, d_model)}, init, oracles.weights(d, d_model, kv_dim, logit_scale))


def cache_of(attempt: Attempt, call: Call, dtype: torch.dtype = torch.float32) -> Callee:
    """A cache for this call."""
    heads = call.init["num_heads"]
    key_heads, dim = call.init.get("num_kv_heads", heads), call.init["d_model"] // heads
    return kept(attempt, len(call.inputs["x"]), key_heads, 500, dim, dtype=dtype)


class TestCachedAttention(SoftmaxContract, ModuleContract):
    name = "CachedAttention"
    oracle = of(oracles.library, oracles.apply_rope)
    variants = (
        of(oracles.stage_by_stage, oracles.apply_rope_by_float32_angles),
        of(oracles.library, oracles.apply_rope_by_float32_angles),
        of(oracles.normalised_last, oracles.apply_rope),
    )
    ban = FUSED
    call = call
    holds = {
        "Any cut": ("test_any_cut", "test_uses_only"),
        "Cost": ("test_a_call_on_one_token",),
        "Half precision": ("test_half_precision", "test_softmax_is", "test_other_dtypes"),
        "Errors": ("test_positions_from",),
    }
    off = {"test_optional_inputs_may_be_given_by_name": "a cache takes several calls, which have checks of their own"}
    cases = {
        "one_sequence": {},
        "shared_key_heads": {"heads": 6, "num_kv_heads": 2},
        "one_key_head": {"num_kv_heads": 1},
        "another_theta": {"head_dim": 6, "heads": 4, "num_kv_heads": 2, "theta": 50.0},
    }
    hard_cases = {"very_large_scores": {"logit_scale": 150.0}}
    more_shapes = {
        "one_token": {"seq": 1},
        "one_entry_one_head": {"batch": 1, "heads": 1},
        "as_long_as_allowed": {"seq": 23},
        "head_dim_two": {"head_dim": 2},
        "a_long_sequence": {"batch": 1, "seq": 300, "heads": 1, "max_seq_len": 300},
    }
    representative = ("one_sequence", "shared_key_heads")
    one_value_for_many_keys = lambda d: one_value(  # noqa: E731
        d, call(d, 1, 1000, heads=2, head_dim=32, max_seq_len=1000, logit_scale=0.8)
    )
    grows = {"batch": "batch", "seq": "seq", "heads": "heads"}
    timed = {"batch": 4, "seq": 96, "heads": 6, "head_dim": 8, "max_seq_len": 96}
    time_limit = 12.0

    def cut(self, attempt: Attempt, draw: Draw, case: str, steps: tuple[int, ...], dtype: torch.dtype) -> None:
        """The sequence in calls of so many tokens gives what one call gives; of drafts, below 0, nothing is left."""
        made, start, asked, wanted = self.cases[case](draw).cast(dtype), 0, [], []
        module, (cache, other) = self.ready(attempt, made, dtype), (cache_of(attempt, made, dtype) for _ in range(2))
        for step in steps:
            draft = draw.normal(*made.inputs["x"][:, : abs(step)].shape).to(dtype)
            new = draft if step < 0 else made.inputs["x"][:, start : start + step]
            start += max(step, 0)
            for into, tokens in ((cache, new.to(attempt.device)), (other, draft.to(attempt.device))):
                by_name = {"args": (tokens,), "kwargs": {"cache": into.target}}
                given = by_name if step % 2 else {"args": (tokens, into.target), "kwargs": {}}
                asked.append((module, {"do": "call", "target": module.target, **given}))
                wanted.append(into is cache and step > 0)
            if step < 0:
                back = {"do": "call", "target": cache.target, "method": "truncate", "args": (start,), "kwargs": {}}
                asked.append((cache, back))
                wanted.append(False)
        label = f"{case}, calls of {steps} tokens, those below 0 rolled back, by turns with another cache"
        try:
            answers = zip([answer["value"] for answer in attempt.ask_each(asked)], wanted, strict=True)
            parts = [tensor(answer, attempt.device) for answer, want in answers if want]
            length_is(cache, start, "these calls")
            self.compare(attempt, draw, label, made, {"result": torch.cat(parts, 1)}, dtype)
        except Fault as fault:
            if not fault.failure.inputs:
                fault.failure.inputs.append(f"case `{label}`: {made.describe(self.axes, 'cpu')}")
            fault.failing = None  # it is not that of one call
            raise

    @core
    def test_any_cut_into_calls_gives_what_one_call_gives(self, attempt: Attempt, draw: Draw) -> None:
        for case in self.cases:
            for steps in ((7,), (1,) * 7, (2, 5), (1, 5, 1), (3, -2, 1, -3, 3)):
                self.cut(attempt, draw, case, steps, torch.float32)

    @core
    def test_uses_only_what_is_allowed_with_a_cache(self, attempt: Attempt, draw: Draw) -> None:
        made = [call(draw, seq=new).to(attempt.device) for new in (1, 3)]
        calls = [(self.ready(attempt, each), (each.inputs["x"], cache_of(attempt, each).target), {}) for each in made]
        self.ban.judge(attempt.observed(calls, list(self.ban.functions)), attempt.parts)

    @robust
    def test_other_dtypes_with_a_cache_match_the_definition(self, attempt: Attempt, draw: Draw) -> None:
        """Models are served in half precision: a query in float32 and a key from the cache may not be multiplied."""
        for dtype in (torch.float64, *HALF):
            self.cut(attempt, draw, "shared_key_heads", (2, 1, 4), dtype)

    @robust
    def test_positions_from_max_seq_len_on_are_refused(self, attempt: Attempt, draw: Draw) -> None:
        """A slice of the tables comes out too short: an error about shapes, far from the conversation's length."""
        made = call(draw, seq=24)
        module, x = self.ready(attempt, made), made.inputs["x"].to(attempt.device)
        for start, new in ((0, 24), (20, 4), (23, 1)):
            cache = cache_of(attempt, made)
            module.request((x[:, :start], cache.target), {}) if start else None
            use = partial(module.request, (x[:, start : start + new], cache.target), {})
            assert_raises(use, 23, sentence=f"{new} tokens after {start} are refused where max_seq_len is 23")
            length_is(cache, start, f"{new} tokens were refused")

    @fast
    def test_a_call_on_one_token_projects_one_token(self, attempt: Attempt, draw: Draw) -> None:
        made = call(draw, 1, 401, heads=2, head_dim=16, max_seq_len=500)
        module, x, flops = self.ready(attempt, made), made.inputs["x"].to(attempt.device), []
        for length in (40, 400):
            cache = cache_of(attempt, made)
            module.request((x[:, :length], cache.target), {})
            flops.append(attempt.observed([(module, (x[:, length : length + 1], cache.target), {})], None)["flops"])
        projected, attended = 8 * 32 * 32, 4 * 32 * 360  # four projections; scores and means over as many keys more
        if flops[1] - flops[0] > 2 * attended or flops[0] > 2 * (projected + attended):
            needed = f"{projected} are for projections at most, and {attended} more for attention"
            seen = f"{flops[0]} FLOPs after 40 tokens, {flops[1]} after 400; {needed}"
            too_much("a call on one token projects one token", seen)
