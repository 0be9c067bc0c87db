# robust: Padding: it is multiplied by 0, and 0 times nan is nan; Constants: the trainer makes them under no_grad.
"""In the manner of TRL's GRPOTrainer: float32 log-probabilities, a float mask, and a loss type."""

import torch


def group_advantages(rewards, scale=True, eps=1e-4):
    with torch.no_grad():
        mean_grouped_rewards = rewards.mean(dim=1, keepdim=True)
        advantages = rewards - mean_grouped_rewards
        if scale:
            std_rewards = rewards.std(dim=1, keepdim=True)
            advantages = advantages / (std_rewards + eps)
    return advantages


def grpo_loss(
    logp, old_logp, ref_logp, advantages, mask,
    clip_low=0.2, clip_high=0.2, beta=0.04, aggregate="sequence", max_len=None,
):  # fmt: skip
    completion_mask = mask.to(logp.dtype)
    coef_1 = torch.exp(logp - old_logp)
    coef_2 = torch.clamp(coef_1, 1 - clip_low, 1 + clip_high)
    per_token_loss = -torch.min(coef_1 * advantages.unsqueeze(1), coef_2 * advantages.unsqueeze(1))
    if beta != 0.0:
        per_token_kl = torch.exp(ref_logp - logp) - (ref_logp - logp) - 1
        per_token_loss = per_token_loss + beta * per_token_kl
    if aggregate == "sequence":
        loss = ((per_token_loss * completion_mask).sum(-1) / completion_mask.sum(-1).clamp(min=1.0)).mean()
    elif aggregate == "token":
        loss = (per_token_loss * completion_mask).sum() / completion_mask.sum().clamp(min=1.0)
    elif aggregate == "constant":
        loss = (per_token_loss * completion_mask).sum() / (per_token_loss.size(0) * max_len)
    else:
        raise ValueError(f"Unknown loss type: {aggregate}")
    return loss
