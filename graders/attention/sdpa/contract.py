"""What `scaled_dot_product_attention` must do. The oracle is torch's own attention in float64."""

from __future__ import annotations

import torch
from torch import Tensor

from dojo.contracts import FUSED, Attempt, Call, Draw, Formula, SoftmaxContract, core, fail, in_part
from dojo.contracts.oracles import WAYS, Attention, library


def of(attend: Attention) -> Formula:
    def formula(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
        # torch.broadcast_shapes would first import half a second of symbolic shapes
        shape = torch.broadcast_tensors(*(t.new_empty(t.shape[:-2]) for t in (q, k, v)))[0].shape
        q, k, v = (t.expand(*shape, -1, -1) for t in (q, k, v))
        return attend(q, k, v, None if mask is None else mask.expand(*shape, -1, -1))

    return formula


def weights_rounded(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
    """Scores in float32, and the weights rounded before they meet the values, as most models do."""
    wide = torch.promote_types(q.dtype, torch.float32)
    identity = torch.eye(k.shape[-2], dtype=wide).expand(*k.shape[:-1], -1)
    return library(q.to(wide), k.to(wide), identity, mask).to(v.dtype) @ v


def call(
    d: Draw, shape: tuple = (2, 3), q_len: int = 5, k_len: int = 7, d_k: int = 3, d_v: int = 4, offset: float = 0.0,
    logit_scale: float = 1.6, **shapes: tuple,
) -> Call:  # fmt: skip
    """Inputs with `shape` before their last two axes, or of `shapes`; values around `offset`.

    Scores deviate by about `logit_scale` squared.
    """
    shapes = {"q": (*shape, q_len, d_k), "k": (*shape, k_len, d_k), "v": (*shape, k_len, d_v)} | shapes
    scales = {"q": logit_scale, "k": logit_scale, "v": 1.0}
    inputs = {name: d.normal(*shapes[name], scale=scale) for name, scale in scales.items()}
    inputs["v"] += offset
    return Call(inputs | ({"mask": in_part(d, *shapes["mask"])} if "mask" in shapes else {}))


def far_below_zero(d: Draw) -> Call:
    """Queries of positive entries alone, and keys of negative ones: far below what a mask is often filled with."""
    made = call(d, logit_scale=200.0).with_inputs(mask=in_part(d, 2, 1, 5, 7))
    return made.with_inputs(q=made.inputs["q"].abs(), k=-made.inputs["k"].abs())


def one_value_for_many_keys(d: Draw) -> Call:
    made = call(d, (), q_len=256, k_len=1000, d_k=8, logit_scale=0.7)
    return made.with_inputs(v=d.uniform(64, low=1.7, high=2.0).expand(1000, -1))


class TestScaledDotProductAttention(SoftmaxContract):
    name = "scaled_dot_product_attention"
    oracle = of(library)
    variants = tuple(of(way) for way in (weights_rounded, *WAYS))
    ban = FUSED
    call = call
    one_value_for_many_keys = one_value_for_many_keys
    cases = {
        "no_leading_dimensions": {"shape": ()},
        "a_batch": {"shape": (2,)},
        "a_mask": {"shape": (), "mask": (5, 7)},
        "a_mask_for_all": {"mask": (5, 7)},
        "padding": {"mask": (2, 1, 1, 7)},
        "a_mask_for_each": {"mask": (2, 3, 5, 7)},
        "as_many_of_everything": {"k_len": 5, "d_k": 4},
    }
    holds = {
        "Masked rows": ("test_a_query_that_may",),
        "Masked keys": ("test_no_key_behind", "test_hard_cases"),
        "Broadcasting": ("test_any_leading",),
        "Half precision": ("test_half_precision", "test_softmax_is", "test_float16"),
    }
    hard_cases = {
        "very_large_scores": {"logit_scale": 150.0, "mask": (2, 1, 5, 7)},
        "very_large_scores_and_no_mask": {"logit_scale": 150.0},
        "scores_far_below_zero": far_below_zero,
    }
    dead_rows = {
        "one_query_of_each": lambda d: call(d).with_inputs(mask=d.mask(2, 3, 5, 7, dead_row=True)),
        "one_query_of_all": lambda d: call(d).with_inputs(mask=d.mask(5, 7, dead_row=True)),
        "no_key_for_anyone": lambda d: call(d).with_inputs(mask=torch.tensor([[[[True]]], [[[False]]]]) & d.mask(5, 7)),
        "a_mask_of_the_queries_alone": lambda d: call(d, (2,), k_len=5).with_inputs(mask=torch.arange(5)[:, None] != 1),
        "one_query_and_a_mask": lambda d: call(d, (2,), q_len=1).with_inputs(
            mask=torch.tensor([[[True] * 7], [[False] * 7]])
        ),
        "one_key_and_a_mask": lambda d: call(d, (2,), k_len=1).with_inputs(mask=d.mask(2, 5, 1, dead_row=True)),
    }
    representative = ("a_batch", "a_mask_for_each", "padding")
    more_shapes = {
        "queries_broadcast": {"q": (2, 1, 5, 3)},
        "keys_and_values_broadcast": {"k": (3, 7, 3), "v": (1, 7, 4)},
        "more_values_than_queries": {"q": (5, 3), "k": (2, 7, 3), "v": (3, 2, 7, 4), "mask": (2, 5, 7)},
        "leading_dimensions_from_the_values_alone": {"shape": (), "v": (3, 7, 4), "mask": (3, 5, 7)},
        "one_of_each": {"shape": (), "q_len": 1, "k_len": 1, "d_k": 1, "d_v": 1},
        "as_many_queries_as_keys": {"shape": (2,), "q_len": 6, "k_len": 6, "d_v": 3, "mask": (6, 6)},
    }
    # So many keys of about equal weight that a sum of values overflows where it is divided last.
    near_300 = {"shape": (), "q_len": 3, "k_len": 260, "logit_scale": 0.0, "offset": 300.0}
    growth = {
        "batch": lambda d, n: call(d, (n, 3), mask=(5, 7)),
        "heads": lambda d, n: call(d, (2, n), mask=(n, 5, 7)),
        "queries": lambda d, n: call(d, (2,), q_len=n, mask=(n, 7)),
        "keys": lambda d, n: call(d, (2,), k_len=n, mask=(5, n)),
    }
    grows = {"d_k": "d_k", "d_v": "d_v"}
    timed = {"shape": (4, 6), "q_len": 96, "k_len": 96, "d_k": 16, "d_v": 16, "mask": (96, 96)}
    time_limit = 12.0

    @core
    def test_no_key_behind_the_mask_has_any_influence(self, attempt: Attempt, draw: Draw) -> None:
        made = call(draw, (2,)).with_inputs(mask=(torch.arange(7) < 4).repeat(5, 1))
        changed = {name: made.inputs[name].clone() for name in "kv"}
        changed["k"][:, 4:] *= 30
        changed["v"][:, 4:] += 1000
        before, after = (self.run(attempt, "keys_hidden", each) for each in (made, made.with_inputs(**changed)))
        if before.shape != after.shape or not torch.allclose(before, after, atol=1e-5):
            fail("what the mask hides has no influence", "keys 4 to 6 changed what the queries get")
