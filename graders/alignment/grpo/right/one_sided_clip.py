# Style: a config object; one-sided clip of log ratios by the sign of the advantage; a weight for each token, summed once.
import math
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor


def _compute_dtype(x: Tensor) -> torch.dtype:
    return torch.promote_types(x.dtype, torch.float32)


def group_advantages(
    rewards: Float[Tensor, "prompts group"], scale: bool = True, eps: float = 1e-4
) -> Float[Tensor, "prompts group"]:
    if rewards.ndim != 2:
        raise ValueError(f"rewards need the axes (prompts, group), their shape is {tuple(rewards.shape)}")
    group = rewards.shape[1]
    r = rewards.to(_compute_dtype(rewards))
    offset = r.detach().narrow(1, 0, min(1, group))
    away = r - offset  # exactly 0 for equal rewards
    away = away - away.sum(1, keepdim=True) / max(group, 1)
    if scale:
        # The norm has the gradient 0 at 0, where sqrt has none
        std = torch.linalg.vector_norm(away, dim=1, keepdim=True) / math.sqrt(max(group - 1, 1))
        divisor = std + eps
        away = away / divisor.masked_fill(divisor == 0, 1.0)
    return away.to(rewards.dtype)


@dataclass(frozen=True)
class _Objective:
    clip_low: float
    clip_high: float
    beta: float
    aggregate: str
    max_len: int | None

    def __post_init__(self):
        for name in ("clip_low", "clip_high"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} is {getattr(self, name)}, but must be above 0")
        if not self.beta >= 0:
            raise ValueError(f"beta is {self.beta}, but must not be negative")
        if self.aggregate not in ("sequence", "token", "constant"):
            raise ValueError(f"unknown aggregate: {self.aggregate!r}")
        if self.aggregate == "constant" and (self.max_len is None or self.max_len < 1):
            raise ValueError(f"max_len is {self.max_len}, but 'constant' needs at least 1")

    def policy_loss(self, log_ratio: Tensor, advantage: Tensor) -> Tensor:
        # A gain is bounded above, a harm below: only one side of the clip ever wins the minimum
        low = math.log1p(-self.clip_low) if self.clip_low < 1 else -math.inf
        high = math.log1p(self.clip_high)
        bounded = torch.where(advantage >= 0, log_ratio.clamp(max=high), log_ratio.clamp(min=low))
        return -advantage * bounded.exp()

    def penalty(self, x: Tensor) -> Tensor:
        return self.beta * (x.expm1() - x)

    def weights(self, mask: Tensor, dtype: torch.dtype) -> Tensor:
        n = max(mask.shape[0], 1)
        kept = mask.to(dtype)
        if self.aggregate == "sequence":
            return kept / kept.sum(1, keepdim=True).clamp(min=1) / n
        if self.aggregate == "token":
            return kept / mask.sum().clamp(min=1)
        return kept / (n * self.max_len)


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
    objective = _Objective(clip_low, clip_high, beta, aggregate, max_len)
    if beta > 0 and ref_logp is None:
        raise ValueError(f"beta is {beta}, but ref_logp is None")
    shapes = {"logp": logp.shape, "old_logp": old_logp.shape, "mask": mask.shape, "advantages": advantages.shape}
    if ref_logp is not None:
        shapes["ref_logp"] = ref_logp.shape
    fits = logp.ndim == 2 and all(
        shape == (logp.shape[:1] if name == "advantages" else logp.shape) for name, shape in shapes.items()
    )
    if not fits:
        raise ValueError(f"shapes do not fit: { {name: tuple(shape) for name, shape in shapes.items()} }")

    dtype = _compute_dtype(logp)
    kept = mask.to(torch.bool)
    new, old = (x.to(dtype).masked_fill(~kept, 0.0) for x in (logp, old_logp.detach()))
    loss = objective.policy_loss(new - old, advantages.detach().to(dtype)[:, None])
    if beta > 0:
        reference = ref_logp.detach().to(dtype).masked_fill(~kept, 0.0)
        loss = loss + objective.penalty(reference - new)
    return (loss * objective.weights(kept, dtype)).sum().to(logp.dtype)
