"""As the lambdas of transformers, with the stable phase warmed up from 0 as its cosine is: factors of the maximum."""

import math


def warmup_cosine(step, max_lr, min_lr, warmup_steps, total_steps, num_cycles=0.5):
    if warmup_steps > total_steps:
        raise ValueError(f"`num_warmup_steps` ({warmup_steps}) exceeds `num_training_steps` ({total_steps})")
    min_lr_rate = min_lr / max_lr
    if step >= total_steps:
        return max_lr * min_lr_rate
    if step < warmup_steps:
        return max_lr * float(step) / float(max(1, warmup_steps))
    progress = float(step - warmup_steps) / float(max(1, total_steps - warmup_steps))
    factor = 0.5 * (1.0 + math.cos(math.pi * float(num_cycles) * 2.0 * progress))
    return max_lr * max(0, factor * (1 - min_lr_rate) + min_lr_rate)


def warmup_stable_decay(step, max_lr, min_lr, warmup_steps, decay_steps, total_steps, shape="linear"):
    if shape not in ["linear", "1-sqrt"]:
        raise ValueError(f"Unknown decay type: {shape}, expected 'linear' or '1-sqrt'")
    num_stable_steps = total_steps - warmup_steps - decay_steps
    if num_stable_steps < 0:
        raise ValueError(f"{warmup_steps} warmup and {decay_steps} decay steps exceed {total_steps} training steps")
    min_lr_ratio = min_lr / max_lr
    if step >= total_steps:
        return max_lr * min_lr_ratio
    if step < warmup_steps:
        return max_lr * float(step) / float(max(1, warmup_steps))
    if step < warmup_steps + num_stable_steps:
        return max_lr
    progress = float(step - warmup_steps - num_stable_steps) / float(max(1, decay_steps))
    factor = 1.0 - progress if shape == "linear" else 1.0 - math.sqrt(progress)
    return max_lr * (factor * (1.0 - min_lr_ratio) + min_lr_ratio)
