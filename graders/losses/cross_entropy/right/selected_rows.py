import torch


def cross_entropy(logits, targets, ignore_index=-100, label_smoothing=0.0, z_loss=0.0):
    """Flatten, throw the ignored rows away, index the rest."""
    if tuple(logits.shape[:-1]) != tuple(targets.shape):
        raise ValueError(f"{tuple(logits.shape)} against {tuple(targets.shape)}")
    if not (0.0 <= label_smoothing <= 1.0):
        raise ValueError(f"label_smoothing must be in [0, 1], got {label_smoothing}")
    if z_loss < 0:
        raise ValueError(f"z_loss must not be negative, got {z_loss}")
    n = logits.size(-1)
    rows, classes = logits.reshape(-1, n), targets.reshape(-1)
    keep = (classes != ignore_index).nonzero().squeeze(1)
    rows, classes = rows.index_select(0, keep), classes.index_select(0, keep).long()
    if classes.numel() == 0:
        return (logits * 0).sum()
    if classes.min() < 0 or classes.max() >= n:
        worst = classes.min() if classes.min() < 0 else classes.max()
        raise ValueError(f"target {worst} is no class of {n}")
    acc = torch.float64 if rows.dtype is torch.float64 else torch.float32
    rows = rows.to(acc)
    shift = rows.max(1, keepdim=True).values.detach()
    z = torch.exp(rows - shift).sum(1).log() + shift[:, 0]
    nll = z - rows[torch.arange(len(rows), device=rows.device), classes]
    if label_smoothing != 0:
        nll = torch.lerp(nll, z - rows.mean(1), label_smoothing)
    if z_loss:
        nll = nll + z_loss * torch.pow(z, 2)
    return nll.mean().to(logits.dtype)
