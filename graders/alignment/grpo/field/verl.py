# robust: Bounds: log-ratios are clamped at 20, k3 at 10, and the loss of bad tokens at a ratio of 3 (dual clip).
# robust: Deviation: rewards are NumPy's, as in GRPO-Zero and nanoAhaMoment, whose deviation is biased.
# robust: Padding: a sequence without tokens is 0/0, and nan times 0 is nan. Errors: an assertion.
"""In the manner of verl: advantages of arrays, a dual clip, a clamped k3, and a choice of means over a matrix."""

import torch


def group_advantages(rewards, scale=True, eps=1e-4):
    centered = rewards - rewards.mean(dim=-1, keepdim=True)
    return centered / (rewards.std(dim=-1, keepdim=True, correction=0) + eps) if scale else centered


def agg_loss(loss_mat, loss_mask, mode, max_len):
    if mode == "token":
        return (loss_mat * loss_mask).sum() / (loss_mask.sum() + 1e-8)
    if mode == "sequence":
        return torch.mean(torch.sum(loss_mat * loss_mask, dim=-1) / torch.sum(loss_mask, dim=-1))
    assert mode == "constant"
    return torch.sum(loss_mat * loss_mask) / (len(loss_mask) * max_len)


def grpo_loss(
    logp, old_logp, ref_logp, advantages, mask,
    clip_low=0.2, clip_high=0.2, beta=0.04, aggregate="sequence", max_len=None, clip_ratio_c=3.0,
):  # fmt: skip
    advantages = advantages.unsqueeze(-1).expand_as(logp)
    ratio = torch.exp(torch.clamp(logp - old_logp, min=-20.0, max=20.0))
    pg_losses1 = -advantages * ratio
    pg_losses2 = -advantages * torch.clamp(ratio, 1 - clip_low, 1 + clip_high)
    clip_pg_losses1 = torch.maximum(pg_losses1, pg_losses2)
    clip_pg_losses2 = torch.min(-advantages * clip_ratio_c, clip_pg_losses1)
    losses = torch.where(advantages < 0, clip_pg_losses2, clip_pg_losses1)
    loss = agg_loss(losses, mask, aggregate, max_len)
    if beta:
        kl = torch.clamp(ref_logp - logp, min=-20, max=20)
        low_var_kl = torch.clamp(torch.exp(kl) - kl - 1, min=-10, max=10)
        loss = loss + beta * agg_loss(low_var_kl, mask, aggregate, max_len)
    return loss
