"""What `gae` must do. The oracle adds up discounted δ for each step, to the end of its episode, in Python's numbers."""

from __future__ import annotations

import torch
from torch import Tensor

from dojo.contracts import Call, Draw, RoundedOnceContract

Pair = tuple[Tensor, Tensor]


def by_definition(rewards: Tensor, values: Tensor, dones: Tensor, last_value: Tensor, gamma: float, lam: float) -> Pair:
    found = []
    for r, v, d, last in zip(*(each.tolist() for each in (rewards, values, dones, last_value)), strict=True):
        v, row = [*v, last], []
        for start in range(len(r)):
            total = 0.0
            for t in range(start, len(r)):
                total += (gamma * lam) ** (t - start) * (r[t] - v[t] + (0.0 if d[t] else gamma * v[t + 1]))
                if d[t]:
                    break
            row.append(total)
        found.append(row)
    advantages = torch.tensor(found, dtype=rewards.dtype)
    return advantages, advantages + values


def from_the_back(rewards: Tensor, values: Tensor, dones: Tensor, last_value: Tensor, gamma: float, lam: float) -> Pair:
    found, advantage, after = [], torch.zeros_like(last_value), last_value
    for reward, value, done in zip(*(each.unbind(1)[::-1] for each in (rewards, values, dones)), strict=True):
        advantage = reward + gamma * after * ~done - value + gamma * lam * ~done * advantage
        after = value
        found.insert(0, advantage)
    advantages = torch.stack(found, 1)
    return advantages, advantages + values


def from_returns(rewards: Tensor, values: Tensor, dones: Tensor, last_value: Tensor, gamma: float, lam: float) -> Pair:
    returns, total = torch.empty_like(values), last_value
    after = torch.cat([values, last_value[:, None]], 1)[:, 1:]
    for t in range(rewards.shape[1] - 1, -1, -1):
        total = rewards[:, t] + gamma * ~dones[:, t] * ((1 - lam) * after[:, t] + lam * total)
        returns[:, t] = total
    return returns - values, returns


def by_a_matrix(rewards: Tensor, values: Tensor, dones: Tensor, last_value: Tensor, gamma: float, lam: float) -> Pair:
    delta = (rewards - values) + gamma * ~dones * torch.cat([values[:, 1:], last_value[:, None]], 1)
    step, before = torch.arange(rewards.shape[1]), dones.cumsum(1) - dones.long()  # ends before each step
    far, same = step - step[:, None], before[:, None, :] == before[:, :, None]
    weights = torch.where(same & (far >= 0), torch.tensor(gamma * lam, dtype=rewards.dtype) ** far.clamp_min(0), 0.0)
    advantages = torch.einsum("bts,bs->bt", weights, delta)
    return advantages, advantages + values


class TestGae(RoundedOnceContract):
    name = "gae"
    oracle = by_definition
    variants = (from_the_back, from_returns, by_a_matrix)
    results = ("advantages", "returns")
    axes = {"advantages": "batch time", "returns": "batch time"}
    constants = ("rewards", "values", "last_value")
    holds = {
        "Ends": ("test_values_match",),
        "No graph": ("test_constants",),
        "Long rollouts": ("test_hard_cases",),
        "Cost": ("test_operation_count",),
    }
    cases = {
        "episodes_end_within": {"gamma": 0.8, "lam": 0.6},
        "no_end": {"ends": (), "gamma": 0.9, "lam": 0.7},
        "ends_in_a_row": {"ends": (1, 2, 3, -1), "gamma": 0.9, "lam": 0.7},
        "the_defaults": {},
        "one_step_ahead": {"gamma": 0.9, "lam": 0.0},
        "undiscounted": {"gamma": 1.0, "lam": 1.0},
    }
    more_shapes = {"one_row": {"batch": 1}, "one_step": {"time": 1, "ends": ()}, "its_end": {"time": 1, "ends": (0,)}}
    hard_cases = {"a_long_rollout": {"batch": 1, "time": 300, "ends": (100,), "gamma": 0.9, "lam": 0.5}}
    representative = ("episodes_end_within", "the_defaults", "a_long_rollout")
    near_300 = {"offset": 300.0, "gamma": 0.0}  # the return is the reward, the advantage 300 below it
    grows = {"the batch": "batch"}
    timed = {"batch": 32, "time": 192}
    time_limit = 40.0

    @classmethod
    def call(
        cls, d: Draw, batch: int = 3, time: int = 7, ends: tuple[int, ...] = (2, 4), offset: float = 0.0,
        **settings: float,
    ) -> Call:  # fmt: skip
        """Normal rewards and values. The steps `ends` end an episode, in the second row others than in the rest."""
        dones = torch.zeros(batch, time, dtype=torch.bool)
        for end in ends:
            dones[:, end] = True
            if batch > 1 and end >= 0:
                dones[1] = dones[1].roll(1)
        values, last = offset + d.normal(batch, time, scale=2.0), offset + d.normal(batch, scale=2.0)
        given = {"rewards": d.normal(batch, time), "values": values, "dones": dones, "last_value": last}
        return Call(given | settings)
