"""In the style of CS336 and of many training loops: clip in place if the norm is too large, add up in place."""

import torch


def at_least_float32(x):
    return x.to(torch.promote_types(x.dtype, torch.float32))


def clip_by_global_norm(grads, max_norm, eps=1e-6):
    total_norm = torch.sqrt(sum(at_least_float32(g).pow(2).sum() for g in grads if g is not None))
    if total_norm > max_norm:
        clip_coef = max_norm / (total_norm + eps)
        for g in grads:
            if g is not None:
                g.mul_(clip_coef)
    return grads, total_norm


def accumulate_gradients(grads, counts):
    if len(grads) != len(counts):
        raise ValueError(f"{len(grads)} microbatches, but {len(counts)} token counts")
    num_tokens = max(sum(counts), 1)
    accumulated, dtypes = [None] * len(grads[0]), {}
    for microbatch, count in zip(grads, counts):
        for i, grad in enumerate(microbatch):
            if grad is None:
                continue
            if accumulated[i] is None:
                accumulated[i], dtypes[i] = torch.zeros_like(at_least_float32(grad)), grad.dtype
            if count > 0:
                accumulated[i] += at_least_float32(grad) * (count / num_tokens)
    return [g if g is None else g.to(dtypes[i]) for i, g in enumerate(accumulated)]
