import math


def refuse(step, max_lr, min_lr, warmup, decay, total):
    if step < 0 or min_lr > max_lr or warmup + decay > total:
        raise ValueError(f"{step=} {max_lr=} {min_lr=} {warmup=} {decay=} {total=}")


def warmup_cosine(step, max_lr, min_lr, warmup_steps, total_steps):
    refuse(step, max_lr, min_lr, warmup_steps, 0, total_steps)
    min_lr_rate = min_lr / max_lr
    if total_steps <= step:
        factor = min_lr_rate
    elif step < warmup_steps:
        factor = float(step) / float(max(1, warmup_steps))
    else:
        progress = float(step - warmup_steps) / float(max(1, total_steps - warmup_steps))
        factor = 0.5 * (1.0 + math.cos(math.pi * 0.5 * 2.0 * progress))
        factor = max(0, factor * (1 - min_lr_rate) + min_lr_rate)
    return max_lr * factor


def warmup_stable_decay(step, max_lr, min_lr, warmup_steps, decay_steps, total_steps, shape="linear"):
    refuse(step, max_lr, min_lr, warmup_steps, decay_steps, total_steps)
    stable = total_steps - warmup_steps - decay_steps
    if shape not in ("linear", "1-sqrt"):
        raise ValueError(f"Unknown decay type: {shape}")
    ratio = min_lr / max_lr
    if step >= total_steps:
        return max_lr * ratio
    if step < warmup_steps:
        return max_lr * float(step) / float(max(1, warmup_steps))
    if step < warmup_steps + stable:
        return max_lr
    progress = float(step - warmup_steps - stable) / float(max(1, decay_steps))
    factor = max(0.0, 1.0 - progress) if shape == "linear" else 1.0 - math.sqrt(progress)
    return max_lr * (factor * (1.0 - ratio) + ratio)
