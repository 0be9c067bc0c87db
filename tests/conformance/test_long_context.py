"""Masks and sinks for long contexts against transformers."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from transformers.masking_utils import sliding_window_causal_mask_function
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
