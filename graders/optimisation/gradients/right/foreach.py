import torch


def clip_by_global_norm(grads, max_norm, eps=1e-6):
    """As torch.nn.utils does it: norms of all tensors in one go, then one product for all."""
    if not max_norm > 0:
        raise ValueError(f"max_norm must be positive: {max_norm}")
    tensors = [g for g in grads if g is not None]
    if not tensors:
        return list(grads), torch.zeros(())
    dtype = torch.float64 if torch.float64 in {g.dtype for g in tensors} else torch.float32
    norms = [torch.linalg.vector_norm(g, dtype=dtype) for g in tensors]
    total = torch.linalg.vector_norm(torch.stack(norms))
    coefficient = torch.clamp(max_norm / (total + eps), max=1.0)
    scaled = iter([g.mul(coefficient.to(torch.promote_types(g.dtype, torch.float32))).to(g.dtype) for g in tensors])
    return [None if g is None else next(scaled) for g in grads], total


def accumulate_gradients(grads, counts):
    """Sums of all microbatches in float32, divided once."""
    if len(grads) != len(counts):
        raise ValueError(f"got {len(grads)} microbatches and {len(counts)} counts")
    if min(counts, default=0) < 0:
        raise ValueError(f"negative count {min(counts)}")
    if any(len(g) != len(grads[0]) for g in grads):
        raise ValueError(f"lengths differ: {[len(g) for g in grads]}")
    n = sum(counts)
    out = []
    for column in zip(*grads):
        total, like = None, next((g for g in column if g is not None), None)
        if like is None:
            out.append(None)
            continue
        wide = torch.promote_types(like.dtype, torch.float32)
        for g, count in zip(column, counts):
            if g is not None and count:
                term = g.to(wide).mul(count)
                total = term if total is None else total + term
        out.append(torch.zeros_like(like) if total is None else (total / n).to(like.dtype))
    return out
