# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
#   dojo:
#     title: Learning rate schedules
#     level: 1
#     minutes: 12
#     builds_on: []
#     sources:
#       - "Loshchilov and Hutter 2017: SGDR: Stochastic Gradient Descent with Warm Restarts, arXiv:1608.03983"
#       - "Hägele et al. 2024: Scaling Laws and Training Beyond Fixed Durations (stable and decay), arXiv:2405.18392"
# ---

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

# %% [markdown] tags=["hint"]
# A step is in one of four phases: past the end, in the warmup, at the top, in the fall. Ask for them in this order.

# %% [markdown] tags=["hint"]
# Both functions are one: a warmup, a stay at the top until some step, then a fall. The cosine starts its fall where the
# warmup ends.

# %% [markdown] tags=["hint"]
# `min_lr + left * (max_lr - min_lr)`, where `left` is what is left of the height: `0.5 * (1 + math.cos(math.pi * x))`,
# `1 - x` or `1 - math.sqrt(x)`.

# %%
import math

# %%
### BEGIN SOLUTION
SHAPES = {"linear": lambda x: 1 - x, "1-sqrt": lambda x: 1 - math.sqrt(x)}


def half_cosine(x: float) -> float:
    return 0.5 * (1 + math.cos(math.pi * x))


def check_rates(step: int, max_lr: float, min_lr: float) -> None:
    if step < 0:
        raise ValueError(f"step={step} is negative")
    if min_lr > max_lr:
        raise ValueError(f"min_lr={min_lr} is above max_lr={max_lr}")


def rate(step, max_lr, min_lr, warmup_steps, fall_start, total_steps, height) -> float:
    """A warmup, a stay at the top until fall_start, then a fall: `height` goes from 1 to 0 with its share."""
    if step >= total_steps:
        return float(min_lr)
    if step < warmup_steps:
        return max_lr * step / warmup_steps
    if step < fall_start:
        return float(max_lr)
    x = (step - fall_start) / (total_steps - fall_start)
    return min_lr + height(x) * (max_lr - min_lr)


### END SOLUTION


# %%
def warmup_cosine(step: int, max_lr: float, min_lr: float, warmup_steps: int, total_steps: int) -> float:
    """The learning rate of a step: a linear warmup from 0, then half a cosine down to min_lr, which stays.

    Raises:
        ValueError: step is negative, min_lr is above max_lr, or warmup_steps above total_steps.
    """
    ### BEGIN SOLUTION
    check_rates(step, max_lr, min_lr)
    if warmup_steps > total_steps:
        raise ValueError(f"warmup_steps={warmup_steps} is above total_steps={total_steps}")
    return rate(step, max_lr, min_lr, warmup_steps, warmup_steps, total_steps, half_cosine)
    ### END SOLUTION


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
    ### BEGIN SOLUTION
    check_rates(step, max_lr, min_lr)
    if warmup_steps + decay_steps > total_steps:
        told = f"warmup_steps={warmup_steps} and decay_steps={decay_steps}"
        raise ValueError(f"{told} are together above total_steps={total_steps}")
    if shape not in SHAPES:
        raise ValueError(f"shape={shape!r} is neither 'linear' nor '1-sqrt'")
    return rate(step, max_lr, min_lr, warmup_steps, total_steps - decay_steps, total_steps, SHAPES[shape])
    ### END SOLUTION


