"""The losses of policy gradients against what the libraries compute, and their known values.

TRL, Stable-Baselines3 and CleanRL are not installed for the tests: their formulas are transcribed.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from tests.conformance.agreement import agree, integers, normal, solution


def cleanrl(rewards: Tensor, values: Tensor, dones: Tensor, last: Tensor, gamma: float, lam: float) -> Tensor:
    """CleanRL's ppo.py, transcribed: time first, and `dones[t]` says that step t starts an episode."""
    rewards, values, ended = rewards.mT, values.mT, dones.mT.to(rewards.dtype)
    starts, next_done = torch.cat([torch.zeros_like(ended[:1]), ended[:-1]]), ended[-1]
    advantages, lastgaelam = torch.zeros_like(rewards), 0
    for t in reversed(range(len(rewards))):
        nextnonterminal = 1.0 - (next_done if t == len(rewards) - 1 else starts[t + 1])
        nextvalues = last if t == len(rewards) - 1 else values[t + 1]
        delta = rewards[t] + gamma * nextvalues * nextnonterminal - values[t]
        advantages[t] = lastgaelam = delta + gamma * lam * nextnonterminal * lastgaelam
    return torch.stack([advantages.mT, (advantages + values).mT])


@pytest.mark.parametrize(("gamma", "lam"), [(0.99, 0.95), (1.0, 1.0), (0.9, 0.0)])
def test_gae_is_cleanrls(gamma: float, lam: float) -> None:
    rewards, values, last = normal(4, 9), normal(4, 9, seed=2), normal(4, seed=3)
    dones = integers(3, 4, 9) == 0
    ours = solution("gae").gae
    agree(
        lambda dtype: cleanrl(rewards.to(dtype), values.to(dtype), dones, last.to(dtype), gamma, lam),
        lambda dtype: torch.stack(ours(rewards.to(dtype), values.to(dtype), dones, last.to(dtype), gamma, lam)),
    )


def test_gae_has_its_known_values() -> None:
    half, dones = torch.full((1, 3), 0.5), torch.tensor([[False, False, True]])
    advantages, returns = solution("gae").gae(torch.ones(1, 3), half, dones, torch.ones(1), gamma=0.5, lam=0.5)
    assert advantages.tolist() == [[0.96875, 0.875, 0.5]]
    assert returns.tolist() == [[1.46875, 1.375, 1.0]]


def cleanrl_policy(logp: Tensor, old: Tensor, advantages: Tensor, clip: float) -> Tensor:
    """CleanRL's ppo.py, transcribed."""
    ratio = (logp - old).exp()
    return torch.max(-advantages * ratio, -advantages * torch.clamp(ratio, 1 - clip, 1 + clip)).mean()


def cleanrl_value(values: Tensor, old: Tensor, returns: Tensor, clip: float) -> Tensor:
    """The same, with `clip_vloss`."""
    clipped = old + torch.clamp(values - old, -clip, clip)
    return 0.5 * torch.max((values - returns) ** 2, (clipped - returns) ** 2).mean()


@pytest.mark.parametrize(("ours", "theirs"), [("ppo_loss", cleanrl_policy), ("value_loss", cleanrl_value)])
def test_ppos_losses_are_cleanrls(ours: str, theirs: Callable[..., Tensor]) -> None:
    given = normal(4, 9), normal(4, 9) + 0.5 * normal(4, 9, seed=2), normal(4, 9, seed=3)
    mask = integers(3, 4, 9) > 0
    mine = getattr(solution("ppo"), ours)
    agree(
        lambda dtype: theirs(*(x[mask].to(dtype) for x in given), 0.3)[None],
        lambda dtype: mine(*(x.to(dtype) for x in given), mask, 0.3)[None],
    )


@pytest.mark.parametrize(
    ("ratio", "advantage", "loss", "slope"),
    [(1.5, 1.0, -1.2, 0.0), (1.5, -1.0, 1.5, 1.5), (0.5, 1.0, -0.5, -0.5), (0.5, -1.0, 0.8, 0.0)],
)
def test_ppo_has_its_known_values(ratio: float, advantage: float, loss: float, slope: float) -> None:
    logp = torch.tensor([[ratio]], dtype=torch.float64).log().requires_grad_()
    old, ones = torch.zeros_like(logp), torch.ones_like(logp)
    found = solution("ppo").ppo_loss(logp, old, advantage * ones, ones > 0)
    (grad,) = torch.autograd.grad(found, logp)
    assert (round(found.item(), 9), round(grad.item(), 9)) == (loss, slope)


def trl_loss(logp: Tensor, old: Tensor, ref: Tensor, advantages: Tensor, mask: Tensor, loss_type: str) -> Tensor:
    """The loss of TRL's GRPOTrainer, transcribed; epsilon 0.1 and 0.3, beta 0.2, completions of at most 12 tokens."""
    per_token_kl = torch.exp(ref - logp) - (ref - logp) - 1
    coef_1 = torch.exp(logp - old)
    coef_2 = torch.clamp(coef_1, 1 - 0.1, 1 + 0.3)
    per_token_loss = -torch.min(coef_1 * advantages.unsqueeze(1), coef_2 * advantages.unsqueeze(1)) + 0.2 * per_token_kl
    mask = mask.to(logp.dtype)
    if loss_type == "grpo":
        return ((per_token_loss * mask).sum(-1) / mask.sum(-1).clamp(min=1.0)).mean()
    if loss_type == "bnpo":
        return (per_token_loss * mask).sum() / mask.sum().clamp(min=1.0)
    return (per_token_loss * mask).sum() / (per_token_loss.size(0) * 12)


@pytest.mark.parametrize(("loss_type", "aggregate"), [("grpo", "sequence"), ("bnpo", "token"), ("dr_grpo", "constant")])
def test_grpo_is_trls(loss_type: str, aggregate: str) -> None:
    old, ref, advantages = normal(4, 9), normal(4, 9) + 0.7 * normal(4, 9, seed=4), normal(4, seed=3)
    mask = integers(3, 4, 9) > 0
    mask[2] = False
    mine, found = solution("grpo").grpo_loss, []
    for loss in (
        lambda x: trl_loss(x, old, ref, advantages, mask, loss_type),
        lambda x: mine(x, old, ref, advantages, mask, 0.1, 0.3, 0.2, aggregate, 12),
    ):
        logp = (normal(4, 9) + 0.5 * normal(4, 9, seed=2)).requires_grad_()
        found.append((loss(logp), *torch.autograd.grad(loss(logp), logp)))
    for theirs, ours in zip(*found, strict=True):
        assert (theirs - ours).abs().max() < 1e-12


def test_group_advantages_have_their_known_values() -> None:
    found = solution("grpo").group_advantages(torch.tensor([[1.0, 0, 0, 1]]))
    assert torch.allclose(found, 0.8659 * torch.tensor([[1.0, -1, -1, 1]]), atol=1e-4)
