import math

import torch


def clip_by_global_norm(grads, max_norm, eps=1e-6):
    """Flatten everything into one vector, scale it, and cut it up again."""
    if max_norm <= 0:
        raise ValueError(f"max_norm is {max_norm}")
    places = [i for i, g in enumerate(grads) if g is not None]
    result = [None] * len(grads)
    if not places:
        return result, torch.tensor(0.0)
    wide = torch.float32
    for i in places:
        wide = torch.promote_types(wide, grads[i].dtype)
    flat = torch.cat([grads[i].reshape(-1).to(wide) for i in places])
    norm = torch.sqrt(torch.dot(flat, flat))
    if norm + eps > max_norm:
        flat = flat * (max_norm / (norm + eps))
    for i, piece in zip(places, flat.split([grads[i].numel() for i in places])):
        result[i] = piece.view(grads[i].shape).to(grads[i].dtype)
    return result, norm


def accumulate_gradients(grads, counts):
    """One contraction of the stacked microbatches with the weights."""
    if len(grads) != len(counts) or len({len(g) for g in grads}) > 1:
        raise ValueError(f"lengths {[len(g) for g in grads]} and counts {len(counts)}: {len(grads)} microbatches")
    for n in counts:
        if n < 0:
            raise ValueError(f"count {n}")
    total = sum(counts) or 1

    def combined(column):
        kept = [(g, n) for g, n in zip(column, counts) if g is not None]
        if not kept:
            return None
        like = kept[0][0]
        used = [(g, n) for g, n in kept if n > 0]
        if not used:
            return torch.zeros(like.shape, dtype=like.dtype, device=like.device)
        wide = torch.promote_types(like.dtype, torch.float32)
        weights = torch.tensor([n / total for _, n in used], dtype=wide, device=like.device)
        return torch.einsum("m,m...->...", weights, torch.stack([g for g, _ in used]).to(wide)).to(like.dtype)

    return [combined(column) for column in zip(*grads)]
