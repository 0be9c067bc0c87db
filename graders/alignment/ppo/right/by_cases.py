import torch


def ready(clip, mask, **inputs):
    if clip <= 0:
        raise ValueError(f"clip has to be above 0, not {clip}")
    names, tensors = list(inputs), list(inputs.values())
    wrong = [f"{n} {list(x.shape)}" for n, x in zip(names, tensors) if x.shape != tensors[0].shape]
    if wrong or mask.shape != tensors[0].shape:
        raise ValueError(f"{names[0]} {list(tensors[0].shape)}, mask {list(mask.shape)}, {', '.join(wrong)}")
    acc = torch.promote_types(tensors[0].dtype, torch.float32)
    zero = torch.zeros((), dtype=acc, device=mask.device)
    live, *rest = (torch.where(mask, x.to(acc), zero) for x in tensors)
    return (live, *(x.detach() for x in rest), mask.to(acc) / max(1, int(mask.sum())))


def ppo_loss(logp, old_logp, advantages, mask, clip=0.2):
    """One bound for each sign, as Spinning Up explains it, and the way back only where it does not bind."""
    new, old, a, weight = ready(clip, mask, logp=logp, old_logp=old_logp, advantages=advantages)
    ratio = torch.expm1(new - old) + 1
    bound = torch.where(a >= 0, ratio.clamp(max=1 + clip), ratio.clamp(min=1 - clip))
    return -torch.einsum("bt,bt,bt->", bound, a, weight).to(logp.dtype)


def value_loss(values, old_values, returns, mask, clip=0.2):
    v, old, r, weight = ready(clip, mask, values=values, old_values=old_values, returns=returns)
    moved = torch.where(v > old + clip, old + clip, torch.where(v < old - clip, old - clip, v))
    far = torch.where((moved - r).abs() > (v - r).abs(), moved - r, v - r)
    return torch.sum(far * far * weight * 0.5).to(values.dtype)
