# robust: Warmup, No steps, Errors: the warmup counts from 1, and nobody checks that the phases fit into the run.
"""As nanoGPT's get_lr has it, and nanochat's multiplier for a stable phase."""

import math


def warmup_cosine(step, max_lr, min_lr, warmup_steps, total_steps):
    # 1) linear warmup for warmup_steps steps
    if step < warmup_steps:
        return max_lr * (step + 1) / (warmup_steps + 1)
    # 2) if step > total_steps, return min learning rate
    if step > total_steps:
        return min_lr
    # 3) in between, use cosine decay down to min learning rate
    decay_ratio = (step - warmup_steps) / (total_steps - warmup_steps)
    coeff = 0.5 * (1.0 + math.cos(math.pi * decay_ratio))  # coeff ranges 0..1
    return min_lr + coeff * (max_lr - min_lr)


def warmup_stable_decay(step, max_lr, min_lr, warmup_steps, decay_steps, total_steps, shape="linear"):
    if step < warmup_steps:
        return max_lr * (step + 1) / warmup_steps
    if step <= total_steps - decay_steps:
        return max_lr
    progress = max(total_steps - step, 0) / decay_steps
    left = 1 - math.sqrt(1 - progress) if shape == "1-sqrt" else progress
    return max_lr * (left * 1.0 + (1 - left) * min_lr / max_lr)
