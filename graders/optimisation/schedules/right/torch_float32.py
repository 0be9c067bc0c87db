import torch


def _guard(step, max_lr, min_lr, warm, fall, total):
    if step < 0:
        raise ValueError(f"negative step {step}")
    if max_lr < min_lr:
        raise ValueError(f"max_lr {max_lr} < min_lr {min_lr}")
    if warm + fall > total:
        raise ValueError(f"{warm} + {fall} steps do not fit into {total}")


def warmup_cosine(step, max_lr, min_lr, warmup_steps, total_steps):
    _guard(step, max_lr, min_lr, warmup_steps, 0, total_steps)
    s = torch.tensor(float(step))
    x = ((s - warmup_steps) / max(total_steps - warmup_steps, 1)).clamp(0, 1)
    lr = torch.lerp(torch.tensor(min_lr), torch.tensor(max_lr), (torch.cos(torch.pi * x) + 1) / 2)
    lr = torch.where(s < warmup_steps, max_lr * s / max(warmup_steps, 1), lr)
    return torch.where(s >= total_steps, min_lr, lr).item()


def warmup_stable_decay(step, max_lr, min_lr, warmup_steps, decay_steps, total_steps, shape="linear"):
    _guard(step, max_lr, min_lr, warmup_steps, decay_steps, total_steps)
    power = {"linear": 1.0, "1-sqrt": 0.5}.get(shape)
    if power is None:
        raise ValueError(f"shape must be linear or 1-sqrt, got {shape}")
    s = torch.tensor(float(step))
    x = ((s - total_steps + decay_steps) / max(decay_steps, 1)).clamp(0, 1) ** power
    lr = torch.minimum(max_lr * s / max(warmup_steps, 1), max_lr - (max_lr - min_lr) * x)
    if not warmup_steps:
        lr = max_lr - (max_lr - min_lr) * x
    return float(lr if s < total_steps else min_lr)
