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
#     title: GRPO
#     level: 3
#     minutes: 25
#     builds_on: [ppo]
#     sources:
#       - "Shao et al. 2024: DeepSeekMath, arXiv:2402.03300"
#       - "Yu et al. 2025: DAPO, arXiv:2503.14476"
#       - "Liu et al. 2025: Understanding R1-Zero-Like Training (Dr. GRPO), arXiv:2503.20783"
# ---

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

# %% [markdown] tags=["hint"]
# Which axis is the group? And which axis must an advantage get, so that it serves all tokens of its sequence?

# %% [markdown] tags=["hint"]
# The mask stands before both exponentials and once more before the sums. What does `std` say of a single number?

# %% [markdown] tags=["hint"]
# The clipped part is PPO's, with `advantages[:, None]`. `gap = torch.where(mask, ref - new, 0.0)` gives the penalty.
# Put 0 where nothing is kept; then `sum(1)` by `mask.sum(1)` and a mean, or `sum()` by `mask.sum()`, each count at
# least 1.

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
    ### BEGIN SOLUTION
    if rewards.dim() != 2:
        raise ValueError(f"rewards of shape {tuple(rewards.shape)} do not have the axes prompts and group")
    x = rewards.to(torch.promote_types(rewards.dtype, torch.float32))
    found = x - x.mean(dim=1, keepdim=True)
    if scale and x.shape[1] > 1:
        found = found / (x.std(dim=1, keepdim=True) + eps)
    return found.to(rewards.dtype)
    ### END SOLUTION


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
    ### BEGIN SOLUTION
    shape = tuple(logp.shape)
    for name, given, wanted in (
        ("old_logp", old_logp, shape),
        ("ref_logp", logp if ref_logp is None else ref_logp, shape),
        ("advantages", advantages, shape[:1]),
        ("mask", mask, shape),
    ):
        if tuple(given.shape) != wanted:
            raise ValueError(f"{name} has shape {tuple(given.shape)}, but logp of shape {shape} needs {wanted}")
    if not (clip_low > 0 and clip_high > 0):
        raise ValueError(f"clip_low={clip_low} and clip_high={clip_high} must be above 0")
    if beta < 0 or (beta > 0 and ref_logp is None):
        raise ValueError(f"beta={beta} with ref_logp {None if ref_logp is None else 'given'}")
    if aggregate not in ("sequence", "token", "constant"):
        raise ValueError(f"aggregate={aggregate!r} is not 'sequence', 'token' or 'constant'")
    if aggregate == "constant" and (max_len is None or max_len < 1):
        raise ValueError(f"max_len={max_len}: 'constant' needs a length of at least 1")
    wide = torch.promote_types(logp.dtype, torch.float32)
    new, old, gain = logp.to(wide), old_logp.detach().to(wide), advantages.detach().to(wide)[:, None]
    ratio = torch.where(mask, new - old, 0.0).exp()
    clipped = ratio.clamp(1 - clip_low, 1 + clip_high)
    losses = -torch.minimum(ratio * gain, clipped * gain)
    if beta > 0:
        gap = torch.where(mask, ref_logp.detach().to(wide) - new, 0.0)
        losses = losses + beta * (gap.exp() - 1 - gap)
    losses = torch.where(mask, losses, 0.0)
    if aggregate == "sequence":
        loss = (losses.sum(dim=1) / mask.sum(dim=1).clamp_min(1)).mean()
    elif aggregate == "token":
        loss = losses.sum() / mask.sum().clamp_min(1)
    else:
        loss = losses.sum() / (shape[0] * max_len)
    return loss.to(logp.dtype)
    ### END SOLUTION


