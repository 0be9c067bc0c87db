"""What `CausalSelfAttention` must do. The oracle rotates one head at a time by complex numbers, in float64."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from dojo.contracts import Attempt, Call, Draw, HeadsContract, SoftmaxContract, core, fail, one_value, oracles, robust


def of(attend: oracles.Attention, rope: oracles.Rope) -> Callable[..., Tensor]:
    def formula(init: dict, params: dict, x: Tensor, positions: Tensor | None = None) -> Tensor:
        here = partial(rope, positions=positions)
        return oracles.causal_self_attention(attend, here, params, x, init["num_heads"], init["theta"])

    return formula


def call(
    d: Draw, batch: int = 2, seq: int = 5, heads: int = 3, head_dim: int = 4, max_seq_len: int = 23,
    logit_scale: float = 2.0, positions: Tensor | tuple = (), **init: float,
) -> Call:  # fmt: skip
    """A call on normal inputs, at these positions, or at random ones of this shape."""
    d_model, kv_dim = heads * head_dim, init.get("num_kv_heads", heads) * head_dim
    inputs = {"x": d.normal(batch, seq, d_model)}
    if len(positions):
        inputs["positions"] = d.positions(max_seq_len, *positions) if isinstance(positions, tuple) else positions
    init = {"d_model": d_model, "num_heads": heads, "max_seq_len": max_seq_len, **init}
    return Call(inputs, init, oracles.weights(d, d_model, kv_dim, logit_scale))


def far_below_zero(d: Draw) -> Call:
    """All at one position, queries of positive entries alone, keys of negative ones: far below what a mask holds."""
    made = call(d, logit_scale=70.0, positions=torch.full((5,), 3))
    signed = {"q_proj.weight": 1, "k_proj.weight": -1}
    params = {name: sign * made.params[name].abs() for name, sign in signed.items()}
    return made.with_inputs(x=made.inputs["x"].abs()).with_params(**params)


class TestCausalSelfAttention(SoftmaxContract, HeadsContract):
    name = "CausalSelfAttention"
    oracle = of(oracles.library, oracles.apply_rope)
    variants = (
        of(oracles.stage_by_stage, oracles.apply_rope_by_float32_angles),
        of(oracles.library, oracles.apply_rope_by_float32_angles),
        of(oracles.normalised_last, oracles.apply_rope),
    )
    call = call
    holds = {
        "Causality": ("test_a_later_token", "test_hard_cases"),
        "Positions": ("test_values_match", "test_any_leading"),
        "Half precision": ("test_half_precision", "test_softmax_is"),
        "Errors": ("test_heads_must", "test_key_heads_must"),
    }
    cases = {
        "no_positions": {},
        "positions_for_all": {"positions": (5,)},
        "positions_that_fall": {"positions": torch.tensor([22, 17, 9, 9, 0])},
        "shared_key_heads": {"seq": 7, "heads": 6, "head_dim": 6, "num_kv_heads": 2},
        "another_theta_and_one_key_head": {"theta": 50.0, "num_kv_heads": 1},
        "int32_positions": {"positions": torch.tensor([3, 20, 7, 11, 0], dtype=torch.int32)},
        "one_row_of_positions_and_as_many_tokens_as_entries": {"batch": 5, "positions": (5,)},
    }
    hard_cases = {"very_large_scores": {"logit_scale": 150.0}, "scores_far_below_zero": far_below_zero}
    representative = ("positions_for_all", "shared_key_heads")
    more_shapes = {
        "positions_for_each_entry": {"positions": (2, 5)},
        "as_many_entries_as_heads": {"batch": 3, "positions": (3, 5)},
        "as_many_tokens_as_entries": {"batch": 5, "positions": (5, 5)},
        "one_token": {"seq": 1},
        "one_entry_one_head": {"batch": 1, "heads": 1},
        "as_long_as_allowed": {"seq": 23},
        "far_positions": {"seq": 3, "heads": 1, "max_seq_len": 2309, "positions": torch.tensor([2299, 3, 2051]).int()},
    }
    one_value_for_many_keys = lambda d: one_value(  # noqa: E731
        d, call(d, 1, 1000, heads=2, head_dim=32, max_seq_len=1000, logit_scale=0.8)
    )
    grows = {"seq": "seq", "heads": "heads"}
    growth = {
        "batch": lambda d, n: call(d, n, positions=(n, 5)),
        "heads that share a key head": lambda d, n: call(d, heads=n, num_kv_heads=1),
        "key heads": lambda d, n: call(d, heads=2 * n, num_kv_heads=n),
        "width": lambda d, n: call(d, head_dim=2 * n),
    }
    timed = {"batch": 4, "seq": 96, "heads": 6, "head_dim": 8, "max_seq_len": 96}
    time_limit = 12.0

    @core
    def test_a_later_token_changes_no_earlier_result(self, attempt: Attempt, draw: Draw) -> None:
        made = call(draw, seq=7, positions=torch.tensor([5, 4, 3, 2, 1, 0, 6]))
        x, later = made.inputs["x"], torch.arange(7)[:, None] > 3
        # A large number taken from their scores would not hide the scaled ones.
        changed = (x, x + 5 * later, torch.where(later, 1e5 * x, x))
        before, *after = (self.run(attempt, "later_tokens", made.with_inputs(x=each)) for each in changed)
        for each in after:
            if before.shape != each.shape or not torch.allclose(before[:, :4], each[:, :4], atol=1e-4):
                fail("attention is causal", "tokens 4 to 6 changed what tokens 0 to 3 give")

    @robust
    def test_key_heads_must_divide_the_heads(self, attempt: Attempt, draw: Draw) -> None:
        """A wrong configuration shows as a shape error deep in the model. In Llama's own code it is an assertion."""
        sentence = "num_heads that num_kv_heads does not divide is a ValueError"
        self.refuses(attempt, call(draw, heads=6, num_kv_heads=4), 6, 4, sentence=sentence)
