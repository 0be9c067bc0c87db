"""What `TransformerEncoder` must do. The oracle is made of torch's own parts in float64, head by head."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from dojo.contracts import Attempt, Call, Draw, DropoutContract, HeadsContract, NormedContract, oracles
from dojo.contracts.attention import SoftmaxContract, one_value, very_large_scores
from dojo.contracts.checks.assertions import assert_raises
from dojo.contracts.harness import robust
from dojo.contracts.layers import POST_NORM_TOPICS, very_low_scores

PADDING = torch.tensor([[True, True, False, True, False], [True, True, True, True, True]])


def model(attend: Callable, norm: Callable, ffn: Callable) -> Callable[..., Tensor]:
    layer = oracles.post_norm_layer(attend, norm, ffn, cross_attention=False)

    def formula(init: dict, params: dict, token_ids: Tensor, padding: Tensor | None = None) -> Tensor:
        tokens, places = params["token_embedding.weight"], params["position_embedding.weight"]
        x = tokens[token_ids.long()] + places[: token_ids.shape[1]]
        x = norm(x, params["embedding_norm.weight"], params["embedding_norm.bias"], 1e-12)
        for number in range(init["num_layers"]):
            x = layer(init, oracles.sub_params(f"layers.{number}.", params), x, oracles.over_keys(padding))
        return x

    return formula


def far_below_zero(d: Draw) -> Call:
    """Every score is far below zero, and below what a mask is often filled with."""
    made = TestTransformerEncoder.call(d, padding=PADDING)
    return made.with_params(**very_low_scores("layers.0.self_attn", made.params))


class TestTransformerEncoder(NormedContract, HeadsContract, DropoutContract, SoftmaxContract):
    name = "TransformerEncoder"
    oracle = model(*oracles.POST_NORM_WAYS[0])
    variants = tuple(model(*parts) for parts in oracles.POST_NORM_WAYS)
    cases = {
        "one_layer": {"padding": None},
        "as_long_as_allowed": {"seq": 14, "padding": None},
        "padding": {"padding": PADDING},
        "two_layers_and_padding": {"batch": 3, "layers": 2},
        "small_embeddings": {"scale": 1e-6, "padding": None},
        "int32_tokens": {"dtype": torch.int32, "padding": None},
    }
    dead_rows = {
        "one_entry_is_all_padding": {"layers": 2, "padding": "one_row"},
        "all_is_padding": {"padding": torch.zeros(2, 5, dtype=torch.bool)},
    }
    hard_cases = {
        "scores_far_below_zero": far_below_zero,
        "very_large_scores": lambda d: very_large_scores(TestTransformerEncoder.call(d, padding=PADDING), 1000),
    }
    holds = POST_NORM_TOPICS | {
        "Padding": ("test_values_match", "test_hard_cases"),
        "Errors": ("test_heads_must", "test_longer_sequences"),
    }
    representative = ("two_layers_and_padding", "padding")
    more_shapes = {
        "one_token": {"seq": 1, "padding": None},
        "one_entry_one_head": {"batch": 1, "heads": 1, "head_dim": 8},
    }
    grows = {size: size for size in ("batch", "seq", "heads", "head_dim", "d_ff", "vocab")}
    timed = {"seq": 64, "vocab": 211, "layers": 2, "heads": 4, "head_dim": 16, "d_ff": 96, "longest": 64}
    time_limit = 10.0
    branches = {
        "the branch of the attention": "layers.1.self_attn.o_proj.bias",
        "the branch of the feed-forward layer": "layers.1.ffn.fc2.bias",
    }
    still = r"o_proj|fc2|layers\.0\.ffn_norm\.weight"
    hidden = "layers.1.ffn.", "layers.1.attn_norm"

    @classmethod
    def call(
        cls, d: Draw, batch: int = 2, seq: int = 5, vocab: int = 13, layers: int = 1, heads: int = 3, head_dim: int = 4,
        d_ff: int = 7, longest: int = 14, scale: float = 1.0, padding: Tensor | str | None = "drawn",
        dtype: torch.dtype = torch.int64, **init: float,
    ) -> Call:  # fmt: skip
        """Embeddings and positions of this scale; `one_row` of drawn padding has no real token."""
        sizes = (vocab, heads * head_dim, layers, heads, d_ff, longest)
        init = dict(zip(cls.signature.init, sizes, strict=False)) | init
        inputs = {"token_ids": d.integers(0, vocab, batch, seq, dtype=dtype)}
        if padding is not None:
            drawn = isinstance(padding, str)
            inputs["padding"] = d.mask(batch, seq, dead_row=padding == "one_row") if drawn else padding
        scales = {"q_proj": 1.5, "k_proj": 1.5, "token_embedding": scale, "position_embedding": scale}
        return Call(inputs, init, cls.params(d, init, **scales))

    @classmethod
    def dropping(cls, d: Draw, dropout: float) -> Call:
        return cls.call(d, layers=2, padding=PADDING, dropout=dropout)

    @classmethod
    def near_300(cls, d: Draw) -> Call:
        made = cls.call(d, padding=None)
        loud = {name: 300 + 4 * value for name, value in made.params.items() if "_embedding" in name}
        loud["token_embedding.weight"][::2] = 300 * made.params["token_embedding.weight"][::2]
        return made.with_params(**loud)

    @classmethod
    def one_value_for_many_keys(cls, d: Draw) -> Call:
        made = cls.call(d, 1, 256, heads=2, head_dim=128, longest=256, padding=None)
        return one_value(d, made, "layers.0.self_attn.")

    @robust
    def test_longer_sequences_than_allowed_are_refused(self, attempt: Attempt, draw: Draw) -> None:
        """An index outside a table is told by line numbers of the library, on a GPU by an assertion somewhere later."""
        for seq, padding in ((15, None), (17, "drawn")):
            use = partial(self.run, attempt, "too_long", self.call(draw, seq=seq, padding=padding))
            assert_raises(use, seq, sentence="seq > max_len is a ValueError")
