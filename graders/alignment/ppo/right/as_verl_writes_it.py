import torch


def masked_mean(values, mask):
    s = torch.where(mask, values, torch.zeros_like(values)).sum()
    return s / torch.clamp(mask.sum(), min=1).to(values.dtype)


def clip_by_value(x, tensor_min, tensor_max):
    return torch.max(torch.min(x, tensor_max), tensor_min)


def prepare(mask, live, *fixed):
    for x in (*fixed, mask):
        if x.shape != live.shape:
            raise ValueError(f"got {tuple(x.shape)}, expected {tuple(live.shape)}")
    dtype = torch.float64 if live.dtype is torch.float64 else torch.float32
    return [x.masked_fill(~mask, 0).to(dtype) for x in (live, *(each.detach() for each in fixed))]


def ppo_loss(logp, old_logp, advantages, mask, clip=0.2):
    if not clip > 0:
        raise ValueError("clip_ratio = %r" % clip)
    log_prob, old_log_prob, adv = prepare(mask, logp, old_logp, advantages)
    negative_approx_kl = torch.clamp(log_prob - old_log_prob, min=-20.0, max=20.0)
    ratio = torch.exp(negative_approx_kl)
    pg_losses = -adv * ratio
    pg_losses2 = -adv * torch.clamp(ratio, 1 - clip, 1 + clip)
    return masked_mean(torch.maximum(pg_losses, pg_losses2), mask).to(logp.dtype)


def value_loss(values, old_values, returns, mask, clip=0.2):
    if not clip > 0:
        raise ValueError("cliprange_value = %r" % clip)
    vpreds, old, target = prepare(mask, values, old_values, returns)
    vpredclipped = clip_by_value(vpreds, old - clip, old + clip)
    vf_losses1 = (vpreds - target) ** 2
    vf_losses2 = (vpredclipped - target) ** 2
    return (0.5 * masked_mean(torch.max(vf_losses1, vf_losses2), mask)).to(values.dtype)
