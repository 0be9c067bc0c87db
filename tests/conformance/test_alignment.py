"""Alignment against torch.distributions."""

from __future__ import annotations

import torch
from torch.distributions import Categorical, kl_divergence

from tests.conformance.agreement import agree, integers, normal, solution


def test_token_logprobs_and_exact_kl_are_those_of_torch_distributions() -> None:
    logits, ref_logits, ids = normal(4, 5, 7) * 3, normal(4, 5, 7, seed=2) * 3, integers(7, 4, 5)
    ours = solution("kl_estimators")

    def categorical(values: torch.Tensor, dtype: torch.dtype) -> Categorical:
        return Categorical(logits=values.to(dtype))

    agree(
        lambda dtype: categorical(logits, dtype).log_prob(ids),
        lambda dtype: ours.token_logprobs(logits.to(dtype), ids),
    )
    agree(
        lambda dtype: kl_divergence(categorical(logits, dtype), categorical(ref_logits, dtype)),
        lambda dtype: ours.kl_exact(logits.to(dtype), ref_logits.to(dtype)),
    )


def test_k1_and_k3_average_to_the_exact_kl_and_k2_does_not() -> None:
    logits, ref_logits = normal(6, 50), normal(6, 50, seed=2)
    ours = solution("kl_estimators")
    logp, exact = logits.log_softmax(-1), ours.kl_exact(logits, ref_logits)
    k1, k2, k3 = ((logp.exp() * k).sum(-1) for k in ours.kl_estimates(logp, ref_logits.log_softmax(-1)))
    assert torch.allclose(k1, exact, atol=1e-12)
    assert torch.allclose(k3, exact, atol=1e-12)
    assert ((k2 - exact).abs() > 0.01 * exact).any()


def test_kl_estimators_have_their_known_values() -> None:
    ours = solution("kl_estimators")
    found = ours.kl_estimates(torch.tensor([-1.0, -2]), torch.tensor([-1.5, -1]))
    assert torch.allclose(torch.stack(found), torch.tensor([[0.5, -1], [0.125, 0.5], [0.10653, 0.71828]]), atol=1e-5)
    exact = ours.kl_exact(torch.tensor([0.75, 0.25]).log(), torch.tensor([0.5, 0.5]).log())
    assert torch.allclose(exact, torch.tensor(0.13081), atol=1e-5)
