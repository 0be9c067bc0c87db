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
#
# **Sources:** Schulman et al. 2015: Continuous Control Using Generalized Advantage Estimation,
# [arXiv:1506.02438](https://arxiv.org/abs/1506.02438).
#
# House rules hold: docs/house_rules.md.

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

    Half precision is computed in float32 and rounded once.

    Raises:
        ValueError: shapes do not fit, or gamma or lam is outside of [0, 1].
    """
    raise NotImplementedError


# %% tags=["active-ipynb"]
# import sys
#
# sys.path.append("../..")  # the project
# from dojo import check
#
# check("gae")
