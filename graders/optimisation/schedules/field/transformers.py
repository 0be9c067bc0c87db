# robust: Warmup, End, Errors: the cosine climbs again after its end, the stable schedule warms up from min_lr, and
# phases that do not fit into the run give some rate or other.
"""As the lambdas of transformers: factors of the maximum, and max(1, ...) below the line."""

import math


def warmup_cosine(step, max_lr, min_lr, warmup_steps, total_steps, num_cycles=0.5):
    min_lr_rate = min_lr / max_lr
    if step < warmup_steps:
        return max_lr * float(step) / float(max(1, warmup_steps))
    progress = float(step - warmup_steps) / float(max(1, total_steps - warmup_steps))
    factor = 0.5 * (1.0 + math.cos(math.pi * float(num_cycles) * 2.0 * progress))
    return max_lr * max(0, factor * (1 - min_lr_rate) + min_lr_rate)


def warmup_stable_decay(step, max_lr, min_lr, warmup_steps, decay_steps, total_steps, shape="linear"):
    min_lr_ratio = min_lr / max_lr
    if step < warmup_steps:
        progress = float(step) / float(max(1, warmup_steps))
        return max_lr * (progress * (1.0 - min_lr_ratio) + min_lr_ratio)
    if step < total_steps - decay_steps:
        return max_lr
    if step < total_steps:
        progress = float(step - total_steps + decay_steps) / float(max(1, decay_steps))
        factor = 1.0 - progress if shape == "linear" else 1 - math.sqrt(progress)
        return max_lr * (factor * (1.0 - min_lr_ratio) + min_lr_ratio)
    return max_lr * min_lr_ratio
