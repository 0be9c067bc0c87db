# ---
# jupyter:
#   dojo:
#     title: PPO's losses
#     level: 3
#     minutes: 20
#     builds_on: [kl_estimators]
#     sources:
#       - "Schulman et al. 2017: Proximal Policy Optimization Algorithms, arXiv:1707.06347"
# ---

# %% [markdown]
# # PPO's losses
#
# $$\ell^{\pi}_t = -\min\big(\rho_t A_t,\ \mathrm{clamp}(\rho_t,\, 1 - c,\, 1 + c)\, A_t\big), \qquad
# \rho_t = e^{\log \pi(a_t) - \log \pi_{old}(a_t)}$$
#
# $$\ell^{V}_t = \tfrac{1}{2} \max\big((V_t - R_t)^2,\
# (\mathrm{clamp}(V_t,\, V^{old}_t - c,\, V^{old}_t + c) - R_t)^2\big)$$
#
# An old policy drew the tokens; the policy has moved since, by the ratio $\rho$. A good token ($A > 0$) shall become
# more likely, a bad one less, but nothing is gained by moving further than $c$.
#
# **Write** `ppo_loss(logp, old_logp, advantages, mask, clip=0.2)` and `value_loss(values, old_values, returns, mask,
# clip=0.2)`. Everything has shape `(batch, seq)`; `mask` is boolean, True for the tokens that count. Each result is a
# scalar: one mean of $\ell$ over all kept tokens of the batch, whatever rows they stand in.
#
# **Example.** `clip` 0.2. A ratio of 1.5 with $A = 1$ loses `-1.2`, without a gradient: it has moved far enough. With
# $A = -1$ it loses `1.5`, with a gradient of `1.5` for `logp`: it went the wrong way and is called back. A ratio of
# 0.5 loses `-0.5` (gradient `-0.5`) with $A = 1$ and `0.8` (none) with $A = -1$.

# %% [markdown] tags=["contract"]
# - **Padding.** What the mask leaves out may be anything, nan and infinity too, in every floating input. It reaches
#   neither a loss nor a gradient. Nothing kept at all gives 0.
# - **Bounds.** The clips and no others: no dual clip and no clamp of log-ratios, as verl has them. Log-probabilities
#   of -200 and log-ratios of ±19 count in full.
# - **Constants.** Only `logp` and `values` get a gradient.

# %% tags=["active-ipynb", "example"]
# # The example, in numbers
# for ratio in (1.5, 0.5):
#     for advantage in (1, -1):
#         clamped = min(max(ratio, 0.8), 1.2)
#         bare, clipped = -ratio * advantage, -clamped * advantage
#         slope = "with a gradient" if bare >= clipped else "without a gradient"
#         print(f"ratio {ratio}, A {advantage}: {bare:+.1f}, clipped {clipped:+.1f}: {max(bare, clipped):+.1f} {slope}")

# %% [markdown] tags=["hint"]
# The smaller gain is the larger loss. On which side does the clip bind for $A > 0$, on which for $A < 0$?

# %% [markdown] tags=["hint"]
# `0 * nan` is nan, in backward too. Where must the mask stand so that the exponential never sees garbage?

# %% [markdown] tags=["hint"]
# `torch.where(mask, logp - old, 0.0).exp()` is the ratio, `torch.minimum(ratio * A, ratio.clamp(1 - clip, 1 + clip) *
# A)` the gain; `torch.where(mask, loss, 0.0).sum()` is divided by the count, or by 1. In float32, constants detached.

# %%
import torch
from jaxtyping import Bool, Float
from torch import Tensor


# %%
### BEGIN SOLUTION
def masked_mean(losses: Float[Tensor, "batch seq"], mask: Bool[Tensor, "batch seq"]) -> Float[Tensor, ""]:
    return torch.where(mask, losses, 0.0).sum() / mask.sum().clamp_min(1)


### END SOLUTION


# %%
def ppo_loss(
    logp: Float[Tensor, "batch seq"],
    old_logp: Float[Tensor, "batch seq"],
    advantages: Float[Tensor, "batch seq"],
    mask: Bool[Tensor, "batch seq"],
    clip: float = 0.2,
) -> Float[Tensor, ""]:
    """The mean over kept tokens of -min(ρA, clamp(ρ, 1 - clip, 1 + clip)A), where ρ = exp(logp - old_logp).

    Only `logp` gets a gradient. Schulman et al. 2017, arXiv:1707.06347.
    """
    ### BEGIN SOLUTION
    acc = torch.promote_types(logp.dtype, torch.float32)
    new, old, gain = logp.to(acc), old_logp.detach().to(acc), advantages.detach().to(acc)
    ratio = torch.where(mask, new - old, 0.0).exp()
    clipped = ratio.clamp(1 - clip, 1 + clip)
    losses = -torch.minimum(ratio * gain, clipped * gain)
    return masked_mean(losses, mask).to(logp.dtype)
    ### END SOLUTION


# %%
def value_loss(
    values: Float[Tensor, "batch seq"],
    old_values: Float[Tensor, "batch seq"],
    returns: Float[Tensor, "batch seq"],
    mask: Bool[Tensor, "batch seq"],
    clip: float = 0.2,
) -> Float[Tensor, ""]:
    """Half the mean over kept tokens of max((V - R)², (clamp(V, V_old - clip, V_old + clip) - R)²).

    Only `values` gets a gradient.
    """
    ### BEGIN SOLUTION
    acc = torch.promote_types(values.dtype, torch.float32)
    value, before, target = values.to(acc), old_values.detach().to(acc), returns.detach().to(acc)
    near = before + (value - before).clamp(-clip, clip)
    error = torch.maximum((value - target).abs(), (near - target).abs())
    loss = 0.5 * torch.where(mask, error, 0.0).square()  # masked before the square, whose slope would be nan
    return masked_mean(loss, mask).to(values.dtype)
    ### END SOLUTION


