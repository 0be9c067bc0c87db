"""In the manner of TRL and verl: under no_grad and in float32, from the last step, into a list that is reversed."""

import torch


@torch.no_grad()
def gae(rewards, values, dones, last_value, gamma=0.99, lam=0.95):
    dtype = rewards.dtype
    rewards, values, last_value = rewards.float(), values.float(), last_value.float()
    lastgaelam = 0
    advantages_reversed = []
    gen_length = rewards.shape[1]
    nonterminal = ~dones
    for t in reversed(range(gen_length)):
        nextvalues = values[:, t + 1] if t < gen_length - 1 else last_value
        delta = rewards[:, t] + gamma * nextvalues * nonterminal[:, t] - values[:, t]
        lastgaelam = delta + gamma * lam * nonterminal[:, t] * lastgaelam
        advantages_reversed.append(lastgaelam)
    advantages = torch.stack(advantages_reversed[::-1], dim=1)
    returns = advantages + values
    return advantages.to(dtype), returns.to(dtype)
