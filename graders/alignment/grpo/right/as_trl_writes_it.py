import torch


def group_advantages(rewards, scale=True, eps=1e-4):
    if rewards.ndim != 2:
        raise ValueError(f"expected (prompts, group), got {tuple(rewards.shape)}")
    dtype = rewards.dtype
    rewards = rewards if dtype == torch.float64 else rewards.float()
    mean_grouped_rewards = rewards.mean(dim=1, keepdim=True)
    advantages = rewards - mean_grouped_rewards
    if scale:
        std = rewards.std(dim=1, keepdim=True) if rewards.size(1) > 1 else torch.zeros_like(mean_grouped_rewards)
        advantages = advantages / (std + eps)
    return advantages.to(dtype)


def grpo_loss(
    logp,
    old_logp,
    ref_logp,
    advantages,
    mask,
    clip_low=0.2,
    clip_high=0.2,
    beta=0.04,
    aggregate="sequence",
    max_len=None,
):
    """TRL's _compute_loss, with padding filled in before anything else."""
    loss_types = {"sequence": "grpo", "token": "bnpo", "constant": "dr_grpo"}
    if aggregate not in loss_types:
        raise ValueError(f"Unknown loss type: {aggregate}")
    if aggregate == "constant" and not (max_len and max_len > 0):
        raise ValueError(f"max_len must be a positive number, got {max_len}")
    if beta < 0 or clip_low <= 0 or clip_high <= 0:
        raise ValueError(f"beta {beta}, clip_low {clip_low}, clip_high {clip_high}")
    if beta and ref_logp is None:
        raise ValueError(f"ref_logp is None but beta is {beta}")
    for x in (old_logp, mask) if ref_logp is None else (old_logp, ref_logp, mask):
        if x.shape != logp.shape:
            raise ValueError(f"{tuple(x.shape)} does not match {tuple(logp.shape)}")
    if advantages.shape != logp.shape[:1]:
        raise ValueError(f"advantages {tuple(advantages.shape)} for logp {tuple(logp.shape)}")
    dtype = torch.promote_types(logp.dtype, torch.float32)
    per_token_logps = logp.masked_fill(~mask, 0).to(dtype)
    old_per_token_logps = old_logp.detach().masked_fill(~mask, 0).to(dtype)
    advantages = advantages.detach().to(dtype).unsqueeze(1)
    completion_mask = mask.to(dtype)
    coef_1 = torch.exp(per_token_logps - old_per_token_logps)
    coef_2 = torch.clamp(coef_1, 1 - clip_low, 1 + clip_high)
    per_token_loss = -torch.min(coef_1 * advantages, coef_2 * advantages)
    if beta != 0.0:
        ref_per_token_logps = ref_logp.detach().masked_fill(~mask, 0).to(dtype)
        diff = ref_per_token_logps - per_token_logps
        per_token_loss = per_token_loss + beta * (torch.exp(diff) - diff - 1)
    loss_type = loss_types[aggregate]
    if loss_type == "grpo":
        loss = ((per_token_loss * completion_mask).sum(-1) / completion_mask.sum(-1).clamp(min=1.0)).mean()
    elif loss_type == "bnpo":
        loss = (per_token_loss * completion_mask).sum() / completion_mask.sum().clamp(min=1.0)
    else:
        loss = (per_token_loss * completion_mask).sum() / (per_token_loss.size(0) * max_len)
    return loss.to(logp.dtype)
