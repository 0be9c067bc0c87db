# ---
# jupyter:
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

# %% [markdown] tags=["contract"]
# - **Decay.** $x$ is 0 at its first step and 1 at `total_steps`: the rate never jumps.
# - **Warmup.** `max_lr * step / warmup_steps`: 0 at step 0, `max_lr` at step `warmup_steps`.
# - **End.** `min_lr` from step `total_steps` on.
# - **No steps.** `warmup_steps`, `decay_steps` and what is between them may be 0.
# - **Errors.** Warmup and decay together longer than `total_steps`; a `shape` that is neither of the two. Whatever the
#   step.

# %% tags=["active-ipynb", "example"]
# # The example, in numbers
# from math import cos, pi
#
# max_lr, min_lr = 1.0, 0.1
# for step in range(2, 6):
#     x = (step - 2) / (6 - 2)
#     print(f"cosine, step {step}: x = {x:.2f}, {min_lr + (1 + cos(pi * x)) / 2 * (max_lr - min_lr):.4f}")

# %% [markdown] tags=["hint"]
# A step is in one of four phases: past the end, in the warmup, at the maximum, in the decay. Ask in this order. Both
# functions are one: the cosine starts its decay where the warmup ends.

# %% [markdown] tags=["hint"]
# `min_lr + left * (max_lr - min_lr)`, where `left` goes from 1 to 0: `0.5 * (1 + math.cos(math.pi * x))`, `1 - x` or
# `1 - math.sqrt(x)`.

# %%
import math

# %%
### BEGIN SOLUTION
SHAPES = {"linear": lambda x: 1 - x, "1-sqrt": lambda x: 1 - math.sqrt(x)}


def half_cosine(x: float) -> float:
    return 0.5 * (1 + math.cos(math.pi * x))


def rate(step, max_lr, min_lr, warmup_steps, decay_start, total_steps, left) -> float:
    """A warmup, a stay at max_lr until decay_start, then a decay: `left` of x goes from 1 to 0."""
    if step >= total_steps:
        return min_lr
    if step < warmup_steps:
        return max_lr * step / warmup_steps
    if step < decay_start:
        return max_lr
    x = (step - decay_start) / (total_steps - decay_start)
    return min_lr + left(x) * (max_lr - min_lr)


### END SOLUTION


# %%
def warmup_cosine(step: int, max_lr: float, min_lr: float, warmup_steps: int, total_steps: int) -> float:
    """A linear warmup from 0, then half a cosine down to min_lr. Raises ValueError if the warmup is longer than all."""
    ### BEGIN SOLUTION
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
    """A linear warmup from 0, then max_lr, then a decay to min_lr.

    Raises ValueError if warmup and decay are longer than all, or shape is neither "linear" nor "1-sqrt".
    """
    ### BEGIN SOLUTION
    if warmup_steps + decay_steps > total_steps:
        raise ValueError(f"{warmup_steps=} and {decay_steps=} are together above {total_steps=}")
    if shape not in SHAPES:
        raise ValueError(f"{shape=} is neither 'linear' nor '1-sqrt'")
    return rate(step, max_lr, min_lr, warmup_steps, total_steps - decay_steps, total_steps, SHAPES[shape])
    ### END SOLUTION


# %% [markdown] tags=["solution"]
# ## Why it is done this way
#
# **A function of the step.** No state, so a run that resumes from a checkpoint needs its step alone. All decays are
# $m + h(x)\,(M - m)$, so no shape can forget the minimum. The end is asked for first: after it nothing is divided by 0.
#
# **What it costs.** About 1 µs of the host a step, and no bytes on the GPU. What costs is the plan: Llama 3 405B warmed
# up for 8,000 of 1,200,000 steps, to 8e-5, and decayed along a cosine to 8e-7. No earlier checkpoint is as good as a
# run that was planned to end there. A stable phase can be cut anywhere, for a decay of 10 to 20 percent of the steps.
#
# ## The other formulation
#
# PyTorch's `LambdaLR` multiplies a base rate: it takes the rate over `max_lr`.
#
# Schools differ at the ends. nanoGPT counts its warmup from 1, `(step + 1) / (warmup_steps + 1)`, so that the first
# update is not wasted. In transformers the stable schedule warms up from `min_lr`, and the plain cosine climbs again
# after its end. Here: from 0, and flat.
#
# ## The usual mistakes
#
# - $x$ over all steps instead of those after the warmup: the rate jumps where the warmup ends.
# - The half left out: the decay starts at $2M - m$.
# - No end: a run that is extended climbs back to the maximum.
# - A schedule stepped once a microbatch instead of once an update: with 8 microbatches it ends at an eighth of the run.

# %% tags=["active-ipynb", "solution"]
# # Three schedules of the same length
# from matplotlib import pyplot as plt
#
# steps = range(1100)
# plt.plot(steps, [warmup_cosine(step, 1.0, 0.1, 100, 1000) for step in steps], label="cosine")
# for shape, style in {"linear": "--", "1-sqrt": ":"}.items():
#     rates = [warmup_stable_decay(step, 1.0, 0.1, 100, 200, 1000, shape) for step in steps]
#     plt.plot(steps, rates, style, label=f"stable, then {shape}")
# plt.xlabel("step")
# plt.ylabel("learning rate over its maximum")
# plt.title("The cosine has to know the end from the start,\nthe others only before they decay")
# plt.legend()
# plt.show()

# %% [markdown] tags=["solution", "questions"]
# ## What interviewers ask next
#
# ### Why is there a warmup?
#
# - The first gradients are large and point all over the place; Adam's second moments are estimated from few of them.
# - A full step in the first updates may leave weights from which training does not recover.
#
# Source: Goyal et al. 2017, section 2.2, arXiv:1706.02677.
#
# ### What percent of `max_lr` is left after `done` percent of a `1-sqrt` decay to 0?
#
# - $1 - \sqrt{x}$ is steep at first: half of the rate is gone after a quarter of the decay. The line has 75 percent.
# - So more of the decay is spent at low rates. In the paper it does a little better than the line.
#
# Answer: `100 * (1 - sqrt(done / 100))` percent, within 5 %. Settings: `done` 4, 10, 25, 50.
#
# Source: Hägele et al. 2024, section 3, arXiv:2405.18392.
#
# ### What is wrong with a cosine that was planned for twice the steps?
#
# - Stopped at half of it, the rate is still half of its maximum, and the loss well above that of one that ends there.
# - So runs of several lengths each need a schedule of their own, from the start. Earlier scaling laws missed that.
#
# Source: Hoffmann et al. 2022, appendix B, arXiv:2203.15556.
#
# ### Models of `n` lengths, `steps` thousand steps and its multiples: how many thousand with one stable run?
#
# - The stable run goes to 80 percent of the longest. From it branches a decay of 20 percent of each length.
# - With a cosine each length is a run of its own: $n(n+1)/2$ times the shortest.
# - For 5 lengths it is 7 instead of 15 times the shortest.
#
# Answer: `steps * (0.8 * n + 0.1 * n * (n + 1))` thousand, within 5 %. Settings: `n` 3, 5, 10; `steps` 10, 50.
#
# Source: Hägele et al. 2024, section 5, arXiv:2405.18392.
