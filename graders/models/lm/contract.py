"""What `TransformerLM` must do. The oracle is made of torch's parts and complex numbers in float64, head by head."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from dojo.contracts import (
    Attempt,
    Call,
    Draw,
    HeadsContract,
    NormedContract,
    SoftmaxContract,
    assert_raises,
    one_value,
    oracles,
    robust,
)
from dojo.contracts.layers import FAR_BELOW

WAYS = (
    (oracles.library, oracles.apply_rope, oracles.library_rms_norm, oracles.library_swiglu),
    (oracles.library, oracles.apply_rope_by_float32_angles, oracles.library_rms_norm, oracles.library_swiglu),
    (oracles.stage_by_stage, oracles.apply_rope_by_float32_angles, oracles.rms_norm, oracles.swiglu),
    (oracles.normalised_last, oracles.apply_rope, oracles.library_rms_norm, oracles.swiglu),
)
# positions that half precision cannot even count
FAR = {"batch": 1, "seq": 307, "vocab": 17, "heads": 1, "pairs": 3, "longest": 313}


def model(attend: Callable, rope: Callable, norm: Callable, gated: Callable) -> Callable[..., Tensor]:
    def formula(init: dict, params: dict, token_ids: Tensor) -> Tensor:
        eps, theta = init["eps"], init["theta"]
        x = params["token_embedding.weight"][token_ids.long()]
        for number in range(init["num_layers"]):
            own = oracles.sub_params(f"layers.{number}.", params)
            attn, ffn = (oracles.sub_params(part, own) for part in ("attn.", "ffn."))
            h = norm(x, own["attn_norm.weight"], eps)
            x = x + oracles.causal_self_attention(attend, rope, attn, h, init["num_heads"], theta)
            x = x + gated(ffn, norm(x, own["ffn_norm.weight"], eps))
        return norm(x, params["final_norm.weight"], eps) @ params["lm_head.weight"].mT

    return formula


def far_below_zero(d: Draw) -> Call:
    """Tokens nearly alike, and keys the negative of the queries, in the slow pair alone: scores are far below zero."""
    made = TestTransformerLM.call(d)
    token = F.rms_norm(d.normal(12), (12,))
    rows = d.normal(4, 12) * torch.tensor([0.0, 0.0, 1.0, 1.0])[:, None]
    rows = (rows * (FAR_BELOW * 2) ** 0.5 / (rows @ token).norm()).repeat(3, 1)
    alike = {"q_proj.weight": rows, "k_proj.weight": -rows}
    params = {f"layers.0.attn.{name}": value for name, value in alike.items()}
    params["token_embedding.weight"] = token + 0.02 * made.params["token_embedding.weight"]
    return made.with_params(**params, **{"layers.0.attn_norm.weight": torch.ones(12)})


def late_tokens(d: Draw) -> Call:
    """Zeros, then forty tokens after position 2,048 that see hardly anything but one another, at great speeds."""
    made = TestTransformerLM.call(d, **FAR | {"seq": 2100, "longest": 2100}, theta=3.0)
    ids = 1 + d.integers(0, 16, 1, 2100)
    ids[:, :-40] = 0
    tokens = made.params["token_embedding.weight"].clone()
    tokens[0] = 0.0
    loud = {name: 2 * value for name, value in made.params.items() if "q_proj" in name or "k_proj" in name}
    return made.with_inputs(token_ids=ids).with_params(**loud, **{"token_embedding.weight": tokens})


class TestTransformerLM(NormedContract, HeadsContract, SoftmaxContract):
    name = "TransformerLM"
    oracle = model(*WAYS[0])
    variants = tuple(model(*parts) for parts in WAYS[1:])
    cases = {
        "one_layer": {},
        "as_long_as_allowed": {"seq": 14},
        "two_layers": {"layers": 2},
        "shared_key_heads": {"batch": 5, "seq": 8, "heads": 6, "num_kv_heads": 2},
        "the_default_eps_and_small_embeddings": {"token_embedding": 0.003},
        "every_argument": {
            "token_embedding": 0.01,
            "pairs": 3,
            "heads": 6,
            "num_kv_heads": 2,
            "theta": 50.0,
            "eps": 1e-3,
        },
        "int32_tokens": {"dtype": torch.int32},
    }
    hard_cases = {
        "very_large_scores": {"q_proj": 150.0, "k_proj": 150.0},
        "scores_far_below_zero": far_below_zero,
        "gates_far_from_zero": {"w1": 100.0},
    }
    holds = {
        "Causal": ("test_hard_cases",),
        "Key heads": ("test_values_match",),
        "Positions": ("test_positions_beyond", "test_any_leading"),
        "Head": ("test_holds_exactly",),
        "Norms": ("test_norms_start",),
        "Half precision": ("test_half_precision", "test_softmax_is", "test_float16_values"),
        "Errors": ("test_heads_must", "test_key_heads_must", "test_longer_sequences"),
    }
    representative = ("two_layers", "shared_key_heads")
    more_shapes = {"one_token": {"seq": 1}, "one_entry": {"batch": 1}, "a_long_sequence": FAR}
    near_300 = {"offset": 300.0}
    grows = {size: size for size in ("batch", "seq", "heads", "d_ff", "vocab")} | {"head_dim": "pairs"}
    growth = {
        "heads that share a key head": lambda d, n: TestTransformerLM.call(d, heads=n, num_kv_heads=1),
        "key heads": lambda d, n: TestTransformerLM.call(d, heads=2 * n, num_kv_heads=n),
    }
    timed = {"seq": 64, "vocab": 211, "layers": 2, "heads": 4, "pairs": 8, "d_ff": 96, "longest": 64}
    time_limit = 10.0

    @classmethod
    def call(
        cls, d: Draw, batch: int = 2, seq: int = 5, vocab: int = 13, layers: int = 1, heads: int = 3, pairs: int = 2,
        d_ff: int = 7, longest: int = 14, offset: float = 0.0, dtype: torch.dtype = torch.int64, **more: float,
    ) -> Call:  # fmt: skip
        """Embeddings around `offset`; a head has this many pairs of features; other words are scales of parameters."""
        sizes = (vocab, 2 * heads * pairs, layers, heads, d_ff, longest)
        init = dict(zip(cls.signature.init, sizes, strict=False))
        init |= {name: more.pop(name) for name in cls.signature.init if name in more}
        params = cls.params(d, init, **{"q_proj": 1.5, "k_proj": 1.5} | more)
        params["token_embedding.weight"] += offset
        return Call({"token_ids": d.integers(0, vocab, batch, seq, dtype=dtype)}, init, params)

    @classmethod
    def one_value_for_many_keys(cls, d: Draw) -> Call:
        return one_value(d, cls.call(d, 1, 512, 256, heads=2, pairs=64, longest=512), "layers.0.attn.")

    @robust
    def test_longer_sequences_than_allowed_are_refused(self, attempt: Attempt, draw: Draw) -> None:
        """Past its tables a model fails by an error about shapes. Llama's own code does this too."""
        for seq in (15, 17):
            use = partial(self.run, attempt, "too_long", self.call(draw, seq=seq))
            assert_raises(use, seq, sentence="seq > max_seq_len is a ValueError")

    @robust
    def test_key_heads_must_divide_the_heads(self, attempt: Attempt, draw: Draw) -> None:
        """A wrong configuration is found in the first batch, by an error about shapes, or never."""
        made = self.call(draw)
        refused = replace(made, init=made.init | {"num_heads": 6, "num_kv_heads": 4}, params={})
        use = partial(self.run, attempt, "wrong_sizes", refused)
        assert_raises(use, 6, 4, sentence="num_heads that num_kv_heads does not divide is a ValueError")

    @robust
    def test_positions_beyond_2048_are_distinct_in_float16(self, attempt: Attempt, draw: Draw) -> None:
        """In a long text neighbours run into one position: float16 counts to 2,048 only, bfloat16 to 256."""
        self.verify(attempt, draw, "more_than_2048_tokens", late_tokens(draw), torch.float16)
