from typing import NamedTuple

import torch


class Estimate(NamedTuple):
    advantages: torch.Tensor
    returns: torch.Tensor


def gae(rewards, values, dones, last_value, gamma=0.99, lam=0.95):
    """Returns first, as in Sutton and Barto; advantages are what they are above the values."""
    for number in (gamma, lam):
        if not 0.0 <= number <= 1.0:
            raise ValueError(f"not in [0, 1]: {number}")
    if values.shape != rewards.shape:
        raise ValueError(f"values {list(values.shape)} != rewards {list(rewards.shape)}")
    if dones.shape != rewards.shape:
        raise ValueError(f"dones {list(dones.shape)} != rewards {list(rewards.shape)}")
    if list(last_value.shape) != [rewards.size(0)]:
        raise ValueError(f"last_value {list(last_value.shape)}, batch {rewards.size(0)}")
    with torch.no_grad():
        acc = torch.promote_types(rewards.dtype, torch.float32)
        R = last_value.to(acc)
        nxt = last_value.to(acc)
        out = torch.zeros(rewards.shape, dtype=acc, device=rewards.device)
        for t in range(rewards.size(1) - 1, -1, -1):
            tail = torch.lerp(nxt, R, lam)
            R = rewards[:, t].to(acc) + gamma * tail.masked_fill(dones[:, t], 0.0)
            nxt = values[:, t].to(acc)
            out[:, t] = R
        return Estimate((out - values.to(acc)).to(rewards.dtype), out.to(rewards.dtype))
