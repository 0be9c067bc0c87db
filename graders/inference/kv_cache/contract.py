"""What `KVCache` and `CachedAttention` must do. The oracle knows no cache: rotation matrices, one query at a time."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
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
    HeadsContract,
    SoftmaxContract,
    assert_constant_op_count,
    assert_raises,
    assert_state_unchanged,
    bare,
    core,
    fail,
    fast,
    half_precisions,
    match,
    one_value,
    operation_count,
    oracles,
    robust,
    tensor,
    too_much,
)
from dojo.judge.proxy import Module
from dojo.verdict.failures import Raised

AXES = "batch num_kv_heads length head_dim"
VIEWS = frozenset("alias detach expand permute select slice squeeze transpose unsqueeze view".split())
Pair = tuple[Tensor, Tensor]
Step = tuple[Callee | None, Tensor | int]  # a cache, and the tokens that join it or the length it is cut to


def kept(attempt: Attempt, *sizes: int, **more: Any) -> Callee:
    """A new cache in the worker, on the device of the grading."""
    return Callee(attempt, attempt.KVCache.keep(*sizes, **{"device": torch.device(attempt.device)} | more))


def pair(draw: Draw, new: int, batch: int = 2, heads: int = 3, dim: int = 4, device: str = "cpu") -> Pair:
    """Keys and values of new tokens, as heads come out of a projection: not dense."""
    k, v = (draw.normal(batch, new, heads, dim).to(device).transpose(1, 2) for _ in range(2))
    return k, v


def appended(attempt: Attempt, cache: Callee, given: Pair) -> list[Tensor]:
    """What `append` gives."""
    found = cache.method("append", *given)
    if not (isinstance(found, (tuple, list)) and len(found) == 2):
        fail("append gives keys and values, in a tuple", f"got a {type(found).__name__}")
    return [tensor(each, attempt.device).cpu() for each in found]


def length_is(cache: Callee, expected: int, told: str) -> None:
    length = cache.read("length")
    if type(length) is not int or length != expected:
        fail("`length` is the number of tokens in the cache", f"{told} it is {length!r}, expected {expected}")


def appends(attempt: Attempt, cache: Callee, given: Pair, so_far: Sequence[Pair], told: str) -> None:
    """This pair is appended, and all so far come back, itself the last."""
    found = appended(attempt, cache, given)
    for name, got, parts in zip(("keys", "values"), found, zip(*so_far, given, strict=True), strict=True):
        sentence = f"append gives the {name} of all tokens so far, the oldest first: {told}"
        match(got, torch.cat(parts, 2).cpu(), None, sentence, AXES)


def observed(attempt: Attempt, cache: Callee, given: Pair) -> dict[str, Any]:
    """Readings of one append, which is done once."""
    inner = {"do": "call", "target": cache.target, "method": "append", "args": given, "kwargs": {}}
    readings: dict[str, Any] = attempt.ask_of([], {"do": "observe", "inner": [inner], "watched": None})["readings"]
    return readings


class TestKVCache:
    @core
    def test_append_gives_all_tokens_so_far(self, attempt: Attempt, draw: Draw) -> None:
        cache, so_far = kept(attempt, 2, 3, 11, 4), []
        length_is(cache, 0, "at first")
        for new in (3, 1, 2, 1, 4):
            given = pair(draw, new, device=attempt.device)
            appends(attempt, cache, given, so_far, f"tokens {[len(k[0, 0]) for k, _ in so_far]}, then {new} more")
            so_far.append(given)
            length_is(cache, sum(k.shape[2] for k, _ in so_far), f"after {new} more")

    @core
    def test_truncate_forgets_what_came_later(self, attempt: Attempt, draw: Draw) -> None:
        for kept_length in (2, 0, 5, 4):
            cache, told = kept(attempt, 2, 3, 8, 4), f"3 and 2 tokens, truncate({kept_length}), 3 tokens"
            first, second, third = (pair(draw, new, device=attempt.device) for new in (3, 2, 3))
            appended(attempt, cache, first)
            appended(attempt, cache, second)
            cache.method("truncate", kept_length)
            length_is(cache, kept_length, f"after truncate({kept_length})")
            rest = [torch.cat(both, 2)[:, :, :kept_length] for both in zip(first, second, strict=True)]
            appends(attempt, cache, third, [(rest[0], rest[1])], told)

    @robust
    def test_append_copies_what_it_is_given(self, attempt: Attempt, draw: Draw) -> None:
        """The buffer that keys came in is filled again in the next step, and the past changes with it."""
        cache = kept(attempt, 2, 3, 9, 4)
        first, second, third = (pair(draw, new, device=attempt.device) for new in (3, 2, 1))
        given = cache.stage(*first)
        given.go(method="append")
        given.rescale(-2.0)
        appends(attempt, cache, second, [first], "the first keys and values were overwritten by their owner")
        full, told = kept(attempt, 2, 3, 3, 4), "the first filled the room, were overwritten, and cut to 2"
        given = full.stage(*first)
        given.go(method="append")
        given.rescale(-2.0)
        full.method("truncate", 2)
        appends(attempt, full, third, [(first[0][:, :, :2], first[1][:, :, :2])], told)
        reply = cache.ask(do="call", target=cache.target, method="append", args=third, kwargs={}, watch=True)
        if not all(torch.equal(*both) for both in zip(third, reply["inputs"], strict=True)):
            fail("inputs are not modified", "append has changed k or v")
        assert_state_unchanged(reply, "append")

    @robust
    def test_more_than_max_len_tokens_are_refused(self, attempt: Attempt, draw: Draw) -> None:
        """A long answer overwrites its own beginning; or the cache that refused it can no longer be used."""
        for told, length, new in (("one too many", 6, 1), ("a chunk too long", 4, 4), ("at once", 0, 9)):
            cache, so_far = kept(attempt, 2, 3, 6, 4), [pair(draw, length, device=attempt.device)][: length > 0]
            for given in so_far:
                appended(attempt, cache, given)
            sentence = f"{length} tokens and {new} more are refused by a cache of max_len 6"
            self.refuses(cache, pair(draw, new, device=attempt.device), 6, (length + new, new), sentence=sentence)
            length_is(cache, length, f"{told}: after the error")
            cache.method("truncate", length and length - 1)
            rest = [(k[:, :, : length - 1], v[:, :, : length - 1]) for k, v in so_far]
            appends(attempt, cache, pair(draw, 1, device=attempt.device), rest, f"after an error, {told}")

    @robust
    def test_keys_and_values_that_do_not_fit_are_refused(self, attempt: Attempt, draw: Draw) -> None:
        """Keys of one entry, or of one head, broadcast into all others without a word."""
        right, cache = pair(draw, 2, device=attempt.device), kept(attempt, 2, 3, 9, 4)
        appended(attempt, cache, right)
        for size, wrong in {
            "batch": {"batch": 1}, "larger batch": {"batch": 5}, "number of heads": {"heads": 1},
            "larger number of heads": {"heads": 6}, "width": {"dim": 1}, "larger width": {"dim": 8},
        }.items():  # fmt: skip
            other, values = pair(draw, 2, device=attempt.device, **wrong), wrong.values()
            for name, given in {"k": (other[0], right[1]), "v": (right[0], other[1]), "k and v": other}.items():
                self.refuses(cache, given, *values, sentence=f"{name} of another {size} than the cache: refused")
        for new, others in ((1, 2), (2, 1), (3, 2)):
            k, v = (pair(draw, count, device=attempt.device)[0] for count in (new, others))
            self.refuses(cache, (k, v), new, others, sentence=f"{new} keys and {others} values are refused")
        length_is(cache, 2, "after the errors")
        appends(attempt, cache, pair(draw, 1, device=attempt.device), [right], "after errors")

    @robust
    def test_truncate_outside_of_the_length_is_refused(self, attempt: Attempt, draw: Draw) -> None:
        """Tokens come back that were forgotten, or zeros that never were tokens; -1 counts from the end."""
        cache, first = kept(attempt, 2, 3, 9, 4), pair(draw, 5, device=attempt.device)
        appended(attempt, cache, first)
        cache.method("truncate", 3)
        for length in (4, -1, 9, 23):
            call = partial(cache.method, "truncate", length)
            assert_raises(call, length, sentence=f"truncate({length}) is refused at length 3")
        length_is(cache, 3, "after the errors")
        first = first[0][:, :, :3], first[1][:, :, :3]
        appends(attempt, cache, pair(draw, 2, device=attempt.device), [first], "after errors of truncate")

    @robust
    def test_room_has_the_dtype_and_the_device_it_is_given(self, attempt: Attempt, draw: Draw) -> None:
        """A cache in float32 takes twice the memory, and one on the CPU the time to get there."""
        for dtype in (*HALF, torch.float64, torch.float32):
            cache, given = kept(attempt, 2, 3, 5, 4, dtype=dtype), pair(draw, 2, device=attempt.device)
            for each in appended(attempt, cache, (given[0].to(dtype), given[1].to(dtype))):
                if each.dtype is not dtype:
                    fail("append gives the dtype of the cache", f"got {bare(each.dtype)} with dtype={bare(dtype)}")
        try:
            found = kept(attempt, 2, 3, 5, 4, device=torch.device("meta")).method("append", *pair(draw, 2))
        except Raised as raised:
            if raised.kind == "TypeError":
                raise
            return  # what cannot be computed on a device without memory is no fault of the cache
        if not all(isinstance(each, Tensor) and each.is_meta for each in found):
            fail("the room is on the device that the constructor is given", "with device=meta it is on another")

    @fast
    def test_an_append_costs_the_same_at_any_length(self, attempt: Attempt, draw: Draw) -> None:
        cache = kept(attempt, 1, 2, 4100, 4)
        one, some = (pair(draw, new, 1, 2, device=attempt.device) for new in (1, 198))
        first = observed(attempt, cache, one)
        appended(attempt, cache, tuple(t[:, :, :38] for t in some))
        early = observed(attempt, cache, one)
        requests = {"do": "call", "target": cache.target, "method": "append", "args": some, "kwargs": {}}
        list(attempt.ask(*(dict(requests) for _ in range(20))))
        late = observed(attempt, cache, one)
        grown = {name: size for name, size in late["largest"].items() if size > early["largest"].get(name, 0)}
        if grown:
            name = min(grown, key=lambda name: name in VIEWS)  # what made it, rather than what looked at it
            seen = f"{name} made {early['largest'].get(name, 0)} bytes at length 40, and {grown[name]} at length 4,000"
            fail("an append of one token makes no larger tensor for a longer cache", seen)
        all_made = [*first["made"].items(), *early["made"].items()]
        name, made = max(all_made, key=lambda each: each[1], default=("", 0))
        if made >= 2 * 4100 * 4 * 4:
            seen = f"{name} made {made} bytes, as many as the room of the keys has, for one token"
            fail("room is taken once, at construction, and an append writes into it", seen)
        before, after = (sum(each["operations"].values()) for each in (early, late))
        if after - before >= 20:
            seen = f"{before} after one append, {after} after 21"
            fail("an append takes as many operations for a longer cache", seen)

    def refuses(self, cache: Callee, given: Pair, *values: Any, sentence: str) -> None:
        assert_raises(partial(cache.method, "append", *given), *values, sentence=sentence)


def query_by_query(init: dict, params: dict, x: Tensor) -> Tensor:
    heads, seq = init["num_heads"], x.shape[1]
    size = x.shape[2] // heads
    q, k, v = (oracles.project(params, f"{name}_proj", x).unflatten(-1, (-1, size)) for name in "qkv")
    turns = rotations(seq, size, init["theta"]).to(x.dtype)
    q, k = (torch.einsum("sij,bshj->bshi", turns, each) for each in (q, k))
    mine = [head // (heads // k.shape[2]) for head in range(heads)]
    k, v = k[:, :, mine], v[:, :, mine]
    rows = []
    for query in range(seq):
        scores = torch.einsum("bhd,bshd->bhs", q[:, query], k[:, : query + 1]) / math.sqrt(size)
        rows.append(torch.einsum("bhs,bshd->bhd", scores.softmax(-1), v[:, : query + 1]).flatten(1))
    return oracles.project(params, "o_proj", torch.stack(rows, 1))


def rotations(seq: int, size: int, theta: float) -> Tensor:
    """The matrices that turn each pair of a vector, one for each place."""
    turns, places = torch.zeros(seq, size, size, dtype=torch.float64), torch.arange(seq, dtype=torch.float64)
    for first in range(0, size, 2):
        angles = places * theta ** (-first / size)
        turns[:, first, first] = turns[:, first + 1, first + 1] = angles.cos()
        turns[:, first + 1, first] = angles.sin()
        turns[:, first, first + 1] = -angles.sin()
    return turns


def of(attend: oracles.Attention, rope: oracles.Rope) -> Callable[..., Tensor]:
    return lambda init, params, x: oracles.causal_self_attention(
        attend, rope, params, x, init["num_heads"], init["theta"]
    )


class TestCachedAttention(SoftmaxContract, HeadsContract):
    name = "CachedAttention"
    oracle = query_by_query
    variants = (
        of(oracles.stage_by_stage, oracles.apply_rope_by_float32_angles),
        of(oracles.library, oracles.apply_rope_by_float32_angles),
        of(oracles.normalised_last, oracles.apply_rope),
    )
    ban = FUSED
    off = {"test_optional_inputs_may_be_given_by_name": "a cache takes several calls, which have checks of their own"}
    cases = {
        "one_sequence": {},
        "shared_key_heads": {"seq": 7, "heads": 6, "num_kv_heads": 2},
        "one_key_head": {"num_kv_heads": 1},
        "another_theta": {"seq": 7, "head_dim": 6, "theta": 50.0},
        "another_theta_and_shared_key_heads": {"heads": 4, "num_kv_heads": 2, "theta": 50.0},
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
        d, TestCachedAttention.call(d, 1, 1000, heads=2, head_dim=32, max_seq_len=1000, logit_scale=0.8)
    )
    grows = {"batch": "batch", "seq": "seq", "heads": "heads"}
    growth = {
        "heads that share a key head": lambda d, n: TestCachedAttention.call(d, heads=n, num_kv_heads=1),
        "width": lambda d, n: TestCachedAttention.call(d, head_dim=2 * n),
    }
    timed = {"batch": 4, "seq": 96, "heads": 6, "head_dim": 8, "max_seq_len": 96}
    time_limit = 12.0

    @classmethod
    def call(
        cls, d: Draw, batch: int = 2, seq: int = 5, heads: int = 3, head_dim: int = 4, max_seq_len: int = 23,
        logit_scale: float = 2.0, **init: float,
    ) -> Call:  # fmt: skip
        d_model, kv_dim = heads * head_dim, int(init.get("num_kv_heads", heads)) * head_dim
        init = {"d_model": d_model, "num_heads": heads, "max_seq_len": max_seq_len, **init}
        x = d.normal(batch, seq, d_model)
        return Call({"x": x}, init, oracles.weights(d, d_model, kv_dim, logit_scale))

    def room(self, attempt: Attempt, call: Call, max_len: int = 30, dtype: torch.dtype = torch.float32) -> Callee:
        """A cache for this call."""
        heads, dim = call.init["num_heads"], call.init["d_model"] // call.init["num_heads"]
        heads = call.init.get("num_kv_heads", heads)
        return kept(attempt, len(call.inputs["x"]), heads, max_len, dim, dtype=dtype)

    def fed(
        self, attempt: Attempt, module: Module, steps: Sequence[tuple[Callee | None, Tensor | int]]
    ) -> list[Tensor]:
        """What the module gives for each tensor of tokens."""
        asked: list[tuple[Callee, dict]] = []
        for number, (cache, step) in enumerate(steps):
            if isinstance(step, Tensor):
                given = {} if cache is None else {"cache": cache.target}
                by_name = {"args": (step.to(attempt.device),), "kwargs": given}
                by_place = {"args": (step.to(attempt.device), *given.values()), "kwargs": {}}
                asked.append((module, {"do": "call", "target": module.target, **(by_place if number % 2 else by_name)}))
            elif cache is not None:
                request = {"do": "call", "target": cache.target, "method": "truncate", "args": (step,), "kwargs": {}}
                asked.append((cache, request))
        answers = [answer["value"] for answer in attempt.ask_each(asked)]
        tensors = [answer for answer, (_, step) in zip(answers, steps, strict=True) if isinstance(step, Tensor)]
        return [tensor(each, attempt.device) for each in tensors]

    @contextmanager
    def several_calls(self, told: str, call: Call) -> Iterator[None]:
        """A context in which a fault tells the case in words, and is not shown as that of one call."""
        try:
            yield
        except Fault as fault:
            if not fault.failure.inputs:
                fault.failure.inputs.append(f"case `{told}`: {call.describe(self.axes, 'cpu')}")
            fault.failing = None
            raise

    def cut(
        self, attempt: Attempt, draw: Draw, call: Call, sizes: Sequence[int], told: str, dtype: torch.dtype
    ) -> None:
        """The sequence in calls of these sizes gives what one call gives."""
        call = call.cast(dtype)
        module, cache = self.ready(attempt, call, dtype), self.room(attempt, call, dtype=dtype)
        told = f"{told}, in calls of {', '.join(map(str, sizes))} tokens"
        with self.several_calls(told, call):
            parts = self.fed(attempt, module, [(cache, x) for x in call.inputs["x"].split(list(sizes), 1)])
            length_is(cache, sum(sizes), "after these calls")
            self.compare(attempt, draw, told, call, {"result": torch.cat(parts, 1)}, dtype)

    @core
    def test_any_cut_into_calls_gives_what_one_call_gives(self, attempt: Attempt, draw: Draw) -> None:
        for case, make in self.cases.items():
            seq = make(draw).inputs["x"].shape[1]
            for sizes in ((seq,), (1,) * seq, (seq - 1, 1), (2, seq - 2), (1, seq - 2, 1)):
                self.cut(attempt, draw, make(draw), sizes, case, torch.float32)

    @core
    def test_a_rollback_gives_what_one_call_gives(self, attempt: Attempt, draw: Draw) -> None:
        for case, make in self.cases.items():
            call, told = make(draw), f"{case}: 3 tokens, 2 drafted, back to 3, 1 token, 3 drafted, back to 2, the rest"
            module, cache, x = self.ready(attempt, call), self.room(attempt, call), call.inputs["x"]
            drafts = draw.normal(len(x), 5, x.shape[-1]).split([2, 3], 1)
            steps = [x[:, :3], drafts[0], 3, x[:, 3:4], drafts[1], 2, x[:, 2:]]
            with self.several_calls(told, call):
                first, _, fourth, _, rest = self.fed(attempt, module, [(cache, step) for step in steps])
                self.compare(attempt, draw, told, call, {"result": torch.cat([first[:, :2], rest], 1)})
                early = call.with_inputs(x=x[:, :4])
                self.compare(attempt, draw, told, early, {"result": torch.cat([first, fourth], 1)})

    @robust
    def test_float64_with_a_cache_matches_the_definition(self, attempt: Attempt, draw: Draw) -> None:
        """Gradient checks and tests of equality run in float64, and the cache is the part that rounds."""
        for case in self.representative:
            call = self.cases[case](draw)
            self.cut(attempt, draw, call, (2, 1, call.inputs["x"].shape[1] - 3), f"{case}, float64", torch.float64)

    @robust
    @half_precisions
    def test_half_precision_with_a_cache_matches_the_definition(
        self, attempt: Attempt, draw: Draw, dtype: torch.dtype
    ) -> None:
        """Models are served in half precision: a query in float32 and a key from the cache may not be multiplied."""
        for case in self.representative:
            call = self.cases[case](draw)
            self.cut(attempt, draw, call, (2, 1, call.inputs["x"].shape[1] - 3), f"{case}, {bare(dtype)}", dtype)

    @robust
    def test_what_joins_the_cache_is_a_copy(self, attempt: Attempt, draw: Draw) -> None:
        """The embedding of the last token is written where that of the one before was."""
        call = self.call(draw)
        module, cache, x = self.ready(attempt, call), self.room(attempt, call), call.inputs["x"]
        told = "the first tokens were overwritten by their owner"
        with self.several_calls(told, call):
            given = module.stage(x[:, :3].to(attempt.device), cache.target)
            first = given.fetch(given.go())
            given.rescale(-2.0)
            (rest,) = self.fed(attempt, module, [(cache, x[:, 3:])])
            both = [tensor(each, attempt.device) for each in (first, rest)]
            self.compare(attempt, draw, told, call, {"result": torch.cat(both, 1)})

    @robust
    def test_one_module_serves_several_caches_in_turn(self, attempt: Attempt, draw: Draw) -> None:
        """A server goes from one conversation to the next: positions kept in the module are those of another."""
        first = self.call(draw, seq=6)
        second = first.with_inputs(x=draw.normal(2, 6, 12))
        module, told = self.ready(attempt, first), "two sequences in turn, and a call without a cache in between"
        one, other = self.room(attempt, first), self.room(attempt, first)
        x, y = first.inputs["x"], second.inputs["x"]
        with self.several_calls(told, first):
            steps = [
                (one, x[:, :2]),
                (other, y[:, :3]),
                (one, x[:, 2:3]),
                (None, y),
                (other, y[:, 3:]),
                (one, x[:, 3:]),
            ]
            found = self.fed(attempt, module, steps)
            self.compare(attempt, draw, told, first, {"result": torch.cat([found[0], found[2], found[5]], 1)})
            self.compare(attempt, draw, told, second, {"result": torch.cat([found[1], found[4]], 1)})
            self.compare(attempt, draw, told, second, {"result": found[3]})

    @robust
    def test_positions_from_max_seq_len_on_are_refused(self, attempt: Attempt, draw: Draw) -> None:
        """A slice of the tables comes out too short: an error about shapes, far from the conversation's length."""
        call = self.call(draw, seq=29)
        module, x = self.ready(attempt, call), call.inputs["x"].to(attempt.device)
        for told, start, new, max_len in (
            ("no cache", 0, 24, 0), ("behind a cache", 20, 4, 30), ("a full one", 23, 1, 30), ("no room", 5, 2, 6),
        ):  # fmt: skip
            limit, cache = (6 if told == "no room" else 23), self.room(attempt, call, max_len or 30)
            steps = [(cache, x[:, :start])] if start else []
            named = {"cache": cache.target} if max_len else {}
            sentence = f"{told}: {new} tokens behind {start} are refused"
            with self.several_calls(sentence, call):
                before = self.fed(attempt, module, steps)
                refused = partial(module.request, (x[:, start : start + new],), named)
                assert_raises(refused, limit, sentence=f"{sentence}, where there are {limit}")
                length_is(cache, start, f"after {new} tokens behind {start} were refused")
                if start < 23 and start:
                    last = self.fed(attempt, module, [(cache, x[:, start : start + 1])])
                    made = call.with_inputs(x=call.inputs["x"][:, : start + 1])
                    self.compare(
                        attempt, draw, f"after an error, {told}", made, {"result": torch.cat(before + last, 1)}
                    )

    @robust
    def test_key_heads_must_divide_the_heads_and_head_dim_be_even(self, attempt: Attempt, draw: Draw) -> None:
        """A wrong configuration shows as a shape error deep in the model."""
        for sentence, values, made in (
            ("num_heads that num_kv_heads does not divide", (6, 4), self.call(draw, heads=6, num_kv_heads=4)),
            ("more key heads than heads", (2, 4), self.call(draw, heads=2, num_kv_heads=4)),
            ("an odd head_dim", ((7, 21),), self.call(draw, head_dim=7)),
            ("a head_dim of 1", ((1, 3),), self.call(draw, head_dim=1)),
        ):
            use = partial(self.run, attempt, "refused", replace(made, params={}))
            assert_raises(use, *values, sentence=f"{sentence} is a ValueError")

    @core
    def test_uses_only_what_is_allowed_with_a_cache(self, attempt: Attempt, draw: Draw) -> None:
        calls = []
        for new in (1, 3):
            call = self.call(draw, seq=new).to(attempt.device)
            calls.append((self.ready(attempt, call), (call.inputs["x"], self.room(attempt, call).target), {}))
        self.ban.judge(attempt.observed(calls, list(self.ban.functions)), attempt.parts)

    @fast
    def test_operation_count_does_not_grow_with_a_cache(self, attempt: Attempt, draw: Draw) -> None:
        def count(length: int, new: int) -> int:
            call = self.call(draw, seq=length + new)
            module, cache, x = self.ready(attempt, call), self.room(attempt, call), call.inputs["x"].to(attempt.device)
            self.fed(attempt, module, [(cache, each) for each in x[:, :length].split(1, 1)])
            return operation_count(attempt.observed([(module, (x[:, length:], cache.target), {})], None))

        assert_constant_op_count("the tokens of a call with a cache", (2, 14), lambda n: count(3, n))
        assert_constant_op_count("the tokens in the cache", (2, 14), lambda n: count(n, 1))

    @fast
    def test_a_call_on_one_token_computes_one_tokens_projections(self, attempt: Attempt, draw: Draw) -> None:
        call = self.call(draw, 1, 401, heads=2, head_dim=16, max_seq_len=500)
        module, x = self.ready(attempt, call), call.inputs["x"].to(attempt.device)
        flops = []
        for length in (40, 400):
            cache = self.room(attempt, call, 500)
            self.fed(attempt, module, [(cache, x[:, :length])])
            flops.append(attempt.observed([(module, (x[:, length : length + 1], cache.target), {})], None)["flops"])
        attended = 4 * 32 * 360  # scores and means over as many keys more
        if flops[1] - flops[0] > 2 * attended:
            seen = f"{flops[0]} operations behind 40 tokens, {flops[1]} behind 400; {attended} more are for attention"
            sentence = "a call on one token computes the projections of one token"
            too_much(sentence, seen)
