import torch


@torch.no_grad()
def gae(rewards, values, dones, last_value, gamma=0.99, lam=0.95):
    """The loop of TRL and OpenAI's summarisation code, with ends of episodes as in CleanRL."""
    if rewards.shape != values.shape or rewards.shape != dones.shape or last_value.shape != rewards.shape[:1]:
        raise ValueError(
            f"rewards {tuple(rewards.shape)}, values {tuple(values.shape)}, dones {tuple(dones.shape)}, "
            f"last_value {tuple(last_value.shape)}"
        )
    if gamma < 0 or gamma > 1 or lam < 0 or lam > 1:
        raise ValueError(f"gamma {gamma} and lam {lam} must be within 0 and 1")
    dtype = rewards.dtype
    if dtype != torch.float64:
        rewards, values, last_value = rewards.float(), values.float(), last_value.float()
    lastgaelam = 0
    advantages_reversed = []
    gen_len = rewards.shape[1]
    for t in reversed(range(gen_len)):
        nextnonterminal = 1.0 - dones[:, t].to(rewards.dtype)
        nextvalues = values[:, t + 1] if t < gen_len - 1 else last_value
        delta = rewards[:, t] + gamma * nextvalues * nextnonterminal - values[:, t]
        lastgaelam = delta + gamma * lam * nextnonterminal * lastgaelam
        advantages_reversed.append(lastgaelam)
    advantages = torch.stack(advantages_reversed[::-1], dim=1)
    returns = advantages + values
    return advantages.to(dtype), returns.to(dtype)
