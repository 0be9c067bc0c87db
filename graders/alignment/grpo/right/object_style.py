from dataclasses import dataclass

import torch


def group_advantages(rewards, scale=True, eps=1e-4):
    match tuple(rewards.shape):
        case (_, group):
            pass
        case other:
            raise ValueError(f"two axes are needed, not {other}")
    x = rewards.to(torch.promote_types(rewards.dtype, torch.float32))
    std, mean = torch.std_mean(x, dim=1, correction=1 if group > 1 else 0, keepdim=True)
    out = torch.addcmul(x, mean, torch.ones_like(mean), value=-1)
    return (out / std.add(eps) if scale else out).to(rewards.dtype)


@dataclass
class Loss:
    low: float
    high: float
    beta: float
    kind: str
    longest: int | None

    def __post_init__(self):
        assert_(self.low > 0 and self.high > 0, f"clips must be positive: {self.low}, {self.high}")
        assert_(self.beta >= 0, f"negative beta {self.beta}")
        assert_(hasattr(self, "by_" + str(self.kind)), f"no such aggregate: {self.kind}")
        if self.kind == "constant":
            assert_(self.longest is not None and self.longest >= 1, f"max_len {self.longest}")

    def by_sequence(self, loss, mask):
        count = mask.sum(1)
        return torch.where(count > 0, loss.sum(1) / count.clamp(min=1), 0.0).sum() / len(mask)

    def by_token(self, loss, mask):
        return loss.sum() / mask.sum().clamp(min=1)

    def by_constant(self, loss, mask):
        return loss.sum() / mask.shape[0] / self.longest

    def __call__(self, new, old, ref, advantage, mask):
        ratio = (new - old).exp()
        bounded = torch.min(
            torch.max(ratio, torch.full_like(ratio, 1 - self.low)), torch.full_like(ratio, 1 + self.high)
        )
        loss = torch.maximum(-advantage * ratio, -advantage * bounded)
        if self.beta:
            ratio_to_ref = (ref - new).exp()
            loss = loss + self.beta * (ratio_to_ref - (ref - new) - 1)
        return getattr(self, "by_" + self.kind)(loss.masked_fill(~mask, 0), mask)


def assert_(fine, told):
    if not fine:
        raise ValueError(told)


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
    loss = Loss(clip_low, clip_high, beta, aggregate, max_len)
    assert_(beta == 0 or ref_logp is not None, f"beta {beta} without ref_logp")
    for x in (old_logp, old_logp if ref_logp is None else ref_logp, mask):
        assert_(x.shape == logp.shape, f"{x.shape} is not {logp.shape}".replace("torch.Size", ""))
    assert_(advantages.shape == logp.shape[:1], f"advantages: {tuple(advantages.shape)}")
    wide = torch.promote_types(logp.dtype, torch.float32)
    zero = torch.zeros((), dtype=wide, device=logp.device)
    new = torch.where(mask, logp.to(wide), zero)
    old = torch.where(mask, old_logp.detach().to(wide), zero)
    ref = zero if ref_logp is None else torch.where(mask, ref_logp.detach().to(wide), zero)
    return loss(new, old, ref, advantages.detach().to(wide).view(-1, 1), mask).to(logp.dtype)
