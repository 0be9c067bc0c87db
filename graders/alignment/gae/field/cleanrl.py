"""CleanRL's ppo.py, whose time is the first axis, whose dones say that a step starts an episode, stored in float32."""

import torch


def gae(rewards, values, dones, last_value, gamma=0.99, lam=0.95):
    with torch.no_grad():
        dtype = rewards.dtype
        rewards, values, ended = (x.float().transpose(0, 1) for x in (rewards, values, dones))
        num_steps = len(rewards)
        dones, next_done = torch.cat([torch.zeros_like(ended[:1]), ended[:-1]]), ended[-1]
        advantages = torch.zeros_like(rewards)
        lastgaelam = 0
        for t in reversed(range(num_steps)):
            if t == num_steps - 1:
                nextnonterminal = 1.0 - next_done
                nextvalues = last_value.float()
            else:
                nextnonterminal = 1.0 - dones[t + 1]
                nextvalues = values[t + 1]
            delta = rewards[t] + gamma * nextvalues * nextnonterminal - values[t]
            advantages[t] = lastgaelam = delta + gamma * lam * nextnonterminal * lastgaelam
        returns = advantages + values
    return advantages.transpose(0, 1).to(dtype), returns.transpose(0, 1).to(dtype)
