# robust: Half precision: squares and sums stay in the dtype of the gradients. No tokens: 0 * nan is nan. Errors: none.
"""In the style of CS336 and of many training loops: clip in place if the norm is too large, add up in place."""

import torch


def clip_by_global_norm(grads, max_norm, eps=1e-6):
    total_norm = torch.sqrt(sum(g.pow(2).sum() for g in grads if g is not None))
    if total_norm > max_norm:
        clip_coef = max_norm / (total_norm + eps)
        for g in grads:
            if g is not None:
                g.mul_(clip_coef)
    return grads, total_norm


def accumulate_gradients(grads, counts):
    num_tokens = sum(counts)
    accumulated = [None] * len(grads[0])
    for microbatch, count in zip(grads, counts):
        for i, grad in enumerate(microbatch):
            if grad is None:
                continue
            if accumulated[i] is None:
                accumulated[i] = torch.zeros_like(grad)
            accumulated[i] += grad * (count / num_tokens)
    return accumulated
