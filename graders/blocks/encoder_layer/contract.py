"""What `EncoderLayer` must do. The oracle is made of torch's own parts in float64, head by head."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

import dojo.contracts.oracles as oracles
from dojo.contracts import Call, Draw, DropoutContract, HeadsContract, NormedContract
from dojo.contracts.attention import SoftmaxContract, one_value
from dojo.contracts.layers import POST_NORM_TOPICS, very_low_scores

PADDING = torch.tensor([[True, True, False, True, False], [True, True, True, True, True]])


def of(*parts: Callable) -> Callable[..., Tensor]:
    layer = oracles.post_norm_layer(*parts, cross_attention=False)
    return lambda init, params, x, padding=None: layer(init, params, x, oracles.over_keys(padding))


def loud_padding(d: Draw) -> Call:
    """Padded places so loud that a large number taken from their scores would not hide them."""
    made = TestEncoderLayer.call(d, padding=PADDING)
    return made.with_inputs(x=torch.where(PADDING[..., None], made.inputs["x"], 3e4 * made.inputs["x"]))


def far_below_zero(d: Draw) -> Call:
    """Every score is far below zero, and below what a mask is often filled with."""
    made = TestEncoderLayer.call(d, padding=PADDING)
    return made.with_params(**very_low_scores("self_attn", made.params))


class TestEncoderLayer(NormedContract, HeadsContract, DropoutContract, SoftmaxContract):
    name = "EncoderLayer"
    oracle = of(*oracles.POST_NORM_WAYS[0])
    variants = tuple(of(*parts) for parts in oracles.POST_NORM_WAYS)
    cases = {
        "no_padding": {"padding": None},
        "padding": {"padding": PADDING},
        "as_many_entries_as_heads": {"batch": 3},
        "another_eps": {"eps": 0.3},
        "small_inputs_and_the_default_eps": {"scale": 1e-6},
    }
    dead_rows = {
        "one_entry_is_all_padding": {"padding": "one_row"},
        "all_is_padding": {"padding": torch.zeros(2, 5, dtype=torch.bool)},
        "one_token_that_is_padding": {"seq": 1, "padding": "one_row"},
    }
    hard_cases = {"loud_padding": loud_padding, "scores_far_below_zero": far_below_zero}
    holds = POST_NORM_TOPICS | {"Padding": ("test_values_match", "test_hard_cases")}
    representative = ("no_padding", "padding")
    more_shapes = {"one_token": {"seq": 1, "padding": None}, "one_entry_one_head": {"batch": 1, "heads": 1}}
    grows = {"batch": "batch", "seq": "seq", "heads": "heads", "width": "head_dim", "hidden width": "d_ff"}
    timed = {"batch": 4, "seq": 64, "heads": 6, "head_dim": 8, "d_ff": 128}
    time_limit = 10.0
    branches = {
        "the branch of the attention": "self_attn.o_proj.bias",
        "the branch of the feed-forward layer": "ffn.fc2.bias",
    }
    hidden = "ffn.", "attn_norm"

    @classmethod
    def call(
        cls, d: Draw, batch: int = 2, seq: int = 5, heads: int = 3, head_dim: int = 4, d_ff: int = 7,
        scale: float = 1.0, padding: Tensor | str | None = "drawn", **init: float,
    ) -> Call:  # fmt: skip
        """Inputs, and what attention adds to them, of this scale; `one_row` of drawn padding has no real token."""
        init = {"d_model": heads * head_dim, "num_heads": heads, "d_ff": d_ff, **init}
        inputs = {"x": d.normal(batch, seq, heads * head_dim, scale=scale)}
        if padding is not None:
            drawn = isinstance(padding, str)
            inputs["padding"] = d.mask(batch, seq, dead_row=padding == "one_row") if drawn else padding
        return Call(inputs, init, cls.params(d, init, q_proj=1.5, k_proj=1.5, o_proj=scale))

    @classmethod
    def dropping(cls, d: Draw, dropout: float) -> Call:
        return cls.call(d, padding=PADDING, dropout=dropout, eps=0.3)

    @classmethod
    def near_300(cls, d: Draw) -> Call:
        made = cls.call(d, seq=3, padding=None)
        quiet = {name: 0.01 * value for name, value in made.params.items() if "attn." in name}
        x = torch.stack([300 + d.normal(3, 12, scale=4), d.normal(3, 12, scale=300)])
        return made.with_params(**quiet).with_inputs(x=x)

    @classmethod
    def one_value_for_many_keys(cls, d: Draw) -> Call:
        return one_value(d, cls.call(d, 1, 256, 2, 128, padding=None), "self_attn.")