# %% [markdown] tags=["solution"]
# ## Why it is done this way
#
# **One function of the step.** Nothing is remembered, so a run that goes on from a checkpoint needs its step alone, and
# a chart of the schedule is drawn before the run.
#
# **The end comes first.** Asked first, it leaves no step at which something is divided by 0: behind it `total_steps` is
# above `fall_start`, and `warmup_steps` above 0 wherever a step is below it.
#
# **The height.** All falls are $m + h(x)(M - m)$ with $h$ from 1 to 0. Written so, no shape can forget the
# minimum.
#
# **What it costs.** $O(1)$ time a step, and no more than a few dozen bytes: a handful of operations on Python floats.
#
# ## The other formulation
#
# PyTorch's schedulers multiply: `LambdaLR` takes the rate over `max_lr`. `CosineAnnealingLR` computes each rate from
# the one before. That is the same until somebody changes a rate by hand, and it rises again behind the end.
#
# ## The usual mistakes
#
# - $x$ over all steps instead of those behind the warmup: the rate falls by a jump where the warmup ends.
# - The half forgotten: the rate starts its fall at $2M - m$.
# - No end: half a turn later the cosine is back at the maximum.
# - A warmup that counts from 1, so that it ends a step early. Some training loops do; papers seldom say.
# - A schedule stepped once a microbatch instead of once an update: it ends early by as much.

# %% tags=["active-ipynb", "solution"]
# # Three schedules of the same length
# from matplotlib import pyplot as plt
#
# steps = range(1100)
# plt.plot(steps, [warmup_cosine(step, 1.0, 0.1, 100, 1000) for step in steps], label="cosine")
# for shape in ("linear", "1-sqrt"):
#     rates = [warmup_stable_decay(step, 1.0, 0.1, 100, 200, 1000, shape) for step in steps]
#     plt.plot(steps, rates, label=f"stable, then {shape}")
# plt.xlabel("step")
# plt.ylabel("learning rate over its maximum")
# plt.title("The cosine has to know the end from the start, the others only before they fall")
# plt.legend()
# plt.show()

# %% [markdown] tags=["solution", "questions"]
# ## What interviewers ask next
#
# ### Why is there a warmup?
#
# - The first gradients are large and point all over the place. Adam's second moments are estimated from few of them.
# - A full step in the first updates may leave weights from which training does not recover.
#
# Source: Goyal et al. 2017, section 2.2, arXiv:1706.02677.
#
# ### Why not fall to 0?
#
# - The last steps at a rate near 0 change nothing and cost as much as others. A tenth of the maximum is common.
# - Others measure that a linear fall to 0 is better when a model is trained for long. So the minimum is tuned as well.
#
# Source: Bergsma et al. 2025, Straight to Zero, arXiv:2502.15938.
#
# ### What is wrong with a cosine that was planned for twice the steps?
#
# - Stopped at half of it the rate is still near half of its maximum: the loss is well above that of a cosine whose end
#   is there.
# - Runs of several lengths need a schedule of their own each, from the start. This is how Chinchilla differs from
#   earlier scaling laws.
#
# Source: Hoffmann et al. 2022, appendix B, arXiv:2203.15556.
#
# ### What does a stable phase buy?
#
# - The run can go on for as long as there is data. For each length only a short fall is trained anew from a checkpoint.
# - Falls of 10 to 20 % of the steps match the cosine's loss, and the root does so better than the line.
#
# Source: Hägele et al. 2024, section 4, arXiv:2405.18392.
#
# ### Where does the loss fall in such a run?
#
# - Slowly at the top, and quickly once the rate falls: it is noise along steep directions that goes away.
# - So two runs are compared behind their falls, not in the middle of one.
#
# Source: Wen et al. 2024, arXiv:2410.05192.
#
# ### How does the rate change with the batch?
#
# - For SGD in proportion to it, for Adam rather by its root, up to a batch at which nothing is gained any more.
# - The warmup is counted in steps, so with larger batches it sees more tokens.
#
# Source: Malladi et al. 2022, arXiv:2205.10287.
#
# ### What is to be stored for a restart?
#
# - The number of updates made, and the settings. The function gives the rest.
# - A change of `total_steps` moves the whole cosine: the rate jumps at the restart. A stable phase is not moved.
#
# Source: PyTorch documentation, torch.optim.lr_scheduler,
# https://docs.pytorch.org/docs/stable/optim.html#how-to-adjust-learning-rate.
