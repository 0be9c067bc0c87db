import cmath
from fractions import Fraction
from itertools import chain, islice, repeat


def rates(hi, lo, warmup, stable, fall, curve):
    climb = (float(Fraction(s, warmup) * Fraction(hi)) for s in range(warmup))
    down = (lo + curve(Fraction(s, fall)) * (hi - lo) for s in range(fall))
    return chain(climb, repeat(hi, stable), down, repeat(lo))


def nth(step, hi, lo, warmup, stable, fall, total, curve):
    if step < 0:
        raise ValueError("step: " + str(step))
    if lo > hi:
        raise ValueError(f"min {lo}, max {hi}")
    if stable < 0 or fall < 0:
        raise ValueError(f"warmup {warmup}, decay {fall}, total {total}")
    return next(islice(rates(hi, lo, warmup, stable, fall, curve), step, None))


def warmup_cosine(step, max_lr, min_lr, warmup_steps, total_steps):
    def turn(x):
        return (1 + cmath.exp(1j * cmath.pi * float(x)).real) / 2

    return nth(step, max_lr, min_lr, warmup_steps, 0, total_steps - warmup_steps, total_steps, turn)


def warmup_stable_decay(step, max_lr, min_lr, warmup_steps, decay_steps, total_steps, shape="linear"):
    curves = {"linear": lambda x: 1 - float(x), "1-sqrt": lambda x: 1 - float(x) ** 0.5}
    try:
        curve = curves[shape]
    except KeyError:
        raise ValueError(f"no curve {shape!r}") from None
    stable = total_steps - decay_steps - warmup_steps
    return nth(step, max_lr, min_lr, warmup_steps, stable, decay_steps, total_steps, curve)
