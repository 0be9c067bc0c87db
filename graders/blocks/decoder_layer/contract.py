"""What `DecoderLayer` must do. The oracle is made of torch's own parts in float64, head by head."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

import dojo.contracts.oracles as oracles
from dojo.contracts import Attempt, Call, Draw, DropoutContract, HeadsContract, NormedContract
from dojo.contracts.attention import SoftmaxContract, one_value
from dojo.contracts.harness import robust
from dojo.contracts.layers import POST_NORM_TOPICS, very_low_scores

PADDING = torch.tensor([[True, True, False, True, False, True, False], [True] * 7])


def of(*parts: Callable) -> Callable[..., Tensor]:
    layer = oracles.post_norm_layer(*parts, cross_attention=True)
    return lambda init, params, x, memory, memory_padding=None: layer(
        init, params, x, oracles.causal(x.shape[1]), memory, oracles.over_keys(memory_padding)
    )


def loud_padding(d: Draw) -> Call:
    """Padded places so loud that a large number taken from their scores would not hide them."""
    made = TestDecoderLayer.call(d, padding=PADDING)
    memory = made.inputs["memory"]
    return made.with_inputs(memory=torch.where(PADDING[..., None], memory, 3e4 * memory))


def far_below_zero(d: Draw) -> Call:
    """Every score is far below zero, and below what a mask is often filled with."""
    made = TestDecoderLayer.call(d, padding=PADDING)
    lowered = (very_low_scores(each, made.params) for each in ("self_attn", "cross_attn"))
    return made.with_params(**next(lowered), **next(lowered))


class TestDecoderLayer(NormedContract, HeadsContract, DropoutContract, SoftmaxContract):
    name = "DecoderLayer"
    oracle = of(*oracles.POST_NORM_WAYS[0])
    variants = tuple(of(*parts) for parts in oracles.POST_NORM_WAYS)
    cases = {
        "no_padding": {"padding": None},
        "a_memory_as_long_as_the_text": {"mem_len": 5, "padding": None},
        "padding": {"padding": PADDING},
        "as_many_keys_as_entries": {"batch": 5, "mem_len": 5},
        "another_eps": {"eps": 0.3},
        "small_inputs_and_the_default_eps": {"scale": 1e-6},
    }
    dead_rows = {
        "one_entry_is_all_padding": {"padding": "one_row"},
        "all_is_padding": {"padding": torch.zeros(2, 7, dtype=torch.bool)},
        "one_token_of_memory_that_is_padding": {"mem_len": 1, "padding": "one_row"},
    }
    hard_cases = {"loud_padding": loud_padding, "scores_far_below_zero": far_below_zero}
    holds = POST_NORM_TOPICS | {
        "Causal": ("test_values_match", "test_takes_a_target"),
        "Padding": ("test_hard_cases",),
    }
    representative = ("no_padding", "padding")
    more_shapes = {
        "one_token": {"seq": 1, "padding": None},
        "one_token_of_memory": {"mem_len": 1, "padding": None},
        "one_entry_one_head": {"batch": 1, "heads": 1, "head_dim": 8},
    }
    grows = {size: size for size in ("batch", "seq", "mem_len", "heads", "head_dim", "d_ff")}
    timed = {"batch": 4, "seq": 64, "mem_len": 48, "heads": 6, "head_dim": 8, "d_ff": 128}
    time_limit = 10.0
    branches = {
        "the branch of the self-attention": "self_attn.o_proj.bias",
        "the branch of the cross-attention": "cross_attn.o_proj.bias",
        "the branch of the feed-forward layer": "ffn.fc2.bias",
    }
    hidden = "ffn.", "cross_attn_norm"

    @classmethod
    def call(
        cls, d: Draw, batch: int = 2, seq: int = 5, mem_len: int = 7, heads: int = 3, head_dim: int = 4, d_ff: int = 7,
        scale: float = 1.0, padding: Tensor | str | None = "drawn", **init: float,
    ) -> Call:  # fmt: skip
        """The text, and what attention adds to it, of this scale; `one_row` of drawn padding has no real token."""
        d_model = heads * head_dim
        inputs = {"x": d.normal(batch, seq, d_model, scale=scale), "memory": d.normal(batch, mem_len, d_model)}
        if padding is not None:
            drawn = isinstance(padding, str)
            inputs["memory_padding"] = d.mask(batch, mem_len, dead_row=padding == "one_row") if drawn else padding
        init = {"d_model": d_model, "num_heads": heads, "d_ff": d_ff, **init}
        return Call(inputs, init, cls.params(d, init, q_proj=1.5, k_proj=1.5, o_proj=scale))

    @classmethod
    def dropping(cls, d: Draw, dropout: float) -> Call:
        return cls.call(d, padding=PADDING, dropout=dropout, eps=0.3)

    @classmethod
    def near_300(cls, d: Draw) -> Call:
        made = cls.call(d, seq=3, mem_len=5, padding=None)
        quiet = {name: 0.01 * value for name, value in made.params.items() if "_attn." in name}
        loud = {name: torch.stack([300 + 4 * value[0], 300 * value[1]]) for name, value in made.inputs.items()}
        return made.with_params(**quiet).with_inputs(**loud)

    @classmethod
    def one_value_for_many_keys(cls, d: Draw) -> Call:
        return one_value(d, cls.call(d, 1, 512, 1, 2, 128, padding=None), "self_attn.")

    @robust
    def test_takes_a_target_of_any_length(self, attempt: Attempt, draw: Draw) -> None:
        """A long document fails where all short ones went well, because a causal table of fixed size is too small."""
        made = self.call(draw, batch=1, seq=2100, mem_len=3, heads=1, padding=None)
        first, long = made.with_inputs(x=made.inputs["x"][:, :5]), self.run(attempt, "2,100 tokens", made)
        got = {"result": (long[:, :5] if long.dim() > 1 else long).to(attempt.device)}
        self.compare(attempt, draw, "the first of 2,100 tokens", first, got)
