"""Mixtures of experts against those of transformers."""

from __future__ import annotations

import pytest
import torch

from tests.conformance.agreement import normal, randomised, solution

mixtral = pytest.importorskip("transformers.models.mixtral.modeling_mixtral")
deepseek = pytest.importorskip("transformers.models.deepseek_v3.modeling_deepseek_v3")


def mixtral_config(experts: int, k: int) -> mixtral.MixtralConfig:
    return mixtral.MixtralConfig(
        hidden_size=12, intermediate_size=20, num_local_experts=experts, num_experts_per_tok=k,
        router_jitter_noise=0.0, experts_implementation="eager",
    )  # fmt: skip


@pytest.mark.parametrize(("experts", "k"), [(4, 1), (8, 2), (5, 5)])
def test_route_is_mixtrals_router(experts: int, k: int) -> None:
    theirs, x = mixtral.MixtralTopKRouter(mixtral_config(experts, k)), normal(30, 12).float()
    theirs.weight.data.copy_(normal(experts, 12, seed=2))
    logits, weights, chosen = theirs(x)
    ours = solution("router").route(logits, k)
    assert torch.equal(ours[1], chosen)
    assert torch.allclose(ours[0], weights, rtol=1e-6)


@pytest.mark.parametrize("k", [1, 2, 3])
def test_the_balance_loss_is_theirs_by_assignments(k: int) -> None:
    logits, ours = normal(40, 6), solution("router")
    _, chosen = ours.route(logits, k)
    theirs = mixtral.load_balancing_loss_func((logits,), 6, k)
    assert torch.allclose(k * ours.balance_loss(logits, chosen), theirs.double(), rtol=1e-6)


@pytest.mark.parametrize(("groups", "top", "k"), [(1, 1, 2), (4, 2, 3), (2, 1, 4)])
def test_biased_route_is_deepseeks(groups: int, top: int, k: int) -> None:
    config = deepseek.DeepseekV3Config(
        hidden_size=12, n_routed_experts=16, num_experts_per_tok=k, n_group=groups, topk_group=top,
        norm_topk_prob=True, routed_scaling_factor=2.5,
    )  # fmt: skip
    theirs, x = deepseek.DeepseekV3TopkRouter(config), normal(30, 12).float()
    theirs.weight.data.copy_(normal(16, 12, seed=2))
    theirs.e_score_correction_bias.copy_(normal(16, seed=3) * 0.5 - 1)
    logits, weights, chosen = theirs(x)
    weights = weights / 2.5  # by which they scale them
    ours = solution("router").biased_route(logits, theirs.e_score_correction_bias, k, groups, top)
    assert torch.equal(ours[1].sort(-1).values, chosen.sort(-1).values)
    by_id = [torch.zeros(30, 16).scatter(-1, ids, values) for values, ids in (ours, (weights, chosen))]
    assert torch.allclose(*by_id, rtol=1e-5)


def test_the_router_has_its_known_values() -> None:
    ours, logits = solution("router"), torch.tensor([[0.5, 0.3, 0.2], [0.2, 0.3, 0.5]]).log()
    weights, chosen = ours.route(logits, 2)
    assert chosen.tolist() == [[0, 1], [2, 1]]
    assert torch.allclose(weights[0], torch.tensor([0.625, 0.375]))
    assert ours.balance_loss(logits, chosen).item() == pytest.approx(0.975)


@pytest.mark.parametrize(("experts", "k"), [(4, 1), (8, 2), (5, 5)])
def test_moe_is_mixtrals(experts: int, k: int) -> None:
    theirs = randomised(mixtral.MixtralSparseMoeBlock(mixtral_config(experts, k)), 1)
    ours = solution("moe").MixtureOfExperts(12, 20, experts, k).double()
    w1, w3 = theirs.experts.gate_up_proj.chunk(2, dim=1)
    state = {"router.weight": theirs.gate.weight, "w1": w1, "w3": w3, "w2": theirs.experts.down_proj}
    ours.load_state_dict(state)
    x = normal(2, 7, 12)
    # Their router is float32 in any dtype: in float64 the weights, not the experts, are off by its rounding.
    with torch.no_grad():
        assert (theirs(x) - ours(x)).abs().max() < 1e-5
