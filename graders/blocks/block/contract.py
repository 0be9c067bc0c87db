"""What `PreNormBlock` and `PostNormBlock` must do. The oracle is made of torch's own parts in float64, head by head."""

from __future__ import annotations

from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from dojo.contracts import (
    Attempt,
    Call,
    Draw,
    Formula,
    HeadsContract,
    NormedContract,
    SoftmaxContract,
    core,
    fail,
    one_value,
    oracles,
    robust,
    very_large_scores,
)
from dojo.contracts.layers import FAR_BELOW


def block(pre: bool, attend: oracles.Attention, norm: oracles.Norm, gated: oracles.Gated) -> Formula:
    """A block of these parts, with the norms before or after them."""
    heads = oracles.heads_one_by_one(attend)

    def formula(init: dict, params: dict, x: Tensor, mask: Tensor | None = None) -> Tensor:
        attention = partial(heads, init, oracles.sub_params("attn.", params), mask=mask)
        feed_forward = partial(gated, oracles.sub_params("ffn.", params))
        for part, name in ((attention, "attn_norm.weight"), (feed_forward, "ffn_norm.weight")):
            x = x + part(norm(x, params[name], 1e-5)) if pre else norm(x + part(x), params[name], 1e-5)
        return x

    return formula


PARTS = (
    (oracles.library, oracles.library_rms_norm, oracles.library_swiglu),
    (oracles.stage_by_stage, oracles.rms_norm, oracles.swiglu),
    (oracles.normalised_last, oracles.library_rms_norm, oracles.swiglu),
)


def far_below_zero(d: Draw) -> Call:
    """All heads alike, tokens nearly alike, and keys the negative of the queries: every score is far below zero."""
    made = TestPreNormBlock.call(d)  # the other block has the same parameters
    token = F.rms_norm(made.inputs["x"][0, 0], (12,))
    rows = made.params["attn.q_proj.weight"][:4]
    rows = (rows * (FAR_BELOW * 2) ** 0.5 / (rows @ token).norm()).repeat(3, 1)
    alike = {"attn.q_proj.weight": rows, "attn.k_proj.weight": -rows, "attn_norm.weight": torch.ones(12)}
    return made.with_params(**alike).with_inputs(x=token + 0.02 * made.inputs["x"])


class BlockContract(NormedContract, HeadsContract, SoftmaxContract):
    axes = {"mask": "batch heads q_len k_len"}
    cases = {
        "no_mask": {"mask": ""},
        "a_mask_for_all": {"mask": "seq seq"},
        "a_mask_for_each_head": {"mask": "1 heads seq seq"},
        "a_mask_for_each_head_of_each_entry": {"mask": "batch heads seq seq"},
        "padding": {"mask": "batch 1 1 seq"},
        "as_many_entries_as_heads": {"batch": 3, "mask": "batch 1 1 seq"},
        "inputs_as_small_as_eps": {"mask": "", "embedding_std": 0.003},
    }
    hard_cases = {
        "three_axes_of_mask": {"mask": "heads seq seq"},
        "three_axes_of_mask_and_as_many_entries_as_heads": {"batch": 3, "mask": "heads seq seq"},
        "scores_far_below_zero": far_below_zero,
        "gates_far_from_zero": {"mask": "", "w1": 100.0},
    }
    holds = {
        "Mask": ("test_no_masked_key", "test_hard_cases", "test_each_call_reads"),
        "Norms": ("test_norms_start",),
        "Half precision": ("test_half_precision", "test_softmax_is", "test_float16_values"),
        "Errors": ("test_heads_must",),
    }
    representative = ("no_mask", "a_mask_for_each_head_of_each_entry", "inputs_as_small_as_eps", "padding")
    more_shapes = {
        "one_token": {"seq": 1, "mask": ""},
        "one_entry": {"batch": 1},
        "one_head": {"heads": 1},
    }
    grows = {"batch": "batch", "seq": "seq", "heads": "heads", "width": "head_dim", "hidden width": "d_ff"}
    timed = {"seq": 96, "heads": 6, "head_dim": 8, "d_ff": 128, "mask": "seq seq"}
    time_limit = 10.0

    @classmethod
    def call(
        cls, d: Draw, batch: int = 2, seq: int = 5, heads: int = 3, head_dim: int = 4, d_ff: int = 7,
        mask: str = "batch heads seq seq", offset: float = 0.0, embedding_std: float = 1.0, **scales: float,
    ) -> Call:  # fmt: skip
        """A call on inputs of this standard deviation, with a random mask of these axes."""
        init = {"d_model": heads * head_dim, "num_heads": heads, "d_ff": d_ff}
        params = cls.params(d, init, **{"q_proj": 1.5, "k_proj": 1.5, "w1": 1.7, "w3": 1.7} | scales)
        made = Call({"x": offset + d.normal(batch, seq, heads * head_dim, scale=embedding_std)}, init, params)
        sizes = {"batch": batch, "heads": heads, "seq": seq, "1": 1}
        return made.with_inputs(mask=d.mask(*(sizes[axis] for axis in mask.split()))) if mask else made

    @classmethod
    def one_value_for_many_keys(cls, d: Draw) -> Call:
        return one_value(d, cls.call(d, 1, 256, 2, 128, mask=""), "attn.")

    @robust
    def test_each_call_reads_its_own_mask(self, attempt: Attempt, draw: Draw) -> None:
        """The padding of the first batch hides real tokens of all later ones."""
        first = type(self).call(draw)
        module, args, kwargs = self.prepare_call(attempt, first)
        staged = module.stage(*args, **kwargs)
        for number, mask in enumerate((first.inputs["mask"], draw.mask(2, 3, 5, 5), draw.mask(2, 3, 5, 5)), 1):
            again = first.with_inputs(mask=mask)
            args, kwargs = self.arguments(again.to(attempt.device))
            staged.refill(*args, **kwargs)
            label = f"call {number} of 3 of one module, another mask in the same tensor"
            self.compare(attempt, draw, label, again, {"result": staged.fetch(staged.go())})

    @core
    def test_no_masked_key_has_any_influence(self, attempt: Attempt, draw: Draw) -> None:
        made = very_large_scores(type(self).call(draw).with_inputs(mask=(torch.arange(5) < 3).repeat(5, 1)))
        x = made.inputs["x"].clone()
        x[:, 3:] = draw.normal(2, 2, 12, scale=5)
        before, after = (self.run(attempt, "keys_hidden", each)[:, :3] for each in (made, made.with_inputs(x=x)))
        if before.shape != after.shape or not torch.allclose(before, after, atol=1e-4):
            fail("what the mask hides has no influence", "tokens 3 and 4 changed what tokens 0 to 2 give")


class TestPreNormBlock(BlockContract):
    name = "PreNormBlock"
    oracle = block(True, *PARTS[0])
    variants = tuple(block(True, *parts) for parts in PARTS)
    # Weights scaled so that norm and branch both show in the result.
    near_300 = {"seq": 3, "mask": "", "offset": 300.0, "o_proj": 100.0, "w2": 100.0}


class TestPostNormBlock(BlockContract):
    name = "PostNormBlock"
    oracle = block(False, *PARTS[0])
    variants = tuple(block(False, *parts) for parts in PARTS)
    near_300 = {"seq": 3, "mask": "", "offset": 300.0, "q_proj": 0.015, "k_proj": 0.015, "v_proj": 0.1}
