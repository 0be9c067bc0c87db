import torch


class _CrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, targets, keep, smoothing, zeta):
        log_z = torch.logsumexp(x, -1)
        picked = torch.take_along_dim(x, targets.unsqueeze(-1), -1).squeeze(-1)
        loss = log_z - picked
        if smoothing:
            loss = (1 - smoothing) * loss + smoothing * (log_z - x.mean(-1))
        loss = loss + zeta * log_z * log_z
        count = keep.sum().clamp(min=1)
        ctx.save_for_backward(x, targets, keep, log_z, count)
        ctx.numbers = smoothing, zeta
        return torch.where(keep, loss, torch.zeros_like(loss)).sum() / count

    @staticmethod
    def backward(ctx, grad):
        x, targets, keep, log_z, count = ctx.saved_tensors
        smoothing, zeta = ctx.numbers
        g = torch.exp(x - log_z.unsqueeze(-1)) * (1 + 2 * zeta * log_z).unsqueeze(-1) - smoothing / x.shape[-1]
        g = g.scatter_add(-1, targets.unsqueeze(-1), torch.full_like(x[..., :1], smoothing - 1.0))
        g = torch.where(keep.unsqueeze(-1), g, torch.zeros_like(g))
        return g * (grad / count), None, None, None, None


def cross_entropy(logits, targets, ignore_index=-100, label_smoothing=0.0, z_loss=0.0):
    """The gradient written out: p (1 + 2ζL) - q."""
    if targets.shape != logits.shape[:-1]:
        raise ValueError(f"shapes {logits.shape} and {targets.shape}")
    if label_smoothing < 0 or 1 < label_smoothing or z_loss < 0:
        raise ValueError(f"label_smoothing={label_smoothing}, z_loss={z_loss}")
    keep = targets != ignore_index
    safe = torch.where(keep, targets, torch.zeros_like(targets)).long()
    if ((safe < 0) | (safe >= logits.shape[-1])).any():
        raise ValueError(f"targets {targets.unique().tolist()} for {logits.shape[-1]} classes")
    wide = logits.to(torch.promote_types(logits.dtype, torch.float32))
    return _CrossEntropy.apply(wide, safe, keep, label_smoothing, z_loss).to(logits.dtype)
