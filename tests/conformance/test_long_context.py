"""Masks, sinks, frequencies and attention by blocks against transformers and PyTorch's own kernel for the CPU."""

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


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("block_size", [1, 5, 64])
def test_flash_attention_is_torchs_kernel(causal: bool, block_size: int) -> None:
    q, k, v = (normal(2, 3, 12, 8, seed=seed) * 2 for seed in (1, 2, 3))  # its causal mask is from the top left
    kernel = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
    for which in (0, 1):
        agree(
            lambda dtype, which=which: kernel(q.to(dtype), k.to(dtype), v.to(dtype), 0.0, causal)[which],
            lambda dtype, which=which: solution("flash_attention").flash_attention(
                q.to(dtype), k.to(dtype), v.to(dtype), causal, block_size
            )[which],
        )


def test_flash_attention_has_its_known_values() -> None:
    q, k, v = torch.tensor([[2.0]]), torch.tensor([[0.0], [math.log(3) / 2]]), torch.tensor([[8.0], [4.0]])
    for block_size in (1, 2, 64):
        out, lse = solution("flash_attention").flash_attention(q, k, v, block_size=block_size)
        assert torch.allclose(out, torch.tensor([[5.0]]))
        assert torch.allclose(lse, torch.tensor([math.log(4)]))


@pytest.mark.parametrize(("s", "t", "causal"), [(12, 12, False), (12, 12, True), (5, 9, True), (9, 5, False)])
def test_attention_backward_is_autograd_of_torchs_attention(s: int, t: int, causal: bool) -> None:
    q, k, v, grad = (
        normal(2, 3, s, 8, seed=1),
        normal(2, 3, t, 8, seed=2),
        normal(2, 3, t, 6),
        normal(2, 3, s, 6, seed=4),
    )
    mask = torch.ones(s, t).tril(t - s).bool() if causal else None
    leaves = [each.requires_grad_() for each in (q, k, v)]
    out = torch.nn.functional.scaled_dot_product_attention(*leaves, attn_mask=mask)
    expected = torch.autograd.grad(out, leaves, grad)
    scores = (q @ k.mT / 8**0.5).detach()
    lse = (scores if mask is None else scores.masked_fill(~mask, -torch.inf)).logsumexp(-1)
    found = solution("attention_backward").attention_backward(q, k, v, out, lse, grad, causal)
    for ours, theirs in zip(found, expected, strict=True):
        assert torch.allclose(ours, theirs, rtol=0, atol=1e-12)


@pytest.mark.parametrize("causal", [False, True])
def test_attention_backward_is_torchs_kernel(causal: bool) -> None:
    q, k, v, grad = (normal(2, 3, 12, 8, seed=seed) for seed in (1, 2, 3, 4))
    out, lse = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(q, k, v, 0.0, causal)
    theirs = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward(grad, q, k, v, out, lse, 0.0, causal)
    found = solution("attention_backward").attention_backward(q, k, v, out, lse, grad, causal)
    for ours, each in zip(found, theirs, strict=True):
        assert torch.allclose(ours, each, rtol=0, atol=1e-12)


def test_attention_backward_of_parts_of_the_keys_adds_up() -> None:
    q, k, v, grad = normal(5, 8), normal(9, 8, seed=2), normal(9, 6, seed=3), normal(5, 6, seed=4)
    out, lse = solution("flash_attention").flash_attention(q, k, v)
    ours = solution("attention_backward").attention_backward
    whole = ours(q, k, v, out, lse, grad)
    first, second = (ours(q, k[part], v[part], out, lse, grad) for part in (slice(4), slice(4, None)))
    assert torch.allclose(whole[0], first[0] + second[0], atol=1e-12)
    for number in (1, 2):
        assert torch.allclose(whole[number], torch.cat([first[number], second[number]]), atol=1e-12)


def test_attention_backward_has_its_known_values() -> None:
    q, k, v = torch.tensor([[2.0]]), torch.tensor([[math.log(3) / 2], [0.0]]), torch.tensor([[4.0], [8.0]])
    given = torch.tensor([[5.0]]), torch.tensor([math.log(4)]), torch.ones(1, 1)
    found = solution("attention_backward").attention_backward(q, k, v, *given)
    for ours, expected in zip(found, ([-0.41198], [-1.5, 1.5], [0.75, 0.25]), strict=True):
        assert torch.allclose(ours.flatten(), torch.tensor(expected), atol=1e-5)
