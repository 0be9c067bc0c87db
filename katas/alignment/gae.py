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
#
# **Sources:** Schulman et al. 2015: Continuous Control Using Generalized Advantage Estimation,
# [arXiv:1506.02438](https://arxiv.org/abs/1506.02438).
#
# House rules hold: docs/house_rules.md.

# %% [markdown] tags=["contract"]
# <details><summary>Contract: Ends, No graph, Long rollouts, Cost</summary>
#
# - **Ends.** They may be anywhere and often: a row holds several episodes. Neither value nor advantage crosses an end.
#   `dones[:, t]` says that step `t` *ended* its episode; CleanRL's says that it starts one.
# - **No graph.** Advantages and returns are constants: no gradient flows to any input.
# - **Long rollouts.** Hundreds of steps are as accurate as ten: powers of $\gamma\lambda$ vanish in float32, so do not
#   divide by them.
# - **Cost.** A loop over time is fine, one over the batch is not.
#
# </details>

# %% tags=["active-ipynb", "example"]
# # The example, in numbers
# gamma = lam = 0.5
# advantage, next_value, goes_on = 0.0, 0.0, 0
# for reward, value in [(1, 0.5)] * 3:  # from the last step to the first
#     delta = reward + gamma * goes_on * next_value - value
#     advantage = delta + gamma * lam * goes_on * advantage
#     print(f"delta {delta}, advantage {advantage}, return {advantage + value}")
#     next_value, goes_on = value, 1

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
    raise NotImplementedError


# %% tags=["active-ipynb"]
# import sys
#
# sys.path.append("../..")  # the project
# from dojo import check
#
# check("gae")
