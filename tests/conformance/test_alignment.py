"""Alignment against torch.distributions and transformers; what no library here has, against its formula transcribed."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch.distributions import Categorical, kl_divergence
from transformers import GPT2Config, GPT2ForSequenceClassification
from transformers.loss.loss_utils import ForCausalLMLoss

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


def test_sequence_logprobs_are_minus_the_losses_of_transformers() -> None:
    logits, ids, said = normal(4, 6, 7) * 3, integers(7, 4, 6), integers(2, 4, 6, seed=2).bool()
    labels, one = ids.masked_fill(~said, -100), torch.tensor(1)  # in float32 whatever it is given
    rows = [ForCausalLMLoss(logits[[row]], labels[[row]], vocab_size=7, num_items_in_batch=one) for row in range(4)]
    found = solution("dpo").sequence_logprobs(logits.float(), ids, said)
    assert torch.allclose(found, -torch.stack(rows), atol=0, rtol=1e-6)


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_dpo_loss_is_trls_sigmoid_loss_transcribed(smoothing: float) -> None:
    four = [normal(9, seed=seed) * 4 - 20 for seed in range(4)]

    def trl(dtype: torch.dtype) -> torch.Tensor:
        policy_chosen, policy_rejected, ref_chosen, ref_rejected = (each.to(dtype) for each in four)
        logits = (policy_chosen - policy_rejected) - (ref_chosen - ref_rejected)
        losses = -F.logsigmoid(0.3 * logits) * (1 - smoothing) - F.logsigmoid(-0.3 * logits) * smoothing
        return losses.mean()[None]

    ours = solution("dpo").dpo_loss
    agree(trl, lambda dtype: ours(*(each.to(dtype) for each in four), beta=0.3, label_smoothing=smoothing)[None])


def test_dpo_has_its_known_values() -> None:
    ours = solution("dpo")
    logits, ids = torch.tensor([3.0, 1.0]).log().expand(1, 4, 2), torch.tensor([[0, 1, 1, 0]])
    said = torch.tensor([[False, False, True, True]])
    assert torch.allclose(ours.sequence_logprobs(logits, ids, said), torch.tensor([-1.67398]), atol=1e-5)
    four = [torch.tensor([value]) for value in (-5.0, -9.0, -6.0, -8.0)]
    found = [ours.dpo_loss(*[four[0]] * 4), *(ours.dpo_loss(*four, beta=0.5, label_smoothing=e) for e in (0.0, 0.1))]
    assert torch.allclose(torch.stack(found), torch.tensor([0.69315, 0.31326, 0.41326]), atol=1e-5)


@pytest.mark.parametrize("side", ["left", "right"])
def test_last_token_values_are_where_a_sequence_classifier_of_transformers_looks(side: str) -> None:
    config = GPT2Config(vocab_size=7, n_positions=8, n_embd=8, n_layer=1, n_head=2, num_labels=1, pad_token_id=0)
    model, mask = GPT2ForSequenceClassification(config).double().eval(), torch.arange(6) < torch.tensor([[6], [4], [1]])
    mask = mask.flip(1) if side == "left" else mask
    ids = (1 + integers(6, 3, 6)).masked_fill(~mask, 0)
    values = model.score(model.transformer(ids, attention_mask=mask).last_hidden_state)[..., 0]
    theirs = model(ids, attention_mask=mask).logits[:, 0]
    assert torch.equal(solution("reward_model").last_token_values(values, mask), theirs)


def test_the_reward_loss_is_torchs_soft_margin_loss_of_the_gap() -> None:
    chosen, rejected, margin = (normal(9, seed=seed) * 3 for seed in range(3))
    agree(
        lambda dtype: F.soft_margin_loss((chosen - rejected - margin).to(dtype), torch.ones(9, dtype=dtype)),
        lambda dtype: solution("reward_model").reward_loss(chosen.to(dtype), rejected.to(dtype), margin.to(dtype)),
    )
