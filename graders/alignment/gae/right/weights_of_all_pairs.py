import torch


def gae(rewards, values, dones, last_value, gamma=0.99, lam=0.95):
    """No loop: every later delta of the episode, weighted by its distance."""
    if not (rewards.shape == values.shape == dones.shape and rewards.shape[:1] == last_value.shape):
        raise ValueError(f"shapes {[tuple(x.shape) for x in (rewards, values, dones, last_value)]}")
    if not (0 <= gamma <= 1 and 0 <= lam <= 1):
        raise ValueError(f"{gamma=}, {lam=}")
    x = torch.float64 if rewards.dtype == torch.float64 else torch.float32
    r, v, last = rewards.detach().to(x), values.detach().to(x), last_value.detach().to(x)
    n = r.shape[1]
    following = torch.roll(v, -1, dims=1)
    following[:, -1] = last
    following = torch.where(dones, torch.zeros((), dtype=x, device=r.device), following)
    delta = r + gamma * following - v
    episode = torch.cumsum(dones, 1) - dones.long()
    same = episode.unsqueeze(2) == episode.unsqueeze(1)
    steps = torch.arange(n, device=r.device)
    distance = steps.unsqueeze(0) - steps.unsqueeze(1)
    weight = torch.pow(gamma * lam, distance.clamp(min=0).to(x)).triu()
    advantages = ((weight * same) @ delta.unsqueeze(-1)).squeeze(-1)
    return advantages.to(rewards.dtype), (advantages + v).to(rewards.dtype)
