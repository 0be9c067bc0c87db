"""What `scaled_dot_product_attention` must do. The oracle is torch's own attention in float64."""

from __future__ import annotations

import torch
from torch import Tensor

from dojo import attending
from dojo.attending import FUSED, SCORE_BUGS, WAYS, Attention, library
from dojo.bugs import Bug
from dojo.contract import Contract, core
from dojo.expect import Call, Draw, fail, tensor
from dojo.judge.proxy import Attempt
from dojo.rule import Formula


def of(attend: Attention) -> Formula:
    def formula(init: dict, params: dict, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
        shape = torch.broadcast_tensors(*(t[..., 0, 0] for t in (q, k, v)))[0].shape
        q, k, v = (t.expand(*shape, *t.shape[-2:]) for t in (q, k, v))
        mask = None if mask is None else mask.expand(*shape, q.shape[-2], k.shape[-2])
        return attend(q, k, v, mask)

    return formula


def weights_rounded(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
    """Scores in float32, and the weights rounded before they meet the values, as most models do."""
    wide = torch.promote_types(q.dtype, torch.float32)
    identity = torch.eye(k.shape[-2], dtype=wide).expand(*k.shape[:-1], -1)
    return library(q.to(wide), k.to(wide), identity, mask).to(v.dtype) @ v


def call(
    d: Draw, *shape: int, s: int = 5, t: int = 7, d_k: int = 3, d_v: int = 4, sharp: float = 1.6, **more: Tensor
) -> Call:
    """Scores of normal inputs have a standard deviation of about `sharp` squared."""
    q, k = d.normal(*shape, s, d_k, scale=sharp), d.normal(*shape, t, d_k, scale=sharp)
    return Call({"q": q, "k": k, "v": d.normal(*shape, t, d_v), **more})


class TestScaledDotProductAttention(Contract):
    name = "scaled_dot_product_attention"
    oracle = staticmethod(of(library))
    variants = tuple(of(way) for way in (weights_rounded, *WAYS))
    positional = 3
    ban = FUSED
    axes = {
        "q": "batch heads q_len d_k",
        "k": "batch heads k_len d_k",
        "v": "batch heads k_len d_v",
        "mask": "batch heads q_len k_len",
        "result": "batch heads q_len d_v",
    }
    cases = {
        "no_leading_dimensions": lambda d: call(d),
        "a_batch": lambda d: call(d, 2),
        "a_mask": lambda d: call(d, mask=d.mask(5, 7)),
        "a_mask_for_all": lambda d: call(d, 2, 3, mask=d.mask(5, 7)),
        "padding": lambda d: call(d, 2, 3, mask=d.mask(2, 1, 1, 7)),
        "a_mask_for_each": lambda d: call(d, 2, 3, mask=d.mask(2, 3, 5, 7, share=0.4)),
        "no_key_for_anyone": lambda d: call(
            d, 2, 3, mask=torch.tensor([True, False])[:, None, None, None] & d.mask(5, 7)
        ),
        "queries_broadcast": lambda d: call(d, 2, 3).with_inputs(q=d.normal(2, 1, 5, 3, scale=2)),
        "keys_and_values_broadcast": lambda d: call(d, 2, 3).with_inputs(k=d.normal(3, 7, 3), v=d.normal(1, 7, 4)),
        "more_values_than_queries": lambda d: call(d, 2).with_inputs(
            q=d.normal(5, 3, scale=2), v=d.normal(3, 2, 7, 4), mask=d.mask(2, 5, 7)
        ),
        "very_large_scores": lambda d: call(d, 2, 3, sharp=150.0, mask=d.mask(2, 1, 5, 7)),
        "very_large_scores_and_no_mask": lambda d: call(d, 2, 3, sharp=150.0),
        "as_many_of_everything": lambda d: call(d, 2, 3, s=5, t=5, d_k=4, d_v=4),
        "a_mask_of_the_queries_alone": lambda d: call(d, 2, s=5, t=5, mask=torch.arange(5)[:, None] != 1),
        "leading_dimensions_from_the_values_alone": lambda d: call(d).with_inputs(
            v=d.normal(3, 7, 4), mask=d.mask(3, 5, 7)
        ),
    }
    telling = ("a_batch", "a_mask_for_each", "no_key_for_anyone", "keys_and_values_broadcast")
    more_shapes = {
        "one_query": lambda d: call(d, 2, s=1),
        "one_query_and_a_mask": lambda d: call(d, 2, s=1, mask=torch.tensor([[[True] * 7], [[False] * 7]])),
        "one_key": lambda d: call(d, 2, t=1),
        "one_key_and_a_mask": lambda d: call(d, 2, t=1, mask=d.mask(2, 5, 1)),
        "four_leading_dimensions": lambda d: call(d, 2, 1, 3, 2, mask=d.mask(2, 1, 3, 2, 5, 7)),
        "one_of_each": lambda d: call(d, s=1, t=1, d_k=1, d_v=1),
        "as_many_queries_as_keys": lambda d: call(d, 2, s=6, t=6, d_v=3, mask=d.mask(6, 6)),
        "three_leading_dimensions": lambda d: call(d, 2, 1, 3, mask=d.mask(2, 1, 3, 5, 7)),
    }
    growth = {
        "batch": lambda d, n: call(d, n, 3, mask=d.mask(5, 7)),
        "heads": lambda d, n: call(d, 2, n, mask=d.mask(n, 5, 7)),
        "queries": lambda d, n: call(d, 2, s=n, mask=d.mask(n, 7)),
        "keys": lambda d, n: call(d, 2, t=n, mask=d.mask(5, n)),
        "d_k": lambda d, n: call(d, 2, d_k=n),
        "d_v": lambda d, n: call(d, 2, d_v=n),
    }
    time_limit = 12.0

    @staticmethod
    def near_300(d: Draw) -> Call:
        # So many keys of about equal weight that a sum of values overflows before it is divided.
        quiet = call(d, s=3, t=260, sharp=0.0)
        return quiet.with_inputs(**{name: 300 + quiet.inputs[name] for name in "qkv"})

    @staticmethod
    def timed(d: Draw) -> Call:
        return call(d, 4, 6, s=96, t=96, d_k=16, d_v=16, mask=d.mask(96, 96))

    @core
    def test_mask_is_the_fourth_argument(self, attempt: Attempt, draw: Draw) -> None:
        made = call(draw, 2, mask=draw.mask(5, 7))
        inputs = self.on_device(attempt, made).inputs
        got = {"result": getattr(attempt, self.name)(*inputs.values())}
        self.compare(attempt, draw, "all arguments by position", made, got, torch.float32, None)

    @core
    def test_no_key_behind_the_mask_has_any_influence(self, attempt: Attempt, draw: Draw) -> None:
        mask = torch.ones(5, 7, dtype=torch.bool)
        mask[:, 4:] = False
        inputs = self.on_device(attempt, call(draw, 2, mask=mask)).inputs
        before = tensor(attempt.scaled_dot_product_attention(**inputs), attempt.device)
        louder = {name: inputs[name].clone() for name in "kv"}
        louder["k"][:, 4:] *= 30
        louder["v"][:, 4:] += 1000
        after = tensor(attempt.scaled_dot_product_attention(**inputs | louder), attempt.device)
        if before.shape != after.shape or not torch.allclose(before, after, atol=1e-5):
            fail("what the mask hides has no influence", "keys 4 to 6 changed what the queries get")


BUGS = [
    *SCORE_BUGS,
    Bug(
        "scaled by the width of the values",
        "a score is a sum of d_k products: the width of the values has no part in it.",
        "scores = scores / math.sqrt(q.shape[-1])",
        "scores = scores / math.sqrt(v.shape[-1])",
    ),
    Bug(
        "scaled once more after softmax",
        "the scale belongs to the scores alone: weights that are divided no longer sum to 1.",
        "return (weights @ v.to(acc)).to(q.dtype)",
        "return (weights @ v.to(acc) / math.sqrt(q.shape[-1])).to(q.dtype)",
    ),
    Bug(
        "mask ignored",
        "keys where the mask is False get weight 0.",
        "scores = scores / math.sqrt(q.shape[-1])",
        "scores = scores / math.sqrt(q.shape[-1]); mask = None",
    ),
    Bug(
        "dropped the weights: the plain mean of the values",
        "the weights come from the scores; equal weights look nowhere in particular.",
        "weights = torch.softmax(scores, dim=-1)",
        "weights = torch.softmax(scores * 0, dim=-1)",
    ),
    Bug(
        "products of float16 overflow",
        "300 · 300 is beyond the largest float16: queries and keys are upcast before their product.",
        "scores = q.to(acc) @ k.to(acc).transpose(-2, -1)",
        "scores = (q @ k.transpose(-2, -1)).to(acc)",
    ),
    Bug(
        "the result left in float32",
        "the result has the dtype of the inputs.",
        "return (weights @ v.to(acc)).to(q.dtype)",
        "return weights @ v.to(acc)",
    ),
]

EQUIVALENT = (*attending.EQUIVALENT,)
