"""What `Seq2SeqTransformer` must do. The oracle is made of torch's parts and complex numbers, one head at a time."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from dojo.contracts import Attempt, Call, Draw, DropoutContract, HeadsContract, NormedContract, oracles
from dojo.contracts.attention import SoftmaxContract, one_value, very_large_scores
from dojo.contracts.checks.assertions import assert_raises
from dojo.contracts.harness import robust
from dojo.contracts.layers import POST_NORM_TOPICS, silenced, very_low_scores

WAYS = (
    (oracles.sinusoids, oracles.library, oracles.library_layer_norm, oracles.library_feed_forward),
    (oracles.sinusoids_by_float32_angles, oracles.stage_by_stage, oracles.layer_norm, oracles.feed_forward),
    (oracles.sinusoids_by_float32_angles, oracles.normalised_last, oracles.layer_norm, oracles.library_feed_forward),
)
PADDING = torch.tensor([[True, True, False, True, False, True, False], [True] * 7])


def model(waves: Callable[[int, int], Tensor], *parts: Callable) -> Callable[..., Tensor]:
    """An encoder-decoder of these positions, attention, norm and feed-forward layer."""
    reading, writing = (oracles.post_norm_layer(*parts, cross_attention) for cross_attention in (False, True))

    def placed(embedded: Tensor) -> Tensor:
        """√d times the embeddings, plus the positions, each rounded."""
        seq, size = embedded.shape[-2:]
        return embedded * size**0.5 + waves(seq, size).to(embedded.dtype)

    def formula(
        init: dict, params: dict, src_ids: Tensor, tgt_ids: Tensor, src_padding: Tensor | None = None
    ) -> Tensor:
        mask, past = oracles.over_keys(src_padding), oracles.causal(tgt_ids.shape[1])
        memory = placed(params["src_embedding.weight"][src_ids.long()])
        x = placed(params["tgt_embedding.weight"][tgt_ids.long()])
        for number in range(init["num_layers"]):
            memory = reading(init, oracles.sub_params(f"encoder_layers.{number}.", params), memory, mask)
        for number in range(init["num_layers"]):
            x = writing(init, oracles.sub_params(f"decoder_layers.{number}.", params), x, past, memory, mask)
        return x @ params["lm_head.weight"].mT

    return formula


def quiet_norms(d: Draw) -> Call:
    """What reaches each norm after the first of its stack is about as small as the root of eps."""
    made = silenced(TestSeq2SeqTransformer.call(d, padding=None), r"(v_proj|o_proj|fc.)\.bias")
    return made.with_params(**{k: 1e-6 * v for k, v in made.params.items() if re.search("attn_norm|encoder.*norm", k)})


def far_below_zero(d: Draw) -> Call:
    """Every score is far below zero, and below what a mask is often filled with."""
    made = TestSeq2SeqTransformer.call(d, padding=PADDING)
    lowered = (
        very_low_scores(each, made.params) for each in ("encoder_layers.0.self_attn", "decoder_layers.0.cross_attn")
    )
    return made.with_params(**next(lowered), **next(lowered))


class TestSeq2SeqTransformer(NormedContract, HeadsContract, DropoutContract, SoftmaxContract):
    name = "Seq2SeqTransformer"
    oracle = model(*WAYS[0])
    variants = tuple(model(*parts) for parts in WAYS)
    cases = {
        "one_layer": {"padding": None},
        "a_target_longer_than_the_source": {"src": 3, "tgt": 8, "padding": None},
        "as_long_as_allowed": {"src": 14, "tgt": 14, "padding": None},
        "padding": {"padding": PADDING},
        "two_layers_and_padding": {"batch": 3, "layers": 2},
        "int32_tokens": {"dtype": torch.int32, "padding": None},
    }
    dead_rows = {
        "one_entry_is_all_padding": {"layers": 2, "padding": "one_row"},
        "all_is_padding": {"padding": torch.zeros(2, 7, dtype=torch.bool)},
    }
    hard_cases = {
        "small_sums_at_every_norm": quiet_norms,
        "scores_far_below_zero": far_below_zero,
        "very_large_scores": lambda d: very_large_scores(TestSeq2SeqTransformer.call(d, padding=PADDING), 50),
    }
    holds = POST_NORM_TOPICS | {
        "Causal": ("test_values_match",),
        "Padding": ("test_hard_cases",),
        "Positions": ("test_positions_beyond", "test_state_dict"),
        "Errors": ("test_heads_must", "test_longer_sequences"),
    }
    representative = ("two_layers_and_padding", "padding")
    more_shapes = {
        "one_token_of_target": {"tgt": 1, "padding": None},
        "one_token_of_source": {"src": 1, "padding": None},
        "one_entry_one_head": {"batch": 1, "heads": 1, "pairs": 4},
    }
    grows = {"head_dim": "pairs"} | {n: n for n in ("batch", "src", "tgt", "heads", "d_ff", "src_vocab", "tgt_vocab")}
    timed = {"src": 48, "tgt": 32, "src_vocab": 97, "tgt_vocab": 89, "heads": 4, "pairs": 8, "d_ff": 96, "longest": 64}
    time_limit = 10.0
    branches = {
        "the branch of the self-attention": "decoder_layers.1.self_attn.o_proj.bias",
        "the branch of the cross-attention": "decoder_layers.1.cross_attn.o_proj.bias",
        "the branch of the feed-forward layer": "decoder_layers.1.ffn.fc2.bias",
    }
    still = r"o_proj|fc2|layers\.0\.ffn_norm\.weight"
    hidden = "decoder_layers.1.ffn.", "decoder_layers.1.cross_attn_norm"

    @classmethod
    def call(
        cls, d: Draw, batch: int = 2, src: int = 7, tgt: int = 5, src_vocab: int = 13, tgt_vocab: int = 17,
        layers: int = 1, heads: int = 3, pairs: int = 2, d_ff: int = 7, longest: int = 14, quiet: float = 1.0,
        dtype: torch.dtype = torch.int64, padding: Tensor | str | None = "drawn", **init: float,
    ) -> Call:  # fmt: skip
        """A head has this many pairs of features; `one_row` of drawn padding has no real token."""
        sizes = (src_vocab, tgt_vocab, 2 * heads * pairs, layers, heads, d_ff, longest)
        init = dict(zip(cls.signature.init, sizes, strict=False)) | init
        lengths = {"src_ids": (src_vocab, batch, src), "tgt_ids": (tgt_vocab, batch, tgt)}
        inputs = {name: d.integers(0, *each, dtype=dtype) for name, each in lengths.items()}
        if padding is not None:
            drawn = isinstance(padding, str)
            inputs["src_padding"] = d.mask(batch, src, dead_row=padding == "one_row") if drawn else padding
        scales = {"q_proj": 1.5, "k_proj": 1.5} | dict.fromkeys(("tgt_embedding", "o_proj", "fc2"), quiet)
        return Call(inputs, init, cls.params(d, init, **scales))

    @classmethod
    def dropping(cls, d: Draw, dropout: float) -> Call:
        return cls.call(d, layers=2, padding=PADDING, dropout=dropout)

    @classmethod
    def near_300(cls, d: Draw) -> Call:
        made = cls.call(d, padding=None)
        quiet = {k: 0.01 * v for k, v in made.params.items() if re.search("[qk]_proj.weight", k)}
        return made.with_params(**{k: 300 + 4 * v for k, v in made.params.items() if "_embedding" in k}, **quiet)

    @classmethod
    def one_value_for_many_keys(cls, d: Draw) -> Call:
        sizes = {"tgt_vocab": 256, "heads": 2, "pairs": 64, "longest": 512, "quiet": 1 / 16}
        made = cls.call(d, 1, 1, 512, **sizes, padding=None)
        return one_value(d, made, "decoder_layers.0.self_attn.")

    @robust
    def test_positions_beyond_2048_are_told_apart(self, attempt: Attempt, draw: Draw) -> None:
        """In a long text neighbours stand in one place: float16 counts to 2,048 only, bfloat16 to 256."""
        sizes = {"batch": 1, "src": 1, "tgt": 2100, "heads": 1, "pairs": 3, "longest": 2100}
        self.verify(attempt, draw, "a_target_of_2100_tokens", self.call(draw, padding=None, **sizes))

    @robust
    def test_longer_sequences_than_allowed_are_refused(self, attempt: Attempt, draw: Draw) -> None:
        """Sizes that do not fit are told by the library, in terms of tensors that the caller never made."""
        for seq, padding in ((15, None), (17, "drawn")):
            for side, told in (("src", "source"), ("tgt", "target")):
                use = partial(self.run, attempt, "too_long", self.call(draw, padding=padding, **{side: seq}))
                assert_raises(use, seq, sentence=f"a {told} longer than max_len is a ValueError")
