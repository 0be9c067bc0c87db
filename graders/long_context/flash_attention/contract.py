"""What `flash_attention` must do. The oracle is torch's own attention and logsumexp over all scores, in float64."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from dojo.contracts import (
    FUSED,
    Attempt,
    Ban,
    Call,
    Draw,
    Formula,
    SoftmaxContract,
    assert_constant_op_count,
    fast,
    operation_count,
    tensor,
    too_much,
)
from dojo.contracts.oracles import Attention, by_logsumexp, library, normalised_last, stage_by_stage


def of(attend: Attention, rounded: bool = False) -> Formula:
    def formula(q: Tensor, k: Tensor, v: Tensor, causal: bool = False, block_size: int = 64) -> tuple[Tensor, Tensor]:
        s, t = q.shape[-2], k.shape[-2]
        mask = torch.ones(s, t, dtype=torch.bool).tril(t - s) if causal else None
        wide = torch.promote_types(q.dtype, torch.float32)
        given = (q, k) if rounded else (q.to(wide), k.to(wide))
        scores = (given[0] @ given[1].mT / q.shape[-1] ** 0.5).to(wide)
        return attend(q, k, v, mask), (scores.masked_fill(~mask, -torch.inf) if causal else scores).logsumexp(-1)

    return formula


def powers_of_two(q: Tensor, k: Tensor, v: Tensor, causal: bool = False, block_size: int = 64) -> tuple[Tensor, Tensor]:
    """As kernels do: scores in base 2, weights rounded to the dtype of the values; the maximum has a gradient."""
    wide, (s, t) = torch.promote_types(q.dtype, torch.float32), (q.shape[-2], k.shape[-2])
    top = torch.full((*q.shape[:-1], 1), -torch.inf, dtype=wide)
    total, out = torch.zeros_like(top), torch.zeros(*q.shape[:-1], v.shape[-1], dtype=wide)
    for start in range(0, t, block_size):
        block = slice(start, start + block_size)
        scores = q.to(wide) @ k[..., block, :].to(wide).mT * (1.4426950408889634 * q.shape[-1] ** -0.5)
        if causal:
            scores = scores.masked_fill(~torch.ones(s, t, dtype=torch.bool).tril(t - s)[:, block], -torch.inf)
        before, top = top, torch.maximum(top, scores.amax(-1, keepdim=True))
        weights = (scores - top).exp2()
        total = total * (before - top).exp2() + weights.sum(-1, keepdim=True)
        out = out * (before - top).exp2() + (weights.to(v.dtype) @ v[..., block, :]).to(wide)
    return (out / total).to(q.dtype), ((top + total.log2()) * 0.6931471805599453)[..., 0]


def call(
    d: Draw, shape: tuple = (2, 3), q_len: int = 5, k_len: int = 7, d_k: int = 3, d_v: int = 4,
    logit_scale: float = 1.6, **settings: Any,
) -> Call:  # fmt: skip
    """Scores deviate by about `logit_scale` squared."""
    q, k = (d.normal(*shape, n, d_k, scale=logit_scale) for n in (q_len, k_len))
    return Call({"q": q, "k": k, "v": d.normal(*shape, k_len, d_v), **settings})


def in_steps(d: Draw, by: float, **more: Any) -> Call:
    """Scores that rise or fall by so much from one block of two keys to the next that weights there are 1 or 0."""
    made = call(d, (2,), k_len=9, block_size=2, **more)
    steps = by / 3**0.5 * (torch.arange(9.0) // 2 - 2)
    return made.with_inputs(q=1 + 0.01 * made.inputs["q"], k=made.inputs["k"] + steps[:, None])


def below_zero(d: Draw) -> Call:
    """Far below what hidden scores are often filled with."""
    made = call(d, (2,), causal=True, block_size=3)
    return made.with_inputs(q=0.5 + made.inputs["q"].abs(), k=made.inputs["k"] - 20000)


def one_value_for_many_keys(d: Draw) -> Call:
    made = call(d, (), q_len=256, k_len=1000, d_k=8, logit_scale=0.7, block_size=16)
    return made.with_inputs(v=d.uniform(64, low=1.7, high=2.0).expand(1000, -1))


class TestFlashAttention(SoftmaxContract):
    name = "flash_attention"
    oracle = of(library)
    variants = (of(stage_by_stage, rounded=True), powers_of_two, of(normalised_last), of(by_logsumexp))
    results = ("out", "lse")
    axes = {"out": "batch q_len d_v", "lse": "batch q_len"}
    ban = FUSED | Ban(
        r"softmax|logsumexp",
        ("torch.nn.functional.softmax", "torch.nn.functional.log_softmax", "torch._refs.softmax",
         "torch._refs.log_softmax", "torch._refs.logsumexp"),
    )  # fmt: skip
    call = call
    one_value_for_many_keys = one_value_for_many_keys
    holds = {
        "Large scores": ("test_hard_cases",),
        "Half precision": ("test_half_precision", "test_softmax_is"),
        "Memory": ("test_no_tensor_is_larger",),
        "Operations": ("test_operation",),
    }
    cases = {
        "the_default_block_size": {"shape": (), "k_len": 150, "d_k": 8},
        "a_short_last_block": {"shape": (2,), "block_size": 3},
        "whole_blocks": {"shape": (), "q_len": 9, "k_len": 8, "block_size": 4},
        "one_key_a_block": {"shape": (2,), "block_size": 1},
        "causal": {"q_len": 6, "k_len": 6, "causal": True, "block_size": 4},
        "causal_and_more_keys": {"shape": (2,), "q_len": 4, "causal": True, "block_size": 2},
        "causal_in_one_block": {"shape": (2,), "causal": True, "d_k": 6},
    }
    more_shapes = {
        "one_query": {"shape": (2,), "q_len": 1, "causal": True, "block_size": 3},
        "one_key": {"shape": (2,), "k_len": 1, "block_size": 2},
        "four_leading_dimensions": {"shape": (2, 1, 3, 2), "causal": True, "block_size": 2},
    }
    hard_cases = {
        "scores_that_rise": lambda d: in_steps(d, 140.0),
        "scores_that_rise_and_causal": lambda d: in_steps(d, 140.0, causal=True),
        "scores_that_fall": lambda d: in_steps(d, -140.0),
        "scores_far_below_zero": below_zero,
    }
    representative = ("a_short_last_block", "causal", "causal_and_more_keys")
    grows = {"leading axes": "shape", "queries": "q_len", "d_k": "d_k", "d_v": "d_v"}
    growth = {
        "keys in as many blocks": lambda d, n: call(d, (2,), q_len=2, k_len=3 * n, causal=True, block_size=n),
        "keys in two blocks": lambda d, n: call(d, (), q_len=2, k_len=16 * n, block_size=8 * n),
    }
    timed = {"shape": (2, 4), "q_len": 256, "k_len": 256, "d_k": 32, "d_v": 32, "causal": True}

    def result_dtype(self, name: str, call: Call, dtype: torch.dtype) -> torch.dtype:
        return torch.promote_types(dtype, torch.float32) if name == "lse" else dtype

    def run(self, attempt: Attempt, case: str, call: Call, dtype: torch.dtype = torch.float32) -> Tensor:
        """The attention alone."""
        with self.case_context(attempt, case, call):
            args, kwargs = self.arguments(call.to(attempt.device))
            value = self.ready(attempt, call, dtype).request(args, kwargs)["value"]
            return tensor(self.named(value, case)["out"], attempt.device).cpu()

    def expected(self, call: Call) -> Tensor:
        out: Tensor = self.expected_leaves(call)["out"]
        return out

    @fast
    def test_no_tensor_is_larger_than_a_block_of_scores(self, attempt: Attempt, draw: Draw) -> None:
        """Bytes are counted in float64, where an entry has 8, so that a mask of all scores is too large as well."""
        s, t, d_k, d_v, block = 192, 400, 20, 12, 16
        allowed = 8 * s * max(block, d_k)
        for causal in (False, True):
            made = call(draw, (), s, t, d_k, d_v, causal=causal, block_size=block).cast(torch.float64)
            found = attempt.observed([self.prepare_call(attempt, made)])["made"]
            if not found:
                too_much("tensors are made in the thread that is called", "no operation was seen there")
            name, size = max(found.items(), key=lambda item: item[1])
            if size > allowed:
                seen = f"{name} made {size:,} bytes in float64: {s} queries, {t} keys, width {d_k}, block_size {block}"
                sentence = f"no tensor has more than max(s, d) · max(block_size, d) entries, here {allowed:,} bytes"
                too_much(sentence, seen)

    @fast
    def test_operations_forward_and_backward_grow_with_the_blocks_alone(self, attempt: Attempt, draw: Draw) -> None:
        def count(made: Call) -> int:
            prepared = [self.prepare_call(attempt, made)]
            return operation_count(attempt.observed(prepared, [], counted=False, gradients=True))

        for axis, make in self.growth.items():
            where = ", forward and backward together,"
            assert_constant_op_count(axis, self.growth_sizes, lambda n, make=make: count(make(draw, n)), where)
        few, more, many = (count(call(draw, (), k_len=4 * n, block_size=4)) for n in (4, 8, 16))
        if many - more > 1.25 * 2 * (more - few):
            too_much("each block takes as many operations", f"{few} with 4 blocks, {more} with 8 and {many} with 16")
