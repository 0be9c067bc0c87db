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
