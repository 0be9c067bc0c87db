# robust: Bounds: log-ratios are clamped at 20, and bad tokens lose no more than 3 times their advantage (dual clip). A
# reviewer of PPO as published would have neither, since they take the gradient from the tokens that went furthest.
"""In the manner of verl's core_algos: maxima of losses, a dual clip, and a masked mean; what is padded is 0."""

import torch


def masked_mean(values, mask):
    return (values * mask).sum() / mask.sum().clamp(min=1)


def pad_with_zeros(mask, *tensors):
    return (tensor.float().masked_fill(~mask, 0.0) for tensor in tensors)


def ppo_loss(logp, old_logp, advantages, mask, clip=0.2, clip_ratio_c=3.0):
    log_prob, old_log_prob, advantages = pad_with_zeros(mask, logp, old_logp.detach(), advantages.detach())
    negative_approx_kl = torch.clamp(log_prob - old_log_prob, min=-20.0, max=20.0)
    ratio = torch.exp(negative_approx_kl)
    pg_losses1 = -advantages * ratio
    pg_losses2 = -advantages * torch.clamp(ratio, 1 - clip, 1 + clip)
    clip_pg_losses1 = torch.maximum(pg_losses1, pg_losses2)
    clip_pg_losses2 = torch.min(-advantages * clip_ratio_c, clip_pg_losses1)
    pg_losses = torch.where(advantages < 0, clip_pg_losses2, clip_pg_losses1)
    return masked_mean(pg_losses, mask).to(logp.dtype)


def value_loss(values, old_values, returns, mask, clip=0.2):
    vpreds, old_vpreds, returns = pad_with_zeros(mask, values, old_values.detach(), returns.detach())
    vpredclipped = torch.clamp(vpreds, old_vpreds - clip, old_vpreds + clip)
    vf_losses1 = (vpreds - returns) ** 2
    vf_losses2 = (vpredclipped - returns) ** 2
    return (0.5 * masked_mean(torch.max(vf_losses1, vf_losses2), mask)).to(values.dtype)
