"""What `gae` must do. The oracle adds up discounted δ for each step, to the end of its episode, in Python's numbers."""

from __future__ import annotations

import torch
from torch import Tensor

from dojo.contracts import Attempt, Call, Contract, Draw, assert_raises, robust

Pair = tuple[Tensor, Tensor]


def by_definition(
    init: dict, params: dict, rewards: Tensor, values: Tensor, dones: Tensor, last_value: Tensor,
    gamma: float = 0.99, lam: float = 0.95,
) -> Pair:  # fmt: skip
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


def from_the_back(init: dict, params: dict, rewards: Tensor, *more: Tensor, **named: float) -> Pair:
    r, v, goes_on, last, gamma, lam = _wide(rewards, *more, **named)
    found, advantage, after = [], torch.zeros_like(last), last
    for reward, value, on in zip(*(each.unbind(1)[::-1] for each in (r, v, goes_on)), strict=True):
        advantage = reward + gamma * after * on - value + gamma * lam * on * advantage
        after = value
        found.insert(0, advantage)
    advantages = torch.stack(found, 1)
    return advantages.to(rewards.dtype), (advantages + v).to(rewards.dtype)


def from_returns(init: dict, params: dict, rewards: Tensor, *more: Tensor, **named: float) -> Pair:
    r, v, goes_on, last, gamma, lam = _wide(rewards, *more, **named)
    returns, total = torch.empty_like(v), last
    after = torch.cat([v, last[:, None]], 1)[:, 1:]
    for t in range(r.shape[1] - 1, -1, -1):
        total = r[:, t] + gamma * goes_on[:, t] * ((1 - lam) * after[:, t] + lam * total)
        returns[:, t] = total
    return (returns - v).to(rewards.dtype), returns.to(rewards.dtype)


def by_a_matrix(init: dict, params: dict, rewards: Tensor, *more: Tensor, **named: float) -> Pair:
    r, v, goes_on, last, gamma, lam = _wide(rewards, *more, **named)
    delta = (r - v) + gamma * goes_on * torch.cat([v[:, 1:], last[:, None]], 1)
    step, ends = torch.arange(r.shape[1]), (1 - goes_on).cumsum(1)
    far = step - step[:, None]
    same = (ends - (1 - goes_on))[:, None, :] == (ends - (1 - goes_on))[:, :, None]
    weights = torch.where(same & (far >= 0), torch.tensor(gamma * lam, dtype=r.dtype) ** far.clamp_min(0), 0.0)
    advantages = torch.einsum("bts,bs->bt", weights, delta)
    return advantages.to(rewards.dtype), (advantages + v).to(rewards.dtype)


def _wide(
    rewards: Tensor, values: Tensor, dones: Tensor, last_value: Tensor, gamma: float = 0.99, lam: float = 0.95
) -> tuple[Tensor, Tensor, Tensor, Tensor, float, float]:
    wide = torch.promote_types(rewards.dtype, torch.float32)
    return rewards.to(wide), values.to(wide), (~dones).to(wide), last_value.to(wide), gamma, lam


class TestGae(Contract):
    name = "gae"
    oracle = by_definition
    variants = (from_the_back, from_returns, by_a_matrix)
    results = ("advantages", "returns")
    axes = {"advantages": "batch time", "returns": "batch time"}
    constants = ("rewards", "values", "last_value")
    rounded_once = True
    cases = {
        "episodes_end_within": {"gamma": 0.8, "lam": 0.6},
        "no_end": {"ends": (), "gamma": 0.9, "lam": 0.7},
        "an_end_at_the_last_step": {"ends": (-1,), "gamma": 0.9, "lam": 0.7},
        "the_defaults": {},
        "one_step_ahead": {"gamma": 0.9, "lam": 0.0},
        "undiscounted": {"gamma": 1.0, "lam": 1.0},
    }
    more_shapes = {
        "one_row": {"batch": 1, "gamma": 0.9, "lam": 0.7},
        "one_step": {"time": 1, "ends": (), "gamma": 0.9, "lam": 0.7},
        "one_step_that_ends": {"time": 1, "ends": (0,), "gamma": 0.9, "lam": 0.7},
    }
    hard_cases = {
        "ends_in_a_row": {"ends": (1, 2, 3, -1), "gamma": 0.9, "lam": 0.7},
        "no_discount_but_nothing_counts": {"gamma": 0.0, "lam": 1.0},
        "a_long_rollout": {"batch": 2, "time": 257, "ends": (100,)},
        "a_long_rollout_undiscounted": {"batch": 1, "time": 520, "ends": (2,), "gamma": 1.0, "lam": 1.0},
        "a_long_rollout_much_discounted": {"batch": 1, "time": 300, "ends": (100,), "gamma": 0.5, "lam": 0.1},
        "values_of_float32": lambda d: Call(TestGae.call(d).inputs, wide=("values", "last_value")),
    }
    representative = ("episodes_end_within", "the_defaults", "a_long_rollout", "values_of_float32")
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
        return Call(
            {"rewards": d.normal(batch, time), "values": values, "dones": dones, "last_value": last, **settings}
        )

    @robust
    def test_wrong_arguments_are_refused(self, attempt: Attempt, draw: Draw) -> None:
        """Shapes that broadcast give every step the value of another one, and no error."""
        function, call = attempt.gae, self.call(draw)
        rewards, values, dones, last = call.inputs.values()
        wrong = {
            "values": (values[:1], values[0], values[:, :1], torch.cat([values, last[:, None]], 1)),
            "dones": (dones[:1], dones[0], dones[:, -1], torch.cat([dones, dones[:, :1]], 1)),
            "last_value": (last[:, None], last[:1], values),
        }
        for name, others in wrong.items():
            for other in others:
                args = tuple((call.inputs | {name: other}).values())
                shape, sentence = ", ".join(map(str, other.shape)), f"{name} of shape {tuple(other.shape)} is refused"
                held = (f"({shape}", f"[{shape}")
                assert_raises(lambda args=args: function.request(args, {}), held, sentence=sentence)
        for name in ("gamma", "lam"):
            for value in (-0.1, 1.5):
                named, sentence = {name: value}, f"{name}={value} is refused"
                args = rewards, values, dones, last
                assert_raises(lambda a=args, n=named: function.request(a, n), value, sentence=sentence)
