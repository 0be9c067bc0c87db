"""What `MultiHeadLatentAttention` must do. The oracle multiplies keys and values out, one head at a time."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from dojo.contracts import (
    FUSED,
    HALF,
    Attempt,
    Call,
    Draw,
    ModuleContract,
    NormedContract,
    SoftmaxContract,
    assert_raises,
    core,
    fail,
    fast,
    match,
    oracles,
    robust,
    tensor,
    too_much,
)
from dojo.contracts.checks.tolerance import Budget

RESULTS = ("out", "latents", "rope_keys")
AXES = {"out": "batch seq d_model", "latents": "batch length kv_rank", "rope_keys": "batch length rope_dim"}
Attend = Callable[..., Tensor]


def by_heads(attend: oracles.Attention) -> Attend:
    """One head: its keys and values are multiplied out."""

    def head(q: Tensor, up: Tensor, latents: Tensor, rope_keys: Tensor, nope: int, mask: Tensor) -> Tensor:
        k = torch.cat([latents @ up[:nope].mT, rope_keys], -1)
        return attend(q, k, latents @ up[nope:].mT, mask)

    return head


def absorbed(q: Tensor, up: Tensor, latents: Tensor, rope_keys: Tensor, nope: int, mask: Tensor) -> Tensor:
    """The same head with its query multiplied instead, every product rounded."""
    wide = torch.promote_types(q.dtype, torch.float32)
    scores = (q[..., :nope] @ up[:nope] @ latents.mT + q[..., nope:] @ rope_keys.mT) / q.shape[-1] ** 0.5
    weights = scores.to(wide).masked_fill(~mask, -torch.inf).softmax(-1).to(q.dtype)
    return weights @ latents @ up[nope:].mT


def of(head: Attend, rope: oracles.Rope, norm: oracles.Norm) -> Callable[..., tuple[Tensor, Tensor, Tensor]]:
    """What `decode` gives."""

    def formula(init: dict, params: dict, x: Tensor, latents: Tensor, rope_keys: Tensor) -> tuple:
        q, down = x @ params["q_proj.weight"].mT, x @ params["kv_down.weight"].mT
        nope, rank, heads, start = init["nope_dim"], init["kv_rank"], init["num_heads"], latents.shape[1]
        turned = partial(rope, theta=init["theta"], positions=torch.arange(start, start + x.shape[1]))
        latents = torch.cat([latents, norm(down[..., :rank], params["kv_norm.weight"], init["eps"])], 1)
        rope_keys = torch.cat([rope_keys, turned(down[..., rank:])], 1)
        mask, results = oracles.causal(latents.shape[1])[start:], []
        for own, up in zip(q.chunk(heads, -1), params["kv_up.weight"].chunk(heads), strict=True):
            own = torch.cat([own[..., :nope], turned(own[..., nope:])], -1)
            results.append(head(own, up, latents, rope_keys, nope, mask))
        return torch.cat(results, -1) @ params["o_proj.weight"].mT, latents, rope_keys

    return formula


def from_nothing(decode: Callable[..., tuple[Tensor, Tensor, Tensor]]) -> Callable[..., Tensor]:
    """What `forward` gives: `decode` without a cache."""

    def formula(init: dict, params: dict, x: Tensor) -> Tensor:
        empty = (x.new_zeros(len(x), 0, init[size]) for size in ("kv_rank", "rope_dim"))
        return decode(init, params, x, *empty)[0]

    return formula


EXACT = of(by_heads(oracles.library), oracles.apply_rope, oracles.library_rms_norm)
WAYS = (
    of(by_heads(oracles.stage_by_stage), oracles.apply_rope_by_float32_angles, oracles.rms_norm),
    of(absorbed, oracles.apply_rope_by_float32_angles, oracles.rms_norm),
    of(by_heads(oracles.library), oracles.apply_rope_by_float32_angles, oracles.library_rms_norm),
    of(by_heads(oracles.normalised_last), oracles.apply_rope, oracles.rms_norm),
)


class TestMultiHeadLatentAttention(SoftmaxContract, NormedContract, ModuleContract):
    name = "MultiHeadLatentAttention"
    oracle = staticmethod(from_nothing(EXACT))
    variants = tuple(map(from_nothing, WAYS))
    ban = FUSED
    holds = {
        "Cache": ("test_decode_goes_on",),
        "Any cut": ("test_any_cut",),
        "Absorbed": ("test_decode_makes",),
        "Half precision": ("test_half_precision", "test_softmax_is", "test_other_dtypes"),
        "Gradients": ("test_gradients",),
        "Errors": ("test_an_odd", "test_positions_from"),
    }
    sizes = {
        "batch": 2, "seq": 5, "d_model": 12, "num_heads": 3, "kv_rank": 8, "nope_dim": 6, "rope_dim": 4, "v_dim": 5,
        "max_seq_len": 23,
    }  # fmt: skip
    scales = {"q_proj": 2.0}
    cases = {
        "a_batch": {},
        "more_rope_than_nope": {"nope_dim": 2, "rope_dim": 8, "v_dim": 3},
        "as_many_heads_as_tokens": {"num_heads": 5, "v_dim": 6},
        "another_theta": {"theta": 50.0, "seq": 9},
        "a_large_eps": {"eps": 0.5},
    }
    hard_cases = {"very_large_scores": {"q_proj": 3000.0}, "latents_as_small_as_eps": {"kv_down": 0.002}}
    representative = ("a_batch", "more_rope_than_nope")
    more_shapes = {
        "one_token": {"seq": 1},
        "one_entry_one_head": {"batch": 1, "num_heads": 1},
        "rank_two": {"kv_rank": 2},
        "one_pair": {"nope_dim": 2, "rope_dim": 2, "v_dim": 1},
        "as_long_as_allowed": {"seq": 23},
    }
    grows = {"batch": "batch", "seq": "seq", "heads": "num_heads", "rank": "kv_rank"}
    growth_sizes = (4, 18)
    timed = {"batch": 4, "seq": 64, "d_model": 64, "num_heads": 4, "kv_rank": 16, "nope_dim": 16, "max_seq_len": 64}

    @classmethod
    def one_value_for_many_keys(cls, d: Draw) -> Call:
        """Latents that are the tokens themselves, of one length, and whose first feature alone makes a value."""
        sizes = {"d_model": 64, "kv_rank": 64, "num_heads": 2, "nope_dim": 32, "v_dim": 32, "max_seq_len": 600}
        made = cls.call(d, (), batch=1, seq=600, q_proj=0.8, **sizes)
        x = torch.cat([torch.ones(1, 600, 1), F.rms_norm(d.normal(1, 600, 63), (63,))], -1)
        down, up = made.params["kv_down.weight"].clone(), made.params["kv_up.weight"].clone()
        down[:64], values = torch.eye(64), torch.zeros(2, 32, 64)
        values[..., 0] = d.uniform(2, 32, low=1.7, high=2.0)
        up.unflatten(0, (2, 64))[:, 32:] = values
        own = {"kv_down.weight": down, "kv_up.weight": up, "o_proj.weight": torch.eye(64)}
        return made.with_inputs(x=x).with_params(**own, **{"kv_norm.weight": torch.ones(64)})

    def decoded(self, attempt: Attempt, call: Call, dtype: torch.dtype = torch.float32) -> tuple[Any, Callable]:
        """The module, and what its `decode` gives for these inputs."""
        module = self.ready(attempt, call, dtype)

        def decode(*inputs: Tensor) -> list[Tensor]:
            given = tuple(each.to(attempt.device) for each in inputs)
            found = module.ask(do="call", target=module.target, method="decode", args=given, kwargs={})["value"]
            if not (isinstance(found, (tuple, list)) and len(found) == 3):
                fail("decode gives out, latents and rope_keys, in a tuple", f"got a {type(found).__name__}")
            return [tensor(each, attempt.device) for each in found]

        return module, decode

    def goes_on(self, attempt: Attempt, draw: Draw, cached: int, seq: int, dtype: torch.dtype, **more: Any) -> None:
        """`decode` after so many tokens, whose latents and keys are any numbers, under the error rule."""
        call = self.call(draw, seq=seq, **more).cast(dtype)
        init, batch = self.signature.init_defaults | call.init, len(call.inputs["x"])
        caches = [draw.normal(batch, cached, init[size]).to(dtype) for size in ("kv_rank", "rope_dim")]
        inputs = call.inputs | dict(zip(RESULTS[1:], caches, strict=True))
        told = f"{seq} tokens after {cached} in the cache"
        with self.case_context(attempt, told, call):
            found = self.decoded(attempt, call, dtype)[1](*inputs.values())
            budget = Budget(EXACT, WAYS, init, call.params, inputs, None, dtype, draw.generator, results=RESULTS)
            for name, got in zip(RESULTS, found, strict=True):
                if got.dtype is not dtype:
                    fail(f"{name} of decode has the dtype of x", f"got {got.dtype} for {dtype}")
                if budget.usage(name, got.cpu()) is None:
                    sentence = f"decode gives the right {name}: {told}"
                    match(got.cpu(), budget.exact[name], budget.allowed(name), sentence, AXES[name])

    def cut(self, attempt: Attempt, draw: Draw, case: str, steps: tuple[int, ...], dtype: torch.dtype) -> None:
        """The sequence in calls of so many tokens, each with the caches of the one before."""
        call = self.cases[case](draw).cast(dtype)
        x, label = call.inputs["x"], f"{case}, decoded in calls of {steps} tokens"
        caches = [x.new_zeros(len(x), 0, call.init[size]) for size in ("kv_rank", "rope_dim")]
        parts = []
        with self.case_context(attempt, label, call):
            _, decode = self.decoded(attempt, call, dtype)
            for part in x.split(list(steps), 1):
                out, *caches = decode(part, *caches)
                parts.append(out)
        self.compare(attempt, draw, label, call, {"result": torch.cat(parts, 1)}, dtype)

    @core
    def test_any_cut_into_calls_of_decode_gives_what_forward_gives(self, attempt: Attempt, draw: Draw) -> None:
        for case, steps in (("a_batch", (1,) * 5), ("more_rope_than_nope", (2, 3)), ("another_theta", (1, 7, 1))):
            self.cut(attempt, draw, case, steps, torch.float32)

    @core
    def test_decode_goes_on_from_any_cache(self, attempt: Attempt, draw: Draw) -> None:
        for cached, seq in ((4, 1), (0, 3), (6, 3)):
            self.goes_on(attempt, draw, cached, seq, torch.float32)

    @robust
    def test_other_dtypes_in_decode_match_the_definition(self, attempt: Attempt, draw: Draw) -> None:
        """Models are served in half precision: what is rotated or normed in it is off in every step after."""
        for dtype in (torch.float64, *HALF):
            self.cut(attempt, draw, "a_batch", (2, 1, 2), dtype)
            self.goes_on(attempt, draw, 12, 2, dtype)
            self.goes_on(attempt, draw, 600, 3, dtype, max_seq_len=603)  # bfloat16 cannot tell 601 from 600

    @robust
    def test_an_odd_rope_dim_is_refused(self, attempt: Attempt, draw: Draw) -> None:
        """The last feature has no partner: a shape error within the rotation, or a feature that never turns."""
        for size in (3, 1):
            made = self.call(draw, rope_dim=2)
            wrong = Call(made.inputs, made.init | {"rope_dim": size})
            self.refuses(attempt, wrong, size, sentence=f"a rope_dim of {size} is refused")

    @robust
    def test_positions_from_max_seq_len_on_are_refused(self, attempt: Attempt, draw: Draw) -> None:
        """A slice of the tables comes out too short: an error about shapes, far from the conversation's length."""
        made = self.call(draw, seq=24)
        module, decode = self.decoded(attempt, made)
        x, caches = made.inputs["x"], [torch.zeros(2, 23, size) for size in (8, 4)]
        calls = {"24 tokens": lambda: module.request((x.to(attempt.device),), {})}
        calls |= {
            f"{new} tokens after {t}": lambda t=t, new=new: decode(x[:, :new], *(c[:, :t] for c in caches))
            for t, new in ((23, 1), (20, 4))
        }
        for told, use in calls.items():
            assert_raises(use, 23, sentence=f"{told} are refused where max_seq_len is 23")

    @fast
    def test_decode_makes_no_keys_and_no_values_of_cached_tokens(self, attempt: Attempt, draw: Draw) -> None:
        sizes = {"num_heads": 8, "kv_rank": 16, "nope_dim": 64, "v_dim": 64, "max_seq_len": 600}
        made, readings = self.call(draw, batch=1, seq=1, **sizes), []
        module, _ = self.decoded(attempt, made)
        for t in (64, 512):
            given = (made.inputs["x"], torch.zeros(1, t, 16), torch.zeros(1, t, 4))
            args = tuple(each.to(attempt.device) for each in given)
            asked = {"do": "call", "target": module.target, "method": "decode", "args": args, "kwargs": {}}
            told = attempt.ask_of([module], {"do": "observe", "inner": [asked], "watched": None})
            readings.append(told["readings"])
        name, most = max(readings[1]["made"].items(), key=lambda each: each[1], default=("", 0))
        if most > 4 * 512 * 8 * 64 / 2:
            seen = f"{name} made {most} bytes for one token after 512; all keys of 8 heads have {4 * 512 * 8 * 64}"
            too_much("decode makes no keys and no values of the cached tokens", seen)
        needed = 2 * 448 * 8 * (16 + 4 + 16)
        if (grown := readings[1]["flops"] - readings[0]["flops"]) > 3 * needed:
            seen = f"448 cached tokens more take {grown} FLOPs more, absorbed {needed}"
            too_much("decode makes no keys and no values of the cached tokens", seen)
