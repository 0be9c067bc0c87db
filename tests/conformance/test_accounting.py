"""The counts against what torch counts: operations on meta tensors, and parameters of the solutions themselves."""

from __future__ import annotations

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from tests.conformance.agreement import solution

SHAPES = {
    "every head its own keys": {"num_kv_heads": None},
    "shared keys": {"num_kv_heads": 2},
    "one key head": {"num_kv_heads": 1},
}


def a_pair(num_kv_heads: int | None) -> tuple[object, torch.nn.Module]:
    """A configuration, and the solution of lm of that shape, without memory."""
    config = solution("accounting").Config(101, 48, 3, 6, 80, num_kv_heads)
    lm = solution("lm").TransformerLM(101, 48, 3, 6, 80, 64, num_kv_heads=num_kv_heads, device="meta")
    return config, lm


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_parameter_count_is_that_of_the_solution_of_lm(shape: dict) -> None:
    config, lm = a_pair(**shape)
    assert solution("accounting").parameter_count(config) == sum(p.numel() for p in lm.parameters())


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize(("batch", "seq"), [(1, 16), (3, 40)])
def test_forward_flops_are_what_torch_counts(shape: dict, batch: int, seq: int) -> None:
    config, lm = a_pair(**shape)
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        lm(torch.zeros(batch, seq, dtype=torch.long, device="meta"))
    ours, theirs = solution("accounting").forward_flops(config, seq, batch), counter.get_flop_counts()["Global"]
    named = {str(operation): count for operation, count in theirs.items()}
    attention = sum(count for name, count in named.items() if "attention" in name or "bmm" in name)
    assert ours["total"] == counter.get_total_flops()
    assert ours["attention"] == attention


def test_not_gated_layers_count_as_those_of_the_encoder() -> None:
    """The encoder has biases, positions and LayerNorms besides; its matrices are those of a layer without a gate."""
    encoder = solution("encoder").TransformerEncoder(101, 48, 3, 6, 80, 64, device="meta")
    matrices = sum(p.numel() for name, p in encoder.named_parameters() if p.ndim == 2 and "position" not in name)
    config = solution("accounting").Config(101, 48, 3, 6, 80, gated=False, tied=True)
    norms = (2 * 3 + 1) * 48
    assert solution("accounting").parameter_count(config) == matrices + norms


def test_known_answers() -> None:
    accounting = solution("accounting")
    xl = accounting.Config(50257, 1600, 48, 25, 6400)
    assert accounting.parameter_count(xl) == pytest.approx(2.127e9, rel=1e-3)
    assert 4 * accounting.parameter_count(xl) == pytest.approx(8.51e9, rel=1e-3)
    assert accounting.forward_flops(xl, 1024)["total"] == pytest.approx(4.51e12, rel=1e-3)
    long = accounting.forward_flops(xl, 16384)
    assert long["attention"] > long["total"] / 2
    gpt3 = accounting.Config(50000, 12288, 96, 96, 49152, gated=False, tied=True)
    assert accounting.parameter_count(gpt3) == pytest.approx(175e9, rel=5e-3)
