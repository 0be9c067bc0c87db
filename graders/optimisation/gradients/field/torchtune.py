"""As torchtune and PyTorch's own clip_grad_norm_ have it: foreach, sums over tokens that are scaled once at the end."""

import functools

import torch


def clip_by_global_norm(grads, max_norm, eps=1e-6):
    present = [g for g in grads if g is not None]
    norm_dtype = functools.reduce(torch.promote_types, (g.dtype for g in present), torch.float32)
    total_norm = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(present, 2, dtype=norm_dtype)), 2.0)
    clip_coef_clamped = torch.clamp(max_norm / (total_norm + eps), max=1.0)
    torch._foreach_mul_(present, clip_coef_clamped)
    return grads, total_norm


def accumulate_gradients(grads, counts):
    if len(grads) != len(counts):
        raise ValueError(f"got {len(counts)} token counts for {len(grads)} microbatches")
    running, dtypes = [None] * len(grads[0]), [None] * len(grads[0])
    num_tokens = 0
    for microbatch, count in zip(grads, counts):
        num_tokens += count
        for i, grad in enumerate(microbatch):
            if grad is not None:
                dtypes[i] = grad.dtype
                current = grad.to(torch.promote_types(grad.dtype, torch.float32)) * count
                current = current if count > 0 else torch.zeros_like(current)  # all masked: the loss is nan
                running[i] = current if running[i] is None else running[i].add_(current)
    scaler = 1 / max(num_tokens, 1)
    return [g if g is None else g.mul_(scaler).to(dtype) for g, dtype in zip(running, dtypes)]
