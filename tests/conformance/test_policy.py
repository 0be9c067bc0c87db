"""The losses of policy gradients against what the libraries compute, and their known values.

TRL, Stable-Baselines3 and CleanRL are not installed for the tests: their formulas are transcribed.
"""

from __future__ import annotations

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
