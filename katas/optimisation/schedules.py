# %% [markdown]
# # Learning rate schedules
#
# $$\mathrm{cosine} = m + \frac{1}{2}\,(1 + \cos \pi x)\,(M - m), \qquad
# \mathrm{linear} = M - (M - m)\,x, \qquad
# \mathrm{root} = M - (M - m)\,\sqrt{x}$$
#
# The learning rate climbs for a while, and falls towards the end of the run. $M$ is `max_lr`, $m$ is `min_lr`,
# and $x$ is the share of the fall that is done, from 0 to 1.
#
# **Write** two functions of plain numbers, which give the learning rate of one step as a Python float:
#
# - **`warmup_cosine(step, max_lr, min_lr, warmup_steps, total_steps)`**: behind the warmup the rate falls along the
#   cosine, with `x = (step - warmup_steps) / (total_steps - warmup_steps)`.
# - **`warmup_stable_decay(step, max_lr, min_lr, warmup_steps, decay_steps, total_steps, shape="linear")`**: behind the
#   warmup the rate stays at `max_lr`. In the last `decay_steps` steps it falls, with
#   `x = (step - (total_steps - decay_steps)) / decay_steps`: along the line for `shape="linear"`, along the root for
#   `shape="1-sqrt"`.
#
# For both:
#
# - **Warmup:** `max_lr * step / warmup_steps` while `step < warmup_steps`. The rate is 0 at step 0.
# - **The end:** `min_lr` from step `total_steps` on.
# - **Where they meet** the end wins: with `warmup_steps == total_steps` the rate climbs, and is `min_lr` at
#   `total_steps`.
# - **No steps:** `warmup_steps` and `decay_steps` may be 0, and nothing is divided by 0.
# - **A `ValueError`** whose message holds the values, whatever the step: a negative `step`; `min_lr` above `max_lr`;
#   `warmup_steps` above `total_steps`; for the second function `warmup_steps + decay_steps` above `total_steps`; a
#   `shape` that is neither of the two.
# - **Not graded:** a `step` that is no int, negative `warmup_steps` or `decay_steps`, and errors below one part in a
#   million of `max_lr`. There are no tensors here: dtypes, devices and gradients play no part.
#
# **Example.** `max_lr` 1, `min_lr` 0.1. The cosine with 2 steps of warmup out of 6 gives, from step 0 on,
# 0, 0.5, 1, 0.8682, 0.55, 0.2318, 0.1, 0.1. The stable schedule with 2 steps of warmup and 4 of decay out of 8 gives
# 0, 0.5, 1, 1, 1, 0.775, 0.55, 0.325, 0.1.
#
# **Sources:** Loshchilov and Hutter 2017: SGDR: Stochastic Gradient Descent with Warm Restarts,
# [arXiv:1608.03983](https://arxiv.org/abs/1608.03983); Hägele et al. 2024: Scaling Laws and Training Beyond Fixed
# Durations (stable and decay), [arXiv:2405.18392](https://arxiv.org/abs/2405.18392).
#
# House rules hold: docs/house_rules.md.

# %% tags=["active-ipynb", "example"]
# # The example, in numbers
# from math import cos, pi
#
# max_lr, min_lr = 1.0, 0.1
# for step in range(2, 6):
#     x = (step - 2) / (6 - 2)
#     print(f"cosine, step {step}: x = {x:.2f}, {min_lr + (1 + cos(pi * x)) / 2 * (max_lr - min_lr):.4f}")
# for step in range(4, 8):
#     x = (step - 4) / 4
#     print(f"linear, step {step}: x = {x:.2f}, {max_lr - (max_lr - min_lr) * x:.4f}")

# %%
import math


# %%
def warmup_cosine(step: int, max_lr: float, min_lr: float, warmup_steps: int, total_steps: int) -> float:
    """The learning rate of a step: a linear warmup from 0, then half a cosine down to min_lr, which stays.

    Raises:
        ValueError: step is negative, min_lr is above max_lr, or warmup_steps above total_steps.
    """
    raise NotImplementedError


# %%
def warmup_stable_decay(
    step: int,
    max_lr: float,
    min_lr: float,
    warmup_steps: int,
    decay_steps: int,
    total_steps: int,
    shape: str = "linear",
) -> float:
    """The learning rate of a step: a linear warmup from 0, max_lr, and in the last decay_steps a fall to min_lr.

    Raises:
        ValueError: step is negative, min_lr is above max_lr, warmup and decay are longer than the run, or shape is
            neither "linear" nor "1-sqrt".
    """
    raise NotImplementedError


# %% tags=["active-ipynb"]
# import sys
#
# sys.path.append("../..")  # the project
# from dojo import check
#
# check("schedules")
