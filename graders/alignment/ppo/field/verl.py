# robust: Bounds: log-ratios are clamped at 20, and bad tokens lose no more than 3 times their advantage (dual clip).
# robust: Padding: it is multiplied by 0, and 0 times nan is nan. Constants: its trainer makes them under no_grad.
"""In the manner of verl's core_algos: maxima of losses, a dual clip, and a masked mean with an epsilon."""

import torch


def masked_mean(values, mask):
    return (values * mask).sum() / (mask.sum() + 1e-8)


def ppo_loss(logp, old_logp, advantages, mask, clip=0.2, clip_ratio_c=3.0):
    negative_approx_kl = torch.clamp(logp - old_logp, min=-20.0, max=20.0)
    ratio = torch.exp(negative_approx_kl)
    pg_losses1 = -advantages * ratio
    pg_losses2 = -advantages * torch.clamp(ratio, 1 - clip, 1 + clip)
    clip_pg_losses1 = torch.maximum(pg_losses1, pg_losses2)
    clip_pg_losses2 = torch.min(-advantages * clip_ratio_c, clip_pg_losses1)
    return masked_mean(torch.where(advantages < 0, clip_pg_losses2, clip_pg_losses1), mask)


def value_loss(values, old_values, returns, mask, clip=0.2):
    vpredclipped = torch.clamp(values, old_values - clip, old_values + clip)
    vf_losses1 = (values - returns) ** 2
    vf_losses2 = (vpredclipped - returns) ** 2
    return 0.5 * masked_mean(torch.max(vf_losses1, vf_losses2), mask)
