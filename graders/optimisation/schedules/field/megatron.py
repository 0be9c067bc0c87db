"""As Megatron's OptimizerParamScheduler: a coefficient for each decay style, between min_lr and max_lr."""

import math


def get_lr(num_steps, max_lr, min_lr, lr_warmup_steps, lr_decay_steps, wsd_decay_steps, lr_decay_style):
    if lr_warmup_steps + wsd_decay_steps > lr_decay_steps:
        raise ValueError(f"{lr_warmup_steps=} and {wsd_decay_steps=} must fit into {lr_decay_steps=}")
    if lr_decay_style not in ("cosine", "linear", "1-sqrt"):
        raise ValueError(f"{lr_decay_style} decay style is not supported.")
    # For any steps larger than `lr_decay_steps`, use `min_lr`.
    if num_steps >= lr_decay_steps:
        return min_lr
    # Use linear warmup for the initial part.
    if lr_warmup_steps > 0 and num_steps <= lr_warmup_steps:
        return max_lr * num_steps / lr_warmup_steps
    anneal_start = lr_decay_steps - wsd_decay_steps
    if num_steps <= anneal_start:
        return max_lr
    decay_ratio = (num_steps - anneal_start) / wsd_decay_steps
    if lr_decay_style == "linear":
        coeff = 1.0 - decay_ratio
    elif lr_decay_style == "cosine":
        coeff = 0.5 * (math.cos(math.pi * decay_ratio) + 1.0)
    else:
        coeff = 1.0 - math.sqrt(decay_ratio)
    return min_lr + coeff * (max_lr - min_lr)


def warmup_cosine(step, max_lr, min_lr, warmup_steps, total_steps):
    decay_steps = max(total_steps - warmup_steps, 0)
    return get_lr(step, max_lr, min_lr, warmup_steps, total_steps, decay_steps, "cosine")


def warmup_stable_decay(step, max_lr, min_lr, warmup_steps, decay_steps, total_steps, shape="linear"):
    return get_lr(step, max_lr, min_lr, warmup_steps, total_steps, decay_steps, shape)
