import torch


def _check(a, b, c, mask, clip):
    if not (a.shape == b.shape == c.shape == mask.shape):
        raise ValueError(f"shapes differ: {[tuple(x.shape) for x in (a, b, c, mask)]}")
    if clip <= 0:
        raise ValueError(f"clip must be positive, got {clip}")


def _select(mask, *xs):
    return [x[mask].double() if x.dtype == torch.float64 else x[mask].float() for x in xs]


def ppo_loss(logp, old_logp, advantages, mask, clip=0.2):
    """Padding is thrown away first; then CleanRL's lines."""
    _check(logp, old_logp, advantages, mask, clip)
    newlogprob, b_logprobs, mb_advantages = _select(mask, logp, old_logp.detach(), advantages.detach())
    logratio = newlogprob - b_logprobs
    ratio = logratio.exp()
    pg_loss1 = -mb_advantages * ratio
    pg_loss2 = -mb_advantages * torch.clamp(ratio, 1 - clip, 1 + clip)
    pg_loss = torch.max(pg_loss1, pg_loss2)
    return (pg_loss.sum() / max(pg_loss.numel(), 1)).to(logp.dtype)


def value_loss(values, old_values, returns, mask, clip=0.2):
    _check(values, old_values, returns, mask, clip)
    newvalue, b_values, b_returns = _select(mask, values, old_values.detach(), returns.detach())
    v_loss_unclipped = (newvalue - b_returns) ** 2
    v_clipped = b_values + torch.clamp(newvalue - b_values, -clip, clip)
    v_loss_clipped = (v_clipped - b_returns) ** 2
    v_loss_max = torch.max(v_loss_unclipped, v_loss_clipped)
    return (0.5 * v_loss_max.sum() / max(v_loss_max.numel(), 1)).to(values.dtype)
