# Style: packed tokens (boolean indexing) with row numbers and index_add; advantages from pairwise differences.
import torch
from jaxtyping import Bool, Float
from torch import Tensor


def group_advantages(
    rewards: Float[Tensor, "prompts group"], scale: bool = True, eps: float = 1e-4
) -> Float[Tensor, "prompts group"]:
    if len(rewards.shape) != 2:
        raise ValueError(f"expected rewards of two axes, got the shape {tuple(rewards.shape)}")
    r = rewards if rewards.dtype == torch.float64 else rewards.to(torch.float32)
    n = r.shape[1]
    # r_i minus the mean is the mean of r_i - r_j; the variance is half the mean square over pairs i != j
    pairs = r.unsqueeze(2) - r.unsqueeze(1)
    centred = pairs.sum(2) / max(n, 1)
    if not scale:
        return centred.to(rewards.dtype)
    variance = pairs.square().sum((1, 2)).unsqueeze(1) / max(2 * n * (n - 1), 1)
    flat = variance == 0
    deviation = variance.masked_fill(flat, 1.0).sqrt().masked_fill(flat, 0.0)
    divisor = (deviation + eps).masked_fill(flat & (eps == 0), 1.0)
    return (centred / divisor).to(rewards.dtype)


def _complain_unless(fits: bool, text: str) -> None:
    if not fits:
        raise ValueError(text)


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
    _complain_unless(logp.ndim == 2, f"logp of shape {tuple(logp.shape)} does not have two axes")
    n = logp.shape[0]
    wanted = [(old_logp, logp.shape), (ref_logp, logp.shape), (mask, logp.shape), (advantages, (n,))]
    for name, (tensor, shape) in zip(("old_logp", "ref_logp", "mask", "advantages"), wanted):
        if tensor is not None:
            _complain_unless(
                tuple(tensor.shape) == tuple(shape), f"{name}: shape {tuple(tensor.shape)}, wanted {tuple(shape)}"
            )
    _complain_unless(clip_low > 0, f"clip_low={clip_low} is not above 0")
    _complain_unless(clip_high > 0, f"clip_high={clip_high} is not above 0")
    _complain_unless(beta >= 0, f"beta={beta} is negative")
    _complain_unless(beta == 0 or ref_logp is not None, f"beta={beta} needs ref_logp, which is None")
    _complain_unless(aggregate in ("sequence", "token", "constant"), f"aggregate={aggregate!r} is unknown")
    if aggregate == "constant":
        _complain_unless(max_len is not None and max_len >= 1, f"max_len={max_len} is not at least 1")

    dtype = torch.float64 if logp.dtype == torch.float64 else torch.float32
    row, column = mask.nonzero(as_tuple=True)

    def pack(x: Tensor) -> Tensor:
        return x[row, column].to(dtype)

    new = pack(logp)
    ratio = (new - pack(old_logp.detach())).exp()
    a = advantages.detach().to(dtype)[row]
    # max of the negated pair is minus the min; for A < 0 the clip acts from below
    loss = torch.maximum(-a * ratio, -a * ratio.clamp(min=1 - clip_low, max=1 + clip_high))
    if beta != 0:
        x = pack(ref_logp.detach()) - new
        loss = loss + beta * (torch.special.expm1(x) - x)

    if aggregate == "token":
        total = loss.sum() / max(len(loss), 1)
    else:
        sums = loss.new_zeros(n).index_add(0, row, loss)
        if aggregate == "sequence":
            lengths = torch.bincount(row, minlength=n).clamp(min=1)
            total = (sums / lengths).sum() / max(n, 1)
        else:
            total = sums.sum() / (max(n, 1) * max_len)
    return total.to(logp.dtype)
