"""Attention by blocks against PyTorch's own kernel for the CPU."""

from __future__ import annotations

import math

import pytest
import torch

from tests.conformance.agreement import agree, normal, solution


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
