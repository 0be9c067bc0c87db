# Style: TRL-like; inputs cleaned by where, per-token losses, masked sums at the end.
import torch
from jaxtyping import Bool, Float
from torch import Tensor


def _full(x: Tensor) -> Tensor:
    return x if x.dtype == torch.float64 else x.float()


def group_advantages(
    rewards: Float[Tensor, "prompts group"], scale: bool = True, eps: float = 1e-4
) -> Float[Tensor, "prompts group"]:
    if rewards.dim() != 2:
        raise ValueError(f"rewards must have shape (prompts, group), got {tuple(rewards.shape)}")
    r = _full(rewards)
    r = r - r[:, :1].detach()  # equal rewards become exact zeros; neither mean nor deviation sees it
    centred = r - r.mean(dim=1, keepdim=True)
    if not scale:
        return centred.to(rewards.dtype)
    var = centred.square().sum(dim=1, keepdim=True) / max(r.shape[1] - 1, 1)
    positive = var > 0
    std = torch.where(positive, torch.where(positive, var, 1.0).sqrt(), 0.0)
    bottom = std + eps
    bottom = torch.where(bottom == 0, 1.0, bottom)
    return (centred / bottom).to(rewards.dtype)


def grpo_loss(
    logp: Float[Tensor, "n seq"],
    old_logp: Float[Tensor, "n seq"],
    ref_logp: Float[Tensor, "n seq"] | None,
    advantages: Float[Tensor, "n"],
    mask: Bool[Tensor, "n seq"],
    clip_low: float = 0.2,
    clip_high: float = 0.2,
    beta: float = 0.04,
    aggregate: str = "sequence",
    max_len: int | None = None,
) -> Float[Tensor, ""]:
    shape = tuple(logp.shape)
    if len(shape) != 2:
        raise ValueError(f"logp must have shape (n, seq), got {shape}")
    for name, other in (("old_logp", old_logp), ("ref_logp", ref_logp), ("mask", mask)):
        if other is not None and tuple(other.shape) != shape:
            raise ValueError(f"{name} has shape {tuple(other.shape)}, logp has {shape}")
    if tuple(advantages.shape) != shape[:1]:
        raise ValueError(f"advantages have shape {tuple(advantages.shape)}, logp has {shape}")
    if not clip_low > 0 or not clip_high > 0:
        raise ValueError(f"clips must be above 0, got clip_low={clip_low}, clip_high={clip_high}")
    if not beta >= 0:
        raise ValueError(f"beta must not be negative, got {beta}")
    if beta > 0 and ref_logp is None:
        raise ValueError(f"ref_logp is None, but beta={beta} is above 0")
    if aggregate not in ("sequence", "token", "constant"):
        raise ValueError(f"aggregate must be 'sequence', 'token' or 'constant', got {aggregate!r}")
    if aggregate == "constant" and (max_len is None or max_len < 1):
        raise ValueError(f"aggregate='constant' needs max_len of at least 1, got {max_len}")

    mask = mask.bool()

    def clean(x: Tensor) -> Tensor:
        return _full(torch.where(mask, x, torch.zeros_like(x)))

    policy = clean(logp)
    advantage = _full(advantages.detach()).to(policy.dtype).unsqueeze(1)
    ratio = torch.exp(policy - clean(old_logp.detach()).to(policy.dtype))
    clipped = ratio.clamp(1 - clip_low, 1 + clip_high)
    loss = -torch.min(ratio * advantage, clipped * advantage)
    if beta > 0:
        x = clean(ref_logp.detach()).to(policy.dtype) - policy
        loss = loss + beta * (torch.expm1(x) - x)
    loss = torch.where(mask, loss, 0.0)

    if aggregate == "sequence":
        means = loss.sum(dim=1) / mask.sum(dim=1).clamp(min=1)
        result = means.sum() / max(shape[0], 1)
    elif aggregate == "token":
        result = loss.sum() / mask.sum().clamp(min=1)
    else:
        result = loss.sum() / max(shape[0] * max_len, 1)
    return result.to(logp.dtype)
