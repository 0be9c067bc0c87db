import torch


def unfit(tensors, clip):
    shapes = {tuple(x.shape) for x in tensors}
    if len(shapes) > 1:
        raise ValueError(f"different shapes: {sorted(shapes)}")
    if clip <= 0:
        raise ValueError(f"clip: {clip}")


class _Given(torch.autograd.Function):
    """A loss whose slope is known."""

    @staticmethod
    def forward(ctx, x, loss, slope):
        ctx.save_for_backward(slope)
        return loss.clone()

    @staticmethod
    def backward(ctx, grad):
        (slope,) = ctx.saved_tensors
        return (grad * slope).to(slope.dtype), None, None


def finish(x, losses, slopes, mask):
    n = mask.sum().clamp(min=1)
    loss = torch.where(mask, losses, 0.0).sum() / n
    return _Given.apply(x.to(losses.dtype), loss, torch.where(mask, slopes, 0.0) / n).to(x.dtype)


def ppo_loss(logp, old_logp, advantages, mask, clip=0.2):
    unfit((logp, old_logp, advantages, mask), clip)
    wide = torch.promote_types(logp.dtype, torch.float32)
    with torch.no_grad():
        ratio = torch.exp(logp.to(wide) - old_logp.to(wide))
        a = advantages.to(wide)
        out = torch.where(a > 0, ratio > 1 + clip, ratio < 1 - clip)
        edge = 1 + clip * a.sign()
        losses = -a * torch.where(out, edge, ratio)
        slopes = torch.where(out, 0.0, -a * ratio)
    return finish(logp, losses, slopes, mask)


def value_loss(values, old_values, returns, mask, clip=0.2):
    unfit((values, old_values, returns, mask), clip)
    wide = torch.promote_types(values.dtype, torch.float32)
    with torch.no_grad():
        v, old, r = (x.to(wide) for x in (values, old_values, returns))
        near = old + (v - old).clamp(-clip, clip)
        bare, clipped = (v - r) ** 2, (near - r) ** 2
        losses = torch.fmax(bare, clipped) / 2
        slopes = torch.where((bare >= clipped) | (near == v), v - r, torch.zeros_like(v))
    return finish(values, losses, slopes, mask)
