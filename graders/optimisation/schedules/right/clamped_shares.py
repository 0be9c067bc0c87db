from math import pi, sin


def share(step, start, length):
    return min(max((step - start) / length, 0.0), 1.0) if length > 0 else float(step >= start)


def lerp(a, b, x):
    return a * (1.0 - x) + b * x


def fit(step, hi, lo, total, *parts):
    assert_ok = step >= 0 and lo <= hi and sum(parts) <= total
    if not assert_ok:
        raise ValueError(f"step {step}, rates {hi} and {lo}, parts {parts} of {total}")


def warmup_cosine(step, max_lr, min_lr, warmup_steps, total_steps):
    fit(step, max_lr, min_lr, total_steps, warmup_steps)
    if step < min(warmup_steps, total_steps):
        return lerp(0.0, max_lr, share(step, 0, warmup_steps))
    return lerp(max_lr, min_lr, sin(pi / 2 * share(step, warmup_steps, total_steps - warmup_steps)) ** 2)


def warmup_stable_decay(step, max_lr, min_lr, warmup_steps, decay_steps, total_steps, shape="linear"):
    fit(step, max_lr, min_lr, total_steps, warmup_steps, decay_steps)
    match shape:
        case "linear":
            exponent = 1
        case "1-sqrt":
            exponent = 0.5
        case _:
            raise ValueError(shape)
    if step < warmup_steps:
        return lerp(0.0, max_lr, share(step, 0, warmup_steps))
    return lerp(max_lr, min_lr, share(step, total_steps - decay_steps, decay_steps) ** exponent)
