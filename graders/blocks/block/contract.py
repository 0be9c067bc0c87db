"""What `PreNormBlock` and `PostNormBlock` must do. The oracle is made of torch's own parts in float64, head by head."""

from __future__ import annotations

from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from dojo.contracts import Call, Draw, Formula, HeadsContract, NormedContract, SoftmaxContract, one_value, oracles
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
        "a_mask_for_each_head_of_each_entry": {"mask": "batch heads seq seq"},
        "padding": {"mask": "batch 1 1 seq"},
        "inputs_as_small_as_eps": {"mask": "", "embedding_std": 0.003},
    }
    hard_cases = {
        "three_axes_of_mask_and_as_many_entries_as_heads": {"batch": 3, "mask": "heads seq seq"},
        "very_large_scores": {"q_proj": 150.0, "k_proj": 150.0},
        "scores_far_below_zero": far_below_zero,
        "gates_far_from_zero": {"mask": "", "w1": 100.0},
    }
    holds = {
        "Mask": ("test_hard_cases",),
        "Norms": ("test_norms_start",),
        "Half precision": ("test_half_precision", "test_softmax_is", "test_float16_values"),
        "Errors": ("test_heads_must",),
    }
    representative = ("no_mask", "a_mask_for_each_head_of_each_entry", "inputs_as_small_as_eps", "padding")
    more_shapes = {"one_token": {"seq": 1, "mask": ""}, "one_entry_one_head": {"batch": 1, "heads": 1}}
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
