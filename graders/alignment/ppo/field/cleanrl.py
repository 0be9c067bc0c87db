"""CleanRL's ppo.py, where the mask takes the minibatch, in float32; rollouts are constants."""

import torch


def minibatch(mask, new, *rollout):
    return new[mask].float(), *(b[mask].detach().float() for b in rollout)


def ppo_loss(logp, old_logp, advantages, mask, clip=0.2):
    newlogprob, mb_logprobs, mb_advantages = minibatch(mask, logp, old_logp, advantages)
    logratio = newlogprob - mb_logprobs
    ratio = logratio.exp()
    pg_loss1 = -mb_advantages * ratio
    pg_loss2 = -mb_advantages * torch.clamp(ratio, 1 - clip, 1 + clip)
    pg_loss = torch.max(pg_loss1, pg_loss2).sum() / max(ratio.numel(), 1)
    return pg_loss.to(logp.dtype)


def value_loss(values, old_values, returns, mask, clip=0.2):
    newvalue, mb_values, mb_returns = minibatch(mask, values, old_values, returns)
    v_loss_unclipped = (newvalue - mb_returns) ** 2
    v_clipped = mb_values + torch.clamp(newvalue - mb_values, -clip, clip)
    v_loss_clipped = (v_clipped - mb_returns) ** 2
    v_loss = 0.5 * torch.max(v_loss_unclipped, v_loss_clipped).sum() / max(newvalue.numel(), 1)
    return v_loss.to(values.dtype)
