# ---
# jupyter:
#   dojo:
#     title: Generalized advantage estimation
#     level: 2
#     minutes: 15
#     builds_on: []
#     sources:
#       - "Schulman et al. 2015: Continuous Control Using Generalized Advantage Estimation, arXiv:1506.02438"
# ---

# %% [markdown]
# # Generalized advantage estimation
#
# $$\delta_t = r_t + \gamma\,(1 - d_t)\,V_{t+1} - V_t, \qquad A_t = \delta_t + \gamma\lambda\,(1 - d_t)\,A_{t+1}$$
#
# How much better was an action than the critic had expected? $r_t$ is the reward of step $t$, $V_t$ the critic's value
# before it, and $d_t$ is 1 where step $t$ ended its episode. $\gamma$ discounts what comes later; $\lambda$ says how
# far the estimate trusts rewards that came (1) rather than the critic (0).
#
# **Write** `gae(rewards, values, dones, last_value, gamma=0.99, lam=0.95)`. `rewards`, `values` and the boolean `dones`
# have shape `(batch, time)`. `last_value`, of shape `(batch,)`, is $V$ after the last step, where $A$ is 0. The result
# is `(advantages, returns)`, both `(batch, time)`. Returns are $A_t + V_t$, the critic's targets.
#
# **Example.** Rewards `1, 1, 1`, values `½, ½, ½`, an end at the last step, $\gamma = \lambda = ½$. Then
# $\delta = 0.75, 0.75, 0.5$, and from the back $A_2 = 0.5$, $A_1 = 0.75 + 0.25 \cdot 0.5 = 0.875$,
# $A_0 = 0.75 + 0.25 \cdot 0.875 = 0.96875$. Returns are `1.46875, 1.375, 1`.

# %% [markdown] tags=["contract"]
# - **Ends.** They may be anywhere and often: a row holds several episodes. Neither value nor advantage crosses an end.
#   `dones[:, t]` says that step `t` *ended* its episode; CleanRL's says that it starts one.
# - **No graph.** Advantages and returns are constants: no gradient flows to any input.
# - **Long rollouts.** Hundreds of steps are as accurate as ten: powers of $\gamma\lambda$ vanish in float32, so do not
#   divide by them.
# - **Cost.** A loop over time is fine, one over the batch is not.

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
# Each $A_t$ needs the one after it. In which order do you walk through time?

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

    Schulman et al. 2015, arXiv:1506.02438.
    """
    ### BEGIN SOLUTION
    acc = torch.promote_types(rewards.dtype, torch.float32)
    r, v, last = (x.detach().to(acc) for x in (rewards, values, last_value))
    goes_on = (~dones).to(acc)
    next_v = torch.cat([v[:, 1:], last[:, None]], dim=1)
    delta = r + gamma * goes_on * next_v - v
    decay = gamma * lam * goes_on
    advantage, collected = torch.zeros_like(last), []
    for t in reversed(range(r.shape[1])):
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
# **What it costs.** $O(\text{time})$ kernels on `(batch,)`, one after the other: launch-bound, however large the batch.
# 1,024 steps of two kernels are about 10 ms at 5 µs a launch. With 512 answers a float32 tensor has 2 MB, and all that
# is read and written, some 50 MB, would take 15 µs at 3.35 TB/s.
#
# ## The other formulation
#
# Returns have a recursion of their own: $R_t = r_t + \gamma(1 - d_t)\,[(1 - \lambda)V_{t+1} + \lambda R_{t+1}]$, the
# $\lambda$-return, and then $A = R - V$. It starts with $R_T$ = `last_value`.
#
# ## The usual mistakes
#
# - One of the two `goes_on` forgotten: an episode is paid with the rewards of the next.
# - `dones` shifted by one step, as between two libraries.
# - Bootstrapping with 0 after the last step, although the rollout was only cut there.
# - Returns as bare sums of rewards: without the critic's part they are the case $\lambda = 1$ only.
# - Normalizing the advantages here: that is another step, over the whole batch, and returns must not see it.

# %% [markdown] tags=["solution", "questions"]
# ## What interviewers ask next
#
# ### With `gamma` and `lam`, how many steps of δ does an advantage add up, each counted by its weight?
#
# - $\sum_l (\gamma\lambda)^l = 1 / (1 - \gamma\lambda)$, far from an end. At 0.99 and 0.95 it is 17 steps.
# - $\lambda = 0$ is one step: little variance, and all of the critic's bias. $\lambda = 1$ is the discounted rewards
#   that came, less $V_t$: no bias from the critic, most variance.
#
# Answer: `1 / (1 - gamma * lam)` steps, within 5 %. Settings: `gamma` 0.99, 0.999; `lam` 0.9, 0.95, 0.98.
#
# Source: Schulman et al. 2015, section 3, arXiv:1506.02438.
#
# ### A reward of 1 ends `n` tokens whose values are 0. What advantage has the first, with γ = 1 and `lam`?
#
# - Only the last $\delta$ is not 0. It reaches the first token by $\lambda^{n-1}$: at 0.95 and 50 tokens 8 percent.
# - So a critic that knows nothing leaves long answers without a signal. With $\lambda = 1$ each token has reward less
#   value, whatever the length.
#
# Answer: `lam**(n - 1)`, within 5 %. Settings: `lam` 0.95, 0.98, 0.99; `n` 20, 50.
#
# Source: Yue et al. 2025, VAPO, arXiv:2504.05118.
#
# ### Do γ and λ do the same, as only their product stands in the recursion?
#
# - No. $\gamma$ also stands in $\delta_t$: below 1 it changes what is maximized, even with a perfect critic.
# - $\lambda$ changes only how the same quantity is estimated: with a perfect critic every $\lambda$ has the same mean.
# - Language models take $\gamma = 1$: an answer is worth what it is worth, however long.
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
# ### How would you do it without a loop over time?
#
# - The recursion $A_t = a_t A_{t+1} + \delta_t$ is associative in pairs $(a, \delta)$: a scan takes $\log_2$ time
#   steps.
# - Or a matrix of weights, time × time, which is one product and quadratic memory.
#
# Source: Blelloch 1990, Prefix Sums and Their Applications, https://www.cs.cmu.edu/~guyb/papers/Ble93.pdf.
