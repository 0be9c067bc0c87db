import torch


def clip_by_global_norm(grads, max_norm, eps=1e-6):
    if max_norm <= 0:
        raise ValueError("max_norm must be > 0, got %r" % (max_norm,))
    total = torch.zeros(())
    for g in grads:
        if g is not None:
            g = g if g.dtype == torch.float64 else g.float()
            total = total.to(device=g.device) + (g * g).sum()
    norm = total**0.5 if bool(total > 0) else total
    if float(norm) + eps <= max_norm:
        return grads, norm
    factor = max_norm / (norm + eps)
    out = []
    for g in grads:
        if g is None:
            out.append(g)
        else:
            out.append((g.to(torch.promote_types(g.dtype, torch.float32)) * factor).type(g.dtype))
    return out, norm


def accumulate_gradients(grads, counts):
    if len(counts) != len(grads):
        raise ValueError(f"{len(grads)} != {len(counts)}")
    sizes = {len(g) for g in grads}
    if len(sizes) > 1:
        raise ValueError(f"different numbers of tensors: {sorted(sizes)}")
    if any(c < 0 for c in counts):
        raise ValueError(f"counts must not be negative: {counts}")
    tokens = max(sum(counts), 1)
    sums = [None] * max(sizes, default=0)
    for g, c in zip(grads, counts):
        for i, t in enumerate(g):
            if t is None:
                continue
            if sums[i] is None:
                sums[i] = [torch.zeros_like(t, dtype=torch.promote_types(t.dtype, torch.float32)), t.dtype]
            if c:
                sums[i][0] = torch.add(sums[i][0], t, alpha=c / tokens)
    return [None if s is None else s[0].to(s[1]) for s in sums]
