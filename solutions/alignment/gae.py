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
#     title: Generalised advantage estimation
#     level: 2
#     minutes: 15
#     builds_on: []
#     sources:
#       - "Schulman et al. 2015: Continuous Control Using Generalized Advantage Estimation, arXiv:1506.02438"
# ---

# %% [markdown]
# # Generalised advantage estimation
#
# $$\delta_t = r_t + \gamma\,(1 - d_t)\,V_{t+1} - V_t, \qquad A_t = \delta_t + \gamma\lambda\,(1 - d_t)\,A_{t+1}$$
#
# How much better was an action than the critic had expected? $r_t$ is the reward of step $t$ and $V_t$ the critic's
# value before it. $d_t$ is 1 where step $t$ ended its episode, else 0. $\gamma$ discounts what comes later; $\lambda$
# says how far the estimate trusts rewards that came (1) rather than the critic (0).
#
# **Write** `gae(rewards, values, dones, last_value, gamma=0.99, lam=0.95)`. `rewards`, `values` and the boolean
# `dones` have shape `(batch, time)`. `last_value` has shape `(batch,)` and is the value after the last step. The
# result is `(advantages, returns)`, both `(batch, time)` with the dtype of `rewards`.
#
# - **Behind the last step** $V$ is `last_value` and $A$ is 0.
# - **`dones`** may be True anywhere and often: a row holds several episodes, and what stands behind an end belongs to
#   the next one. Neither value nor advantage crosses from there.
# - **`returns`** are $A_t + V_t$, the targets for the critic.
# - **No gradients** flow back: advantages and returns are constants for the losses that use them.
# - **float16 and bfloat16** are computed in float32. Advantages and returns are rounded once each, at the end: returns
#   are not made of rounded advantages. Values may be float32 beside rewards in half precision. float64 in, float64 out;
#   float32 accuracy is enough.
# - **Inputs are not modified**, and may be non-contiguous or expanded. A loop over time is fine; no loops over the
#   batch.
# - **A `ValueError`** whose message holds the values: `values` or `dones` of another shape than `rewards`; `last_value`
#   of another shape than `(batch,)`; `gamma` or `lam` outside of `[0, 1]`.
# - **Not graded:** memory; a time of 0 steps; values that are nan or infinite.
#
# Not allowed: leaving PyTorch for NumPy or SciPy, whose `lfilter` is often used here.
#
# **Example.** Rewards `1, 1, 1`, values `½, ½, ½`, an end at the last step, $\gamma = \lambda = ½$. Then
# $\delta = 0.75, 0.75, 0.5$, and from the back $A_2 = 0.5$, $A_1 = 0.75 + 0.25 \cdot 0.5 = 0.875$,
# $A_0 = 0.75 + 0.25 \cdot 0.875 = 0.96875$. Returns are `1.46875, 1.375, 1`.

# %% tags=["active-ipynb", "example"]
# # The example, in numbers
# gamma = lam = 0.5
# advantage, next_value, goes_on = 0.0, 0.0, 0
# for reward, value in [(1, 0.5)] * 3:  # from the last step to the first
#     delta = reward + gamma * goes_on * next_value - value
#     advantage = delta + gamma * lam * goes_on * advantage
#     print(f"delta {delta}, advantage {advantage}, return {advantage + value}")
#     next_value, goes_on = value, 1

# %% [markdown] tags=["hint"]
# Each $A_t$ needs the one behind it. In which order do you walk through time?

# %% [markdown] tags=["hint"]
# All $\delta_t$ can be made at once: append `last_value` to the values shifted by one. `~dones` stops two things.

# %% [markdown] tags=["hint"]
# `delta` from `r`, `gamma * goes_on * next_v` and `v`; then for t from the last step, with `advantage` a tensor of
# shape `(batch,)`: `advantage = delta[:, t] + gamma * lam * goes_on[:, t] * advantage`. Collect, reverse, stack.

# %%
import torch
from jaxtyping import Bool, Float
from torch import Tensor


# %%
def gae(
    rewards: Float[Tensor, "batch time"],
    values: Float[Tensor, "batch time"],
    dones: Bool[Tensor, "batch time"],
    last_value: Float[Tensor, "batch"],
    gamma: float = 0.99,
    lam: float = 0.95,
) -> tuple[Float[Tensor, "batch time"], Float[Tensor, "batch time"]]:
    """Advantages and returns of each step, as constants. `dones[:, t]` says that step t ended its episode.

    Half precision is computed in float32 and rounded once.

    Raises:
        ValueError: shapes do not fit, or gamma or lam is outside of [0, 1].
    """
    ### BEGIN SOLUTION
    shape = tuple(rewards.shape)
    for name, given, wanted in (
        ("values", values, shape),
        ("dones", dones, shape),
        ("last_value", last_value, shape[:1]),
    ):
        if tuple(given.shape) != wanted:
            raise ValueError(f"{name} has shape {tuple(given.shape)}, but rewards of shape {shape} need {wanted}")
    for name, share in (("gamma", gamma), ("lam", lam)):
        if not 0 <= share <= 1:
            raise ValueError(f"{name}={share} is outside of [0, 1]")
    wide = torch.promote_types(rewards.dtype, torch.float32)
    r, v, last = (x.detach().to(wide) for x in (rewards, values, last_value))
    goes_on = (~dones).to(wide)
    next_v = torch.cat([v[:, 1:], last[:, None]], dim=1)
    delta = r + gamma * goes_on * next_v - v
    decay = gamma * lam * goes_on
    advantage, collected = torch.zeros_like(last), []
    for t in reversed(range(shape[1])):
        advantage = delta[:, t] + decay[:, t] * advantage
        collected.append(advantage)
    advantages = torch.stack(collected[::-1], dim=1)
    return advantages.to(rewards.dtype), (advantages + v).to(rewards.dtype)
    ### END SOLUTION


