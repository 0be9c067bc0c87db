import torch


def group_advantages(rewards, scale=True, eps=1e-4):
    """Sums of squares, and a root that is never asked for 0."""
    if rewards.dim() < 2:
        raise ValueError(f"rewards: {list(rewards.shape)}")
    wide = rewards.double()
    g = wide.shape[-1]
    centred = wide - wide.sum(-1, keepdim=True) / g
    if not scale:
        return centred.to(rewards.dtype)
    squares = torch.einsum("pg,pg->p", centred, centred)[:, None]
    flat = squares == 0
    std = (squares.masked_fill(flat, 1.0) / max(g - 1, 1)).sqrt().masked_fill(flat, 0.0)
    return (centred / (std + eps)).to(rewards.dtype)


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
    """Kept tokens in one row, as packed training has them, each with its weight."""
    n, seq = logp.shape
    given = [old_logp, mask] + ([ref_logp] if ref_logp is not None else [])
    if any(x.shape != logp.shape for x in given) or advantages.shape != (n,):
        raise ValueError(f"logp {(n, seq)}, others {[tuple(x.shape) for x in given]}, {tuple(advantages.shape)}")
    if min(clip_low, clip_high) <= 0 or beta < 0:
        raise ValueError(f"{clip_low=} {clip_high=} {beta=}")
    if ref_logp is None and beta > 0:
        raise ValueError(f"{ref_logp=} {beta=}")
    where, column = mask.nonzero(as_tuple=True)
    lengths = mask.sum(1)
    if aggregate == "sequence":
        weight = 1.0 / (n * lengths[where])
    elif aggregate == "token":
        weight = torch.full_like(where, 1.0, dtype=torch.float64) / max(len(where), 1)
    elif aggregate == "constant":
        if max_len is None or max_len < 1:
            raise ValueError(f"{max_len=}")
        weight = torch.full_like(where, 1.0, dtype=torch.float64) / (n * max_len)
    else:
        raise ValueError(f"{aggregate=}")
    acc = torch.float64 if logp.dtype == torch.float64 else torch.float32
    new, old = logp[where, column].to(acc), old_logp.detach()[where, column].to(acc)
    a = advantages.detach()[where].to(acc)
    ratio = torch.exp(new - old)
    bounded = torch.where(a > 0, ratio.clamp(max=1 + clip_high), ratio.clamp(min=1 - clip_low))
    loss = -bounded * a
    if beta > 0:
        x = ref_logp.detach()[where, column].to(acc) - new
        loss = loss + beta * (torch.expm1(x) - x)
    return torch.dot(loss, weight.to(acc)).to(logp.dtype)
