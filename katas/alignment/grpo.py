# %% [markdown]
# # GRPO
#
# $$A_i = \frac{r_i - \bar r}{\mathrm{std}(r) + \epsilon}, \qquad
# \ell_{i,t} = -\min\big(\rho A_i,\ \mathrm{clamp}(\rho,\, 1 - c_{low},\, 1 + c_{high})\, A_i\big)
# + \beta\,(e^{x} - 1 - x)$$
#
# $$\rho = e^{\log \pi - \log \pi_{old}}, \qquad x = \log \pi_{ref} - \log \pi$$
#
# PPO without a critic: of a group of answers to one prompt, those above the group's mean are good. $e^x - 1 - x$
# estimates the KL to a reference policy, token by token (Schulman's k3).
#
# **Write** `group_advantages(rewards, scale=True, eps=1e-4)`: `rewards` and the result have shape `(prompts, group)`.
#
# **Write** `grpo_loss(logp, old_logp, ref_logp, advantages, mask, clip_low=0.2, clip_high=0.2, beta=0.04,
# aggregate="sequence", max_len=None)`. The log-probabilities and the boolean `mask` have shape `(n, seq)`, `advantages`
# has shape `(n,)`. The result is a tensor of no dimensions, with the dtype of `logp`.
#
# - **`group_advantages`** takes mean and standard deviation in each row. The deviation is unbiased: the squares are
#   divided by `group - 1`. `eps` is added to it, not to its square. With `scale=False` rewards are only centred.
#   Gradients flow to `rewards`.
# - **A group of one**, or of equal rewards, has advantages of 0, and finite gradients.
# - **`aggregate`** says how tokens make a loss. `"sequence"`: the mean over the `n` sequences of the means over their
#   tokens. `"token"`: the mean over all tokens. `"constant"`: the sum divided by `n * max_len`.
# - **A sequence without tokens** counts as 0, and counts among the `n`. Nothing kept at all gives 0, with gradients of
#   0.
# - **Constants:** `old_logp`, `ref_logp` and `advantages` get no gradient in `grpo_loss`, or one of zeros.
# - **What the mask leaves out** may be anything in the log-probabilities, nan and infinity too. It reaches neither
#   result nor gradient, whose entries there are 0.
# - **With `beta` 0** `ref_logp` may be None.
# - **Unlikely tokens**, with log-probabilities as low as -200, count like any other. $\log \rho$ and $x$ of kept tokens
#   lie within ±20.
# - **float16 and bfloat16** are computed in float32 and rounded once, at the end. float64 in, float64 out; float32
#   accuracy is enough.
# - **Inputs are not modified**, and may be non-contiguous or expanded. No loops over sequences, tokens or groups.
# - **A `ValueError`** whose message holds the values: `rewards` of one axis; shapes that do not fit `logp`; a clip that
#   is not above 0; a negative `beta`; `ref_logp` None with `beta` above 0; an unknown `aggregate`; `max_len` missing
#   for `"constant"`, or below 1.
# - **Not graded:** a ratio exactly at a clip; a `clip_low` of 1 or more; `max_len` for another `aggregate`; advantages
#   that are not finite.
#
# Not allowed: leaving PyTorch for the computation.
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
    """(r - mean) / (std + eps) in each row, with the unbiased std; without `scale` only centred.

    Half precision is computed in float32 and rounded once.

    Raises:
        ValueError: rewards have one axis.
    """
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

    Only `logp` gets a gradient. Half precision is computed in float32 and rounded once.

    Raises:
        ValueError: shapes do not fit, a number is out of its range, or aggregate is unknown.
    """
    raise NotImplementedError


# %% tags=["active-ipynb"]
# import sys
#
# sys.path.append("../..")  # the project
# from dojo import check
#
# check("grpo")
