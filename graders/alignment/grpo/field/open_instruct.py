"""In the manner of Open Instruct: INVALID_LOGPROB where padded, maxima of losses, and k3 by expm1."""

import torch

INVALID_LOGPROB = 1.0


def group_advantages(rewards, scale=True, eps=1e-4):
    scores_per_prompt = rewards.float()
    std_grouped_rewards, mean_grouped_rewards = torch.std_mean(scores_per_prompt, dim=-1, keepdim=True)
    advantages = scores_per_prompt - mean_grouped_rewards
    return (advantages / (std_grouped_rewards + eps) if scale else advantages).type_as(rewards)


def masked_mean(values, mask, axis=None, denominator=None):
    numerator = (values * mask).sum(axis)
    return (numerator / (mask.sum(axis).clamp(min=1) if denominator is None else denominator)).mean()


def grpo_loss(
    logp, old_logp, ref_logp, advantages, mask,
    clip_low=0.2, clip_high=0.2, beta=0.04, aggregate="sequence", max_len=None,
):  # fmt: skip
    if aggregate not in ("sequence", "token", "constant"):
        raise ValueError(f"Invalid aggregate: {aggregate}. Must be 'sequence', 'token' or 'constant'")
    new_logprobs = torch.masked_fill(logp.float(), ~mask, INVALID_LOGPROB)
    old_logprobs = torch.masked_fill(old_logp.detach().float(), ~mask, INVALID_LOGPROB)
    advantages = advantages.detach().float()[:, None]
    ratio = torch.exp(new_logprobs - old_logprobs)
    pg_losses = -advantages * ratio
    pg_losses2 = -advantages * torch.clamp(ratio, 1.0 - clip_low, 1.0 + clip_high)
    loss = torch.max(pg_losses, pg_losses2)
    if beta:
        ref_logprobs = torch.masked_fill(ref_logp.detach().float(), ~mask, INVALID_LOGPROB)
        ref_logprobs_diff = new_logprobs - ref_logprobs
        loss = loss + beta * (torch.expm1(-ref_logprobs_diff) + ref_logprobs_diff)
    axis = 1 if aggregate == "sequence" else None
    return masked_mean(loss, mask, axis, len(mask) * max_len if aggregate == "constant" else None).type_as(logp)