# %% [markdown] tags=["solution"]
# ## Why it is done this way
#
# The group's mean is what the critic would have had to learn: how good an answer to this prompt is on average. Whoever
# scores all answers of a prompt alike learns nothing from it: all advantages are 0.
#
# `eps` outside of the root keeps the division finite when all rewards are equal. `torch.std` of one number is nan, and
# its gradient for equal numbers is set to 0 by PyTorch; a square root of your own has an infinite one there.
#
# k3 is never negative, has the KL as its mean over the policy's own tokens, and a gradient of $1 - e^x$ for `logp`: it
# pulls back gently where the policy is above the reference, and hard where it is far below.
#
# The three aggregates weigh tokens differently. By sequence, a token of a long answer counts less: long wrong answers
# are punished too little. By token, all of the batch count alike, so long answers dominate it. By a constant, a token's
# weight depends on nothing that the policy does.
#
# **What it costs.** $O(\text{tokens})$ time, some fifteen elementwise operations with 4 bytes a token each, next to
# nothing. The
# reference's log-probabilities cost a forward pass of a second model; with $\beta = 0$ both go.
#
# ## The other formulation
#
# A weight for each token, made of the mask alone: `mask / mask.sum(1) / n`, `mask / mask.sum()` or `mask / (n *
# max_len)`. Then every aggregate is `(weights * losses).sum()`, and splits into microbatches without an error.
#
# ## The usual mistakes
#
# - Mean and deviation over the batch: easy prompts then look like good answers.
# - The biased deviation: $\sqrt{g / (g - 1)}$ larger advantages, 1.15 for groups of four.
# - k3 of the wrong sign: it still is a KL, but the other way, and not of these samples.
# - The penalty inside of the minimum: the clip then cuts the way back to the reference.
# - Empty sequences left out of the count, or 0/0.
# - A gradient into the reference or the advantages.

# %% tags=["active-ipynb", "solution"]
# # What a token weighs: a short and a long answer, both wrong, by the three aggregates
# import torch
# from matplotlib import pyplot as plt
#
# lengths = torch.arange(1, 65)
# for aggregate in ("sequence", "token", "constant"):
#     slopes = []
#     for length in lengths:
#         logp = torch.zeros(2, 64, requires_grad=True)
#         mask = torch.arange(64) < torch.stack([length, torch.tensor(16)])[:, None]
#         zero, wrong = torch.zeros(2, 64), -torch.ones(2)
#         loss = grpo_loss(logp, zero, None, wrong, mask, beta=0.0, aggregate=aggregate, max_len=64)
#         slopes.append(torch.autograd.grad(loss, logp)[0][0, 0])
#     plt.plot(lengths, torch.stack(slopes), label=aggregate)
# plt.yscale("log")
# plt.xlabel("tokens of the answer, beside another of 16")
# plt.ylabel("weight of its first token")
# plt.title("By sequence, a wrong answer is punished less the longer it is")
# plt.legend()
# plt.show()

# %% [markdown] tags=["solution", "questions"]
# ## What interviewers ask next
#
# ### Why is there no critic?
#
# - The mean of a group estimates the value of the prompt without bias, from samples that are there anyway.
# - A critic is a second model of the policy's size, and hard to train when only the last token is rewarded.
#
# Source: Shao et al. 2024, section 4.1, arXiv:2402.03300.
#
# ### What happens to a prompt that all answers solve?
#
# - All advantages are 0: no gradient but that of the penalty. The samples were for nothing.
# - DAPO draws prompts until each group in the batch has both right and wrong answers.
#
# Source: Yu et al. 2025, section 3.2, arXiv:2503.14476.
#
# ### Why might one leave the deviation out?
#
# - Dividing by it makes prompts that are nearly always solved, or nearly never, weigh more: a bias by difficulty.
# - Without it the gradient is that of the mean reward. The scale of rewards then sets the step.
#
# Source: Liu et al. 2025, section 3, arXiv:2503.20783.
#
# ### Why do answers grow longer under the sequence mean?
#
# - A wrong answer's loss is divided by its length: the longer, the less each token is pushed down.
# - Dividing all by one constant takes the effect away.
#
# Source: Liu et al. 2025, section 3, arXiv:2503.20783.
#
# ### What is a larger upper clip for?
#
# - With $c = 0.2$ a token of probability 0.01 may rise to 0.012 only, one of 0.9 to all of 1: exploration is cut off.
# - DAPO takes 0.2 below and 0.28 above: entropy falls more slowly.
#
# Source: Yu et al. 2025, section 3.1, arXiv:2503.14476.
#
# ### Is the gradient of the k3 penalty the gradient of the KL?
#
# - No. In the mean over the policy's samples k3 is the KL, but differentiated as a loss it gives $1 - e^x$ for each
#   token, whose mean is the gradient of the *forward* KL, from the reference to the policy.
# - For the reverse KL one adds k1 to the reward, or differentiates k2.
#
# Source: Tang and Munos 2025, On a few pitfalls in KL divergence gradient estimation for RL, arXiv:2506.09477.
#
# ### How do microbatches add up?
#
# - By a constant or by sequence: divide by the $n$ of the whole batch. By token: by the tokens of the whole batch.
# - Means of microbatches' means weigh the tokens of short ones more.
#
# Source: TRL, GRPOTrainer, loss_type, https://huggingface.co/docs/trl/grpo_trainer.
