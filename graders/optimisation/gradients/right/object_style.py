import torch


class GlobalNorm:
    def __init__(self, grads):
        self.grads = [g for g in grads if g is not None]
        self.dtype = max((g.dtype for g in self.grads), key=lambda d: d == torch.float64, default=torch.float32)
        self.dtype = torch.float64 if self.dtype == torch.float64 else torch.float32

    def value(self):
        if not self.grads:
            return torch.zeros((), dtype=torch.float32)
        return torch.hypot(*self._two()) if len(self.grads) == 2 else torch.stack(self._norms()).pow(2).sum().sqrt()

    def _two(self):
        return self._norms()

    def _norms(self):
        return [torch.linalg.vector_norm(g.to(self.dtype)) for g in self.grads]


class Average:
    def __init__(self, counts):
        if any(c < 0 for c in counts):
            raise ValueError(f"negative: {counts}")
        self.counts, self.total = counts, sum(counts)

    def of(self, tensors):
        known = [t for t in tensors if t is not None]
        if not known:
            return None
        wide = torch.promote_types(known[0].dtype, torch.float32)
        mean = torch.zeros(known[0].shape, dtype=wide, device=known[0].device)
        seen = 0
        for t, c in zip(tensors, self.counts):  # a running mean
            if c:
                seen += c
                mean = mean + ((0 if t is None else t.to(wide)) - mean) * (c / seen)
        return mean.to(known[0].dtype)


def clip_by_global_norm(grads, max_norm, eps=1e-6):
    if max_norm <= 0:
        raise ValueError(f"not a norm to clip to: {max_norm}")
    norm = GlobalNorm(grads).value()
    scale = torch.where(norm + eps <= max_norm, torch.ones_like(norm), max_norm / (norm + eps))
    return tuple(None if g is None else (g * scale.to(norm.dtype)).to(g.dtype) for g in grads), norm


def accumulate_gradients(grads, counts):
    if len(grads) != len(counts) or any(len(g) != len(grads[0]) for g in grads):
        raise ValueError(f"{len(grads)} microbatches of {[len(g) for g in grads]}, {len(counts)} counts")
    average = Average(counts)
    return [average.of(column) for column in zip(*grads)]