# %% [markdown] tags=["solution"]
# ## Why it is done this way
#
# $\delta_t$ is the advantage if one looks one step ahead and trusts the critic from there: little noise, but wrong
# where the critic is. Looking $k$ steps ahead gives $\sum_{l<k} \gamma^l \delta_{t+l}$. The average of these over all
# $k$ with weights $(1 - \lambda)\lambda^{k-1}$ is $\sum_l (\gamma\lambda)^l \delta_{t+l}$: the recursion adds it up
# from the back, one multiplication and one addition a step.
#
# `goes_on` stands in both places where something comes from step $t + 1$. With $d_t = 1$ the world ends: there is no
# value to wait for, and the next step belongs to another episode.
#
# The results are detached. The policy's loss takes advantages as numbers, and the critic's loss pulls the value towards
# its return: with a graph the return would run after the value.
#
# **What it costs.** $O(\text{time})$ small operations on `(batch,)`, one after the other: the recursion is what
# cannot be done at once, everything else is. Each copy of the input takes 4 bytes a step in float32. For a rollout of
# 1,024 tokens a few milliseconds, against seconds for the rollout itself.
#
# ## The other formulation
#
# Returns have a recursion of their own: $R_t = r_t + \gamma(1 - d_t)\,[(1 - \lambda)V_{t+1} + \lambda R_{t+1}]$, the
# $\lambda$-return, and then $A = R - V$. It starts with $R_T$ = `last_value`.
#
# ## The usual mistakes
#
# - One of the two `goes_on` forgotten: an episode is paid with the rewards of the next.
# - `dones` shifted by one step. Some libraries store in `dones[t]` that step $t$ *starts* an episode; ours *ends* one.
# - Bootstrapping with 0 behind the last step, although the rollout was only cut there.
# - Returns as bare sums of rewards: without the critic's part they are the case $\lambda = 1$ only.
# - Normalising the advantages here: that is another step, over the whole batch, and returns must not see it.

# %% tags=["active-ipynb", "solution"]
# # How far back one reward is felt: a reward of 1 at step 40, a critic that knows nothing
# import torch
# from matplotlib import pyplot as plt
#
# rewards, dones = torch.zeros(1, 50), torch.zeros(1, 50, dtype=torch.bool)
# rewards[0, 40], dones[0, 15] = 1.0, True
# for lam in (0.0, 0.8, 0.95, 1.0):
#     advantages, _ = gae(rewards, torch.zeros(1, 50), dones, torch.zeros(1), lam=lam)
#     plt.plot(advantages[0], label=f"λ = {lam}")
# plt.axvline(15.5, color="grey", linestyle=":", label="an episode ends")
# plt.xlabel("step")
# plt.ylabel("advantage")
# plt.title("λ decides how many earlier actions share in a reward")
# plt.legend(loc="upper left")
# plt.show()

# %% [markdown] tags=["solution", "questions"]
# ## What interviewers ask next
#
# ### What are the two extremes of λ?
#
# - $\lambda = 0$: $A_t = \delta_t$, one step ahead. Little variance, and all of the critic's bias.
# - $\lambda = 1$: the discounted rewards that came, less $V_t$. No bias from the critic within an episode, most
#   variance.
#
# Source: Schulman et al. 2015, section 3, arXiv:1506.02438.
#
# ### Do γ and λ do the same, as only their product stands in the recursion?
#
# - No. $\gamma$ also stands in $\delta_t$: below 1 it changes what is maximised, even with a perfect critic.
# - $\lambda$ changes only how the same quantity is estimated: with a perfect critic every $\lambda$ has the same mean.
#
# Source: Schulman et al. 2015, section 3, arXiv:1506.02438.
#
# ### An episode is cut by a time limit. Is it done?
#
# - Its advantage must not leak into the next episode, but the world went on: its last value is to be bootstrapped.
# - With one flag one adds $\gamma V(s_{t+1})$ to the last reward, or carries two flags, terminated and truncated.
#
# Source: Pardo et al. 2017, arXiv:1712.00378.
#
# ### What are γ and λ when language models are trained?
#
# - $\gamma = 1$: an answer is worth what it is worth, however long. $\lambda$ about 0.95, or 1 as well.
# - With both 1 and a reward at the end alone, $A_t = r - V_t$: each token's advantage is reward less value.
#
# Source: Ziegler et al. 2019, arXiv:1909.08593.
#
# ### Why does GRPO need none of this?
#
# - It has no critic: the mean reward of several answers to the same prompt takes the place of $V$.
# - Every token of an answer gets the same advantage, so nothing runs over time.
#
# Source: Shao et al. 2024, section 4, arXiv:2402.03300.
#
# ### How would you do it without a loop over time?
#
# - The recursion $A_t = a_t A_{t+1} + \delta_t$ is associative in pairs $(a, \delta)$: a scan takes $\log_2$ time
#   steps.
# - Or a matrix of weights, time × time, which is one product and quadratic memory.
#
# Source: Blelloch 1990, Prefix Sums and Their Applications, https://www.cs.cmu.edu/~guyb/papers/Ble93.pdf.
#
# ### Advantages are usually normalised. Where, and what may go wrong?
#
# - Over the batch or minibatch, behind this function: mean 0, deviation 1, so that the step size fits any rewards.
# - Returns are left alone. With few samples the mean takes the sign of real advantages, and padding must not count.
#
# Source: Huang et al. 2022, The 37 Implementation Details of Proximal Policy Optimization, https://iclr-blog-track.github.io/2022/03/25/ppo-implementation-details/.
