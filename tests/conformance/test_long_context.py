"""Masks, sinks and frequencies for long contexts against transformers."""

from __future__ import annotations

import math
from types import SimpleNamespace

import pytest
import torch
from transformers import LlamaConfig
from transformers.masking_utils import sliding_window_causal_mask_function
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS
from transformers.models.gpt_oss.modeling_gpt_oss import eager_attention_forward

from tests.conformance.agreement import agree, normal, solution


@pytest.mark.parametrize("window", [1, 3, 9])
def test_window_mask_is_that_of_transformers(window: int) -> None:
    sees = sliding_window_causal_mask_function(window)
    q, k = torch.arange(4, 9)[:, None], torch.arange(9)
    assert torch.equal(solution("window_attention").window_mask(5, 9, window=window), sees(0, 0, q, k))


def test_attention_with_sinks_is_that_of_gpt_oss() -> None:
    q, k, v, sinks = normal(2, 4, 5, 8), normal(2, 4, 7, 8, seed=2), normal(2, 4, 7, 8, seed=3), normal(4, seed=4)
    mask = solution("window_attention").window_mask(5, 7, window=3, sinks=1)

    def theirs(dtype: torch.dtype) -> torch.Tensor:
        module = SimpleNamespace(num_key_value_groups=1, sinks=sinks.to(dtype), training=False)
        bias = torch.zeros(5, 7, dtype=dtype).masked_fill(~mask, torch.finfo(dtype).min)
        found, _ = eager_attention_forward(module, *(t.to(dtype) for t in (q, k, v)), bias, 8**-0.5)
        return found.transpose(1, 2)

    ours = solution("window_attention").attention_with_sinks
    agree(theirs, lambda dtype: ours(q.to(dtype), k.to(dtype), v.to(dtype), sinks.to(dtype), mask))


def test_attention_with_sinks_has_its_known_weights() -> None:
    q, k, v = torch.zeros(1, 1, 1), torch.zeros(1, 2, 1), torch.eye(2)[None]
    found = solution("window_attention").attention_with_sinks(q, k, v, torch.zeros(1))
    assert torch.allclose(found, torch.full((1, 1, 2), 1 / 3))


def theirs(kind: str, d_k: int, theta: float, factor: float, length: int, **more: float) -> tuple:
    """Frequencies and attention factor of transformers."""
    parameters = {"rope_type": kind, "rope_theta": theta, "factor": factor, **more}
    if kind != "dynamic":
        parameters["original_max_position_embeddings"] = length
    sizes = {"hidden_size": d_k, "num_attention_heads": 1, "head_dim": d_k, "max_position_embeddings": length}
    config = LlamaConfig(**sizes, rope_parameters=parameters)
    return ROPE_INIT_FUNCTIONS[kind](config, "cpu", **({"seq_len": more["seq_len"]} if "seq_len" in more else {}))


SIZES = [(8, 1e4, 4.0, 64), (64, 1e4, 4.0, 2048), (128, 5e5, 8.0, 8192)]


@pytest.mark.parametrize("sizes", SIZES)
def test_yarn_is_that_of_transformers(sizes: tuple) -> None:
    frequencies, attention_factor = solution("rope_scaling").yarn_frequencies(*sizes)
    expected, factor = theirs("yarn", *sizes)
    assert torch.allclose(frequencies, expected, rtol=2e-6, atol=0)
    assert math.isclose(attention_factor, factor, rel_tol=1e-12)


@pytest.mark.parametrize("sizes", SIZES)
def test_llama3_is_that_of_transformers(sizes: tuple) -> None:
    expected, _ = theirs("llama3", *sizes, low_freq_factor=1.0, high_freq_factor=4.0)
    assert torch.allclose(solution("rope_scaling").llama3_frequencies(*sizes), expected, rtol=2e-6, atol=0)


@pytest.mark.parametrize("sizes", SIZES)
def test_ntk_is_dynamic_scaling_where_its_bracket_is_the_factor(sizes: tuple) -> None:
    d_k, theta, factor, length = sizes
    expected, _ = theirs("dynamic", *sizes, seq_len=int(length * (2 * factor - 1) / factor))
    assert torch.allclose(solution("rope_scaling").ntk_frequencies(d_k, theta, factor), expected, rtol=1e-5, atol=0)


def test_recipes_have_their_known_values() -> None:
    ours = solution("rope_scaling")
    frequencies, attention_factor = ours.yarn_frequencies(8, 1e4, 4.0, 64)
    assert torch.allclose(frequencies, torch.tensor([1, 0.0625, 0.0025, 0.00025]))
    assert math.isclose(attention_factor, 1.13863, abs_tol=1e-5)
    assert torch.allclose(ours.ntk_frequencies(4, 100.0, 4.0), torch.tensor([1, 0.025]))
    assert torch.allclose(ours.llama3_frequencies(8, 1e4, 8.0, 256), torch.tensor([1, 0.1, 0.00125, 0.000125]))
