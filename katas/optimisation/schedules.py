# %% [markdown]
# # Learning rate schedules
#
# $$\mathrm{cosine} = m + \frac{1}{2}\,(1 + \cos \pi x)\,(M - m), \qquad
# \mathrm{linear} = M - (M - m)\,x, \qquad
# \mathrm{root} = M - (M - m)\,\sqrt{x}$$
#
# The learning rate rises in a line from 0, and decays until the end of the run. $M$ is `max_lr`, $m$ is `min_lr`, $x$
# how much of the decay is done, from 0 to 1.
#
# **Write** two functions of plain numbers that give the rate of one step, a Python float:
#
# - `warmup_cosine(step, max_lr, min_lr, warmup_steps, total_steps)`: after the warmup it decays along the cosine.
# - `warmup_stable_decay(step, max_lr, min_lr, warmup_steps, decay_steps, total_steps, shape="linear")`: it stays at
#   `max_lr`, and decays in the last `decay_steps` steps, along the line, or the root for `shape="1-sqrt"`.
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

# %% [markdown] tags=["contract"]
# <details><summary>Contract: Decay, Warmup, End, No steps, Errors</summary>
#
# - **Decay.** $x$ is 0 at its first step and 1 at `total_steps`: the rate never jumps.
# - **Warmup.** `max_lr * step / warmup_steps`: 0 at step 0, `max_lr` at step `warmup_steps`.
# - **End.** `min_lr` from step `total_steps` on.
# - **No steps.** `warmup_steps`, `decay_steps` and what is between them may be 0.
# - **Errors.** Warmup and decay together longer than `total_steps`; a `shape` that is neither of the two. Whatever the
#   step.
#
# </details>

# %% tags=["active-ipynb", "example"]
# # The example, in numbers
# from math import cos, pi
#
# max_lr, min_lr = 1.0, 0.1
# for step in range(2, 6):
#     x = (step - 2) / (6 - 2)
#     print(f"cosine, step {step}: x = {x:.2f}, {min_lr + (1 + cos(pi * x)) / 2 * (max_lr - min_lr):.4f}")

# %%
import math


# %%
def warmup_cosine(step: int, max_lr: float, min_lr: float, warmup_steps: int, total_steps: int) -> float:
    """A linear warmup from 0, then half a cosine down to min_lr. Raises ValueError if the warmup is longer than all."""
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
    """A linear warmup from 0, then max_lr, then a decay to min_lr.

    Raises ValueError if warmup and decay are longer than all, or shape is neither "linear" nor "1-sqrt".
    """
    raise NotImplementedError


# %% tags=["active-ipynb"]
# import sys
#
# sys.path.append("../..")  # the project
# from dojo import check
#
# check("schedules")
