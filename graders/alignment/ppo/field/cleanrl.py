# robust: Padding: a batch of games has none, so that the mask is a factor; Constants: rollouts were made under no_grad.
"""CleanRL's ppo.py, with a mask where it takes a mean."""

import torch


def ppo_loss(logp, old_logp, advantages, mask, clip=0.2):
    logratio = logp - old_logp
    ratio = logratio.exp()
    pg_loss1 = -advantages * ratio
    pg_loss2 = -advantages * torch.clamp(ratio, 1 - clip, 1 + clip)
    return torch.max(pg_loss1, pg_loss2)[mask].mean()


def value_loss(values, old_values, returns, mask, clip=0.2):
    v_loss_unclipped = (values - returns) ** 2
    v_clipped = old_values + torch.clamp(values - old_values, -clip, clip)
    v_loss_clipped = (v_clipped - returns) ** 2
    v_loss_max = torch.max(v_loss_unclipped, v_loss_clipped)
    return 0.5 * v_loss_max[mask].mean()
