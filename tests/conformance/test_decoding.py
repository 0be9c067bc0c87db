"""Decoding against transformers' own."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch import Tensor

from tests.conformance.agreement import agree, normal, solution

transformers = pytest.importorskip("transformers", reason="transformers is part of the test extra")


def warped(logits: Tensor, temperature: float, top_k: int | None, top_p: float | None, min_p: float | None) -> Tensor:
    """The log-probabilities after transformers' warpers, in its order."""
    warpers = [transformers.TemperatureLogitsWarper(temperature)]
    warpers += [transformers.TopKLogitsWarper(top_k)] if top_k else []
    warpers += [transformers.TopPLogitsWarper(top_p)] if top_p else []
    warpers += [transformers.MinPLogitsWarper(min_p)] if min_p else []
    for warper in warpers:
        logits = warper(None, logits)
    return torch.log_softmax(logits, -1)


@pytest.mark.parametrize(
    ("temperature", "top_k", "top_p", "min_p"),
    [*itertools.product((0.4, 1.0, 1.9), (None, 1, 6), (None, 0.55, 0.93), (None, 0.07, 0.4))],
)
def test_what_is_kept_and_its_log_probabilities_are_transformers(
    temperature: float, top_k: int | None, top_p: float | None, min_p: float | None
) -> None:
    logits = normal(20, 13) * 2
    ours = solution("sampling").next_token_logprobs(logits, temperature, top_k, top_p, min_p)
    theirs = warped(logits, temperature, top_k, top_p, min_p)
    assert torch.equal(ours == -torch.inf, theirs == -torch.inf)
    agree(lambda dtype: theirs.exp().to(dtype), lambda dtype: ours.exp().to(dtype))


def test_sampling_has_its_known_values() -> None:
    ours = solution("sampling")
    logprobs = ours.next_token_logprobs(torch.tensor([0.4, 0.3, 0.2, 0.1]).log(), top_k=3, top_p=0.7)
    expected = torch.tensor([-0.5596, -0.8473, -torch.inf, -torch.inf])
    assert torch.allclose(logprobs, expected, atol=1e-4)
    assert ours.sample(logprobs.expand(2, 4), torch.tensor([0.5, 0.6])).tolist() == [0, 1]
