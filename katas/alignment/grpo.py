# %% [markdown]
# # GRPO
#
# $$A_i = \frac{r_i - \bar r}{\mathrm{std}(r) + \epsilon}, \qquad
# \ell_{i,t} = -\min\big(\rho A_i,\ \mathrm{clamp}(\rho,\, 1 - c_{low},\, 1 + c_{high})\, A_i\big)
# + \beta\,(e^{x} - 1 - x)$$
#
# $$\rho = e^{\log \pi - \log \pi_{old}}, \qquad x = \log \pi_{ref} - \log \pi$$
#
# PPO without a critic: an answer is as good as its reward is above the mean of its group, all answers to one prompt.
# $e^x - 1 - x$ is k3, an estimate of the KL to a reference policy.
#
# **Write** `group_advantages(rewards, scale=True, eps=1e-4)`, from `(prompts, group)` to the same shape. With
# `scale=False` rewards are only centered.
#
# **Write** `grpo_loss(logp, old_logp, ref_logp, advantages, mask, clip_low=0.2, clip_high=0.2, beta=0.04,
# aggregate="sequence", max_len=None)`, a scalar. `advantages` is `(n,)`; log-probabilities and the boolean `mask`, True
# for tokens that count, are `(n, seq)`. With `beta` 0 `ref_logp` may be None. `aggregate` is
#
# - `"sequence"`: the mean over sequences of the means over their tokens,
# - `"token"`: the mean over all tokens, or
# - `"constant"`: the sum divided by `n * max_len`.
#
# **Example.** Rewards `1, 0, 0, 1` have the mean 0.5 and the deviation $\sqrt{4 \cdot 0.25 / 3} = 0.57735$: advantages
# are ±0.8659. Two sequences of one and of three tokens lose `[1]` and `[2, 2, 2]`: by sequence 1.5, by token
# $7/4 = 1.75$, by the constant 4 $7/8 = 0.875$.
#
# **Builds on** ppo. **Sources:** Shao et al. 2024: DeepSeekMath, [arXiv:2402.03300](https://arxiv.org/abs/2402.03300);
# Yu et al. 2025: DAPO, [arXiv:2503.14476](https://arxiv.org/abs/2503.14476); Liu et al. 2025: Understanding
# R1-Zero-Like Training (Dr. GRPO), [arXiv:2503.20783](https://arxiv.org/abs/2503.20783).
#
# House rules hold: docs/house_rules.md.

# %% [markdown] tags=["contract"]
# <details><summary>Contract: Deviation, Padding, Bounds, Constants, Errors</summary>
#
# - **Deviation.** Unbiased, as `torch.std` and TRL have it; NumPy's divides by `group`. `eps` is added to it, not under
#   a root, so that equal rewards get 0.
# - **Padding.** What the mask leaves out may be anything, nan and infinity too. It reaches neither the loss nor a
#   gradient. A sequence without tokens counts as 0, and among the `n`; nothing kept at all gives 0.
# - **Bounds.** The two clips and no others: no dual clip, no clamp of log-ratios or of k3, as verl has them.
#   Log-probabilities of -200 and log-ratios of ±19 count in full.
# - **Constants.** `old_logp`, `ref_logp` and `advantages` get no gradient.
# - **Errors.** An unknown `aggregate`.
#
# </details>

# %% tags=["active-ipynb", "example"]
# # The example, in numbers
# import torch
#
# rewards = torch.tensor([1.0, 0, 0, 1])
# print("advantages", (rewards - rewards.mean()) / (rewards.std() + 1e-4))
# rows = [[1.0], [2.0, 2.0, 2.0]]
# print("sequence", sum(sum(row) / len(row) for row in rows) / len(rows))
# print("token", sum(map(sum, rows)) / sum(map(len, rows)))
# print("constant, max_len 4", sum(map(sum, rows)) / (len(rows) * 4))

# %%
import torch
from jaxtyping import Bool, Float
from torch import Tensor


# %%
def group_advantages(
    rewards: Float[Tensor, "prompts group"], scale: bool = True, eps: float = 1e-4
) -> Float[Tensor, "prompts group"]:
    """(r - mean) / (std + eps) in each row, with the unbiased std; without `scale` only centered."""
    raise NotImplementedError


# %%
def grpo_loss(
    logp: Float[Tensor, "n seq"],
    old_logp: Float[Tensor, "n seq"],
    ref_logp: Float[Tensor, "n seq"] | None,
    advantages: Float[Tensor, "n"],
    mask: Bool[Tensor, "n seq"],
    clip_low: float = 0.2,
    clip_high: float = 0.2,
    beta: float = 0.04,
    aggregate: str = "sequence",
    max_len: int | None = None,
) -> Float[Tensor, ""]:
    """PPO's clipped loss of each kept token, plus beta times k3, aggregated by sequence, by token or by a constant.

    Only `logp` gets a gradient. Raises ValueError if `aggregate` is unknown. Shao et al. 2024, arXiv:2402.03300.
    """
    raise NotImplementedError


# %% tags=["active-ipynb"]
# import sys
#
# sys.path.append("../..")  # the project
# from dojo import check
#
# check("grpo")
