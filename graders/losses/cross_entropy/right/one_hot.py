import torch
import torch.nn.functional as F


def cross_entropy(logits, targets, ignore_index=-100, label_smoothing=0.0, z_loss=0.0):
    """A table of target probabilities, and one contraction."""
    *batch, vocab = logits.shape
    if list(targets.shape) != batch:
        raise ValueError(f"logits {list(logits.shape)} and targets {list(targets.shape)} do not match")
    if label_smoothing < 0 or label_smoothing > 1:
        raise ValueError(f"label smoothing {label_smoothing}")
    if z_loss < 0:
        raise ValueError(f"z-loss {z_loss}")
    keep = targets.ne(ignore_index)
    safe = targets.masked_fill(~keep, 0).to(torch.int64)
    bad = (safe < 0) | (safe >= vocab)
    if bad.any():
        raise ValueError(f"not a class: {safe[bad].tolist()} of {vocab}")
    wide = logits.double() if logits.dtype == torch.float64 else logits.float()
    lse = wide.logsumexp(-1, keepdim=True)
    q = F.one_hot(safe, vocab).to(wide.dtype)
    log_p = wide - lse
    loss = -torch.einsum("...v,...v->...", q, log_p.masked_fill(q == 0, 0.0))
    if label_smoothing:
        loss = loss * (1 - label_smoothing) - label_smoothing * log_p.mean(-1)
    loss = loss + z_loss * lse.squeeze(-1) ** 2
    return (loss.masked_fill(~keep, 0).sum() / max(int(keep.sum()), 1)).to(logits.dtype)
