"""In the manner of TRL's GRPOTrainer: float32 log-probabilities, a float mask, and a loss type."""

import torch


def group_advantages(rewards, scale=True, eps=1e-4):
    with torch.no_grad():
        grouped_rewards = rewards.float()
        mean_grouped_rewards = grouped_rewards.mean(dim=1, keepdim=True)
        advantages = grouped_rewards - mean_grouped_rewards
        if scale:
            std_rewards = grouped_rewards.std(dim=1, keepdim=True)
            advantages = advantages / (std_rewards + eps)
    return advantages.to(rewards.dtype)


def grpo_loss(
    logp, old_logp, ref_logp, advantages, mask,
    clip_low=0.2, clip_high=0.2, beta=0.04, aggregate="sequence", max_len=None,
):  # fmt: skip
    per_token_logps, completion_mask = logp.float(), mask.float()
    advantages = advantages.detach().float().unsqueeze(1)
    log_ratio = (per_token_logps - old_logp.detach()).masked_fill(~mask, 0.0)  # padding may hold nan
    coef_1 = torch.exp(log_ratio)
    coef_2 = torch.clamp(coef_1, 1 - clip_low, 1 + clip_high)
    per_token_loss = -torch.min(coef_1 * advantages, coef_2 * advantages)
    if beta != 0.0:
        ref_log_ratio = (ref_logp.detach() - per_token_logps).masked_fill(~mask, 0.0)
        per_token_kl = torch.exp(ref_log_ratio) - ref_log_ratio - 1
        per_token_loss = per_token_loss + beta * per_token_kl
    if aggregate == "sequence":
        loss = ((per_token_loss * completion_mask).sum(-1) / completion_mask.sum(-1).clamp(min=1.0)).mean()
    elif aggregate == "token":
        loss = (per_token_loss * completion_mask).sum() / completion_mask.sum().clamp(min=1.0)
    elif aggregate == "constant":
        loss = (per_token_loss * completion_mask).sum() / (per_token_loss.size(0) * max_len)
    else:
        raise ValueError(f"Unknown loss type: {aggregate}")
    return loss.to(logp.dtype)