# %% [markdown] tags=["solution"]
# ## Why it is done this way
#
# $\rho A$ estimates how much better the new policy would do on tokens that the old one drew. Its gradient at $\rho = 1$
# is the policy gradient; far from 1 the estimate is worthless. Clamping the ratio takes the reward for going further
# away. The minimum keeps the other half: where the policy has moved the *wrong* way, the clamped term is the better
# one, and the minimum takes the bare one, so that it can come back. Clipped alone it would be stuck there.
#
# The value's maximum is the same idea: the worse of two errors, so that a step changes a value by at most $c$ for free.
# $\max(a^2, b^2) = \max(|a|, |b|)^2$ is cheaper, and lets one `where` stand before the square.
#
# The mask stands before the exponential. Padding may hold anything; `where` afterwards would mend the value, but the
# gradient of the unused branch is $0 \cdot \infty$, which is nan.
#
# **What it costs.** Some ten FLOPs an entry in ten elementwise kernels, memory-bound. For 512 answers of 1,024 tokens a
# float32 tensor is 2 MB: nothing beside the logits that `logp` was gathered from, 268 GB in float32 with a vocabulary
# of 128,000. They are made in chunks.
#
# ## The other formulation
#
# By cases: $\ell = -A \min(\rho, 1 + c)$ where $A \ge 0$, and $-A \max(\rho, 1 - c)$ where $A < 0$. One clip binds for
# each sign, which is easier to reason about, and half as much is computed.
#
# ## The usual mistakes
#
# - `max` of the gains: the clip then stops the return and allows the way out.
# - The mask after the exponential, or by multiplication: padding makes gradients nan.
# - A mean over all places: the loss then depends on how much padding there is. A mean of row means gives tokens of
#   short answers more weight.
# - A ratio of two exponentials: both underflow for unlikely tokens.
# - The value clamped around 1 like the ratio, instead of around its old value.

# %% [markdown] tags=["solution", "questions"]
# ## What interviewers ask next
#
# ### Why the minimum, if the ratio is clipped already?
#
# - Clipped alone, a token that moved the wrong way beyond the clip has no gradient and never comes back.
# - With the minimum the loss is a pessimistic bound: it ignores the clip whenever that would look too good.
# - For $A < 0$ that bound has no end: a token whose probability rose a lot can dominate a step. Dual-clip PPO caps it
#   at $3 |A|$, and takes its gradient away.
#
# Source: Schulman et al. 2017, section 3, arXiv:1707.06347; Ye et al. 2019, arXiv:1912.09729.
#
# ### A token had the probability `p` and a bad advantage, and has `q` now: what is the gradient of its loss for `logp`?
#
# - With $A = -1$ only the lower clip binds, at a ratio of $1 - c$. Above it the loss is $\rho$, and so is its gradient,
#   since $\rho = e^{\log \pi - \log \pi_{old}}$ is its own derivative.
# - It went the wrong way, and the further it went, the harder it is called back.
# - With $A = 1$ the gradient would be 0 above $1 + c$.
#
# Answer: `q / p`, within 3 %. Settings: `p` 0.1, 0.2; `q` 0.3, 0.5, 0.6.
#
# Source: Schulman et al. 2017, section 3, arXiv:1707.06347.
#
# ### What is the loss in the first step after the rollout?
#
# - $\rho = 1$ everywhere: the loss is minus the mean advantage, and the gradient the plain policy gradient.
# - Nothing is clipped. If some is, old and new log-probabilities do not come from the same numerics or temperature: an
#   inference engine has other kernels. Many recompute old log-probabilities in the trainer.
#
# Source: Huang et al. 2022, The 37 Implementation Details of Proximal Policy Optimization, https://iclr-blog-track.github.io/2022/03/25/ppo-implementation-details/.
#
# ### Policy, critic, reference and reward model have `billions` billion parameters each. How many GB do they take?
#
# - What is trained takes 16 bytes a parameter with Adam in mixed precision: weight and gradient in half precision, a
#   float32 copy and two moments. That is the policy and the critic.
# - Reference and reward model only run: 2 bytes a parameter each. In all $2 \cdot 16 + 2 \cdot 2 = 36$ bytes.
# - GRPO has no critic, and with $\beta = 0$ no reference: 18 bytes.
#
# Answer: `36 * billions` GB, within 5 %. Settings: `billions` 1.5, 7, 13.
#
# Source: Rajbhandari et al. 2019, section 3.1, arXiv:1910.02054.
#
# ### Does the clip keep the policy near the old one?
#
# - Not by itself. A clipped token has no gradient of its own, but shared weights move it on with the others.
# - That is why one watches the KL and the share of clipped tokens, and stops the epochs early.
#
# Source: Engstrom et al. 2020, Implementation Matters in Deep Policy Gradients, arXiv:2005.12729.
#
# ### Does clipping the value help?
#
# - The evidence is weak: large studies find it of no use, or harmful.
# - It depends on the scale of rewards, unlike the ratio's clip: 0.2 means something else for returns of 100.
#
# Source: Andrychowicz et al. 2020, What Matters In On-Policy Reinforcement Learning, arXiv:2006.05990.
