# ---
# jupyter:
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

# %% [markdown] tags=["contract"]
# - **Deviation.** Unbiased, as `torch.std` and TRL have it; NumPy's divides by `group`. `eps` is added to it, not under
#   a root, so that equal rewards get 0.
# - **Padding.** What the mask leaves out may be anything, nan and infinity too. It reaches neither the loss nor a
#   gradient. A sequence without tokens counts as 0, and among the `n`; nothing kept at all gives 0.
# - **Bounds.** The two clips and no others: no dual clip, no clamp of log-ratios or of k3, as verl has them.
#   Log-probabilities of -200 and log-ratios of ±19 count in full.
# - **Constants.** `old_logp`, `ref_logp` and `advantages` get no gradient.
# - **Errors.** An unknown `aggregate`.

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
# The exponential of garbage is nan in backward, whatever is masked after it: where must the mask stand?

# %% [markdown] tags=["hint"]
# The clipped part is PPO's, with `advantages[:, None]`. `gap = torch.where(mask, ref - new, 0.0)` gives the penalty.
# Put 0 where nothing is kept; then `sum(1)` by `mask.sum(1)` and a mean, or `sum()` by `mask.sum()`, each count at
# least 1.

# %% [markdown] tags=["idea"]
# A model answered right. Was that good? If it nearly always does, there is little to learn; if it hardly ever does,
# much. A reward counts by what was to be expected. PPO trains a second model, as large as the first, to guess that.
#
# GRPO asks the same question eight times instead, and compares the answers. What is above their mean becomes more
# likely, what is below it less. In the figure a right answer has an advantage of 2.5 if it is the only one, and of 0.35
# if seven are right. All right or all wrong teach nothing. The tokens of an answer share its advantage, for nobody says
# which of them made it right. The price is eight answers a prompt.
#
# Two brakes stay: a clip, past which an answer gains nothing more, and a penalty for leaving the model one began with.

# %% tags=["active-ipynb", "figure"]
# """Advantages in a group of eight against how many are right. A right answer alone has 2.5; that falls to 0.35 if
# seven are right. Those of wrong answers mirror that, from -0.35 to -2.5. With none or all eight right it is 0."""
# import matplotlib.pyplot as plt
#
# spread = [0.0001 + (right * (8 - right) / 56) ** 0.5 for right in range(9)]
# axes = plt.figure(figsize=(7.6, 3.2)).gca()
# axes.plot(range(1, 9), [(8 - n) / 8 / spread[n] for n in range(1, 9)], "o-", label="of a right answer")
# axes.plot(range(8), [-n / 8 / spread[n] for n in range(8)], "s--", label="of a wrong answer")
# axes.set(xlabel="right answers of 8", ylabel="advantage")
# axes.legend()

# %%
import torch
from jaxtyping import Bool, Float
from torch import Tensor

# %% [markdown] tags=["step"]
# **The group.** A row holds the rewards of all answers to one prompt. Compare each with what its group got.

# %% tags=["active-ipynb", "step"]
# def centered(rewards: Float[Tensor, "prompts group"]) -> Float[Tensor, "prompts group"]:
#     """How far each reward is above the mean of its group."""
#     ### BEGIN SOLUTION
#     return rewards - rewards.mean(dim=1, keepdim=True)
#     ### END SOLUTION

# %% [markdown] tags=["step-cases"]
# centered([[4.0, 0.0], [1.0, 0.0]]) = [[2, -2], [0.5, -0.5]]
# centered([[4.0, 0.0], [1.0, 0.0]]) ≠ [[2.75, -1.25], [-0.25, -1.25]]: the mean of the batch: easy prompts look good
# centered([[4.0, 0.0], [1.0, 0.0]]) ≠ [[1.5, 0], [-1.5, 0]]: the mean over prompts; a group is a row
# centered([[4.0, 0.0], [1.0, 0.0]]) ≠ [[2, -0.5], [-1, -0.5]]: without `keepdim=True` the means go to the columns
# centered([[4.0, 0.0], [1.0, 0.0]]) ≠ [[4, -4], [1, -1]]: the mean of the others; an answer counts in its own group

# %% [markdown] tags=["step"]
# **The penalty.** For each token give k3, $e^x - 1 - x$. What is $x$, for tokens that the policy wrote?

# %% tags=["active-ipynb", "step"]
# def k3(logp: Float[Tensor, "seq"], ref_logp: Float[Tensor, "seq"]) -> Float[Tensor, "seq"]:
#     """An estimate of the KL to the reference."""
#     ### BEGIN SOLUTION
#     return torch.expm1(ref_logp - logp) - (ref_logp - logp)
#     ### END SOLUTION

# %% [markdown] tags=["step-cases"]
# k3([-1.0, -1.0], [-2.0, 0.0]) = [0.36788, 0.71828]
# k3([-1.0, -1.0], [-2.0, 0.0]) ≠ [0.71828, 0.36788]: the other way round; x is log ref - log π
# k3([-1.0, -1.0], [-2.0, 0.0]) ≠ [0.5, 0.5]: x² / 2, which is k2
# k3([-1.0, -1.0], [-2.0, 0.0]) ≠ [1, -1]: -x, which is k1 and may be negative

# %% [markdown] tags=["step"]
# **The mean by sequence.** Take the mean of each answer's tokens, where `mask` is True, then the mean of the answers.

# %% tags=["active-ipynb", "step"]
# def by_sequence(losses: Float[Tensor, "n seq"], mask: Bool[Tensor, "n seq"]) -> Float[Tensor, ""]:
#     """Every answer counts alike, however long; one without tokens counts as 0."""
#     ### BEGIN SOLUTION
#     return (losses.where(mask, 0.0).sum(dim=1) / mask.sum(dim=1).clamp_min(1)).mean()
#     ### END SOLUTION

# %% [markdown] tags=["step-cases"]
# by_sequence([[4.0, nan], [1.0, 2.0]], [[True, False], [True, True]]) = 2.75
# by_sequence([[4.0, nan], [1.0, 2.0]], [[True, False], [True, True]]) ≠ 2.33333: by token; long answers weigh more
# by_sequence([[4.0, nan], [1.0, 2.0]], [[True, False], [True, True]]) ≠ 1.75: the place left out is counted
# by_sequence([[4.0, nan], [1.0, 2.0]], [[True, False], [True, True]]) ≠ nan: 0 * nan is nan; put 0 in its place
# by_sequence([[5.0, 9.0], [1.0, 2.0]], [[False, False], [True, True]]) = 0.75
# by_sequence([[5.0, 9.0], [1.0, 2.0]], [[False, False], [True, True]]) ≠ 1.5: the empty answer counts as 0, among the n
# by_sequence([[5.0, 9.0], [1.0, 2.0]], [[False, False], [True, True]]) ≠ nan: the empty answer is 0 / 0

# %% [markdown] tags=["experiment"]
# One answer of 20 is right, and chance finds it. Make `group` 2, 8 and 64, then `beta` 0 and 1: how soon is it likely,
# and where does that stop? Read on: Shao et al. 2024, section 4.1, arXiv:2402.03300.

# %% tags=["active-ipynb", "experiment"]
# group, beta, logits = 8, 0.04, torch.zeros(20, requires_grad=True)
# for update in range(200):
#     logp = logits.log_softmax(0)
#     answers = logp.detach().exp().multinomial(group, replacement=True)
#     gains, new = group_advantages((answers == 7).float()[None])[0], logp[answers, None]
#     loss = grpo_loss(new, new.detach(), torch.full_like(new, -3.0), gains, new < 1, beta=beta)
#     logits.data -= torch.autograd.grad(loss, logits)[0]
#     print(end=f"{logp[7].exp():.2f} " if update % 20 == 0 else "")


# %%
def group_advantages(
    rewards: Float[Tensor, "prompts group"], scale: bool = True, eps: float = 1e-4
) -> Float[Tensor, "prompts group"]:
    """(r - mean) / (std + eps) in each row, with the unbiased std; without `scale` only centered."""
    ### BEGIN SOLUTION
    wide = rewards.to(torch.promote_types(rewards.dtype, torch.float32))
    advantages = wide - wide.mean(dim=1, keepdim=True)
    if scale:
        advantages = advantages / (wide.std(dim=1, keepdim=True) + eps)
    return advantages.to(rewards.dtype)
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

    Only `logp` gets a gradient. Raises ValueError if `aggregate` is unknown. Shao et al. 2024, arXiv:2402.03300.
    """
    ### BEGIN SOLUTION
    acc = torch.promote_types(logp.dtype, torch.float32)
    new, old, gain = logp.to(acc), old_logp.detach().to(acc), advantages.detach().to(acc)[:, None]
    ratio = torch.where(mask, new - old, 0.0).exp()
    clipped = ratio.clamp(1 - clip_low, 1 + clip_high)
    losses = -torch.minimum(ratio * gain, clipped * gain)
    if beta > 0:
        gap = torch.where(mask, ref_logp.detach().to(acc) - new, 0.0)
        losses = losses + beta * (gap.expm1() - gap)

    losses = torch.where(mask, losses, 0.0)
    if aggregate == "sequence":
        loss = (losses.sum(dim=1) / mask.sum(dim=1).clamp_min(1)).mean()
    elif aggregate == "token":
        loss = losses.sum() / mask.sum().clamp_min(1)
    elif aggregate == "constant":
        loss = losses.sum() / (logp.shape[0] * max_len)
    else:
        raise ValueError(f"aggregate={aggregate!r} is not 'sequence', 'token' or 'constant'")
    return loss.to(logp.dtype)
    ### END SOLUTION


# %% [markdown] tags=["solution"]
# ## Why it is done this way
#
# The group's mean is what a critic would have had to learn: how good an answer to this prompt is on average. A prompt
# whose answers are all alike teaches nothing: all advantages are 0, and `eps` keeps 0/0 away.
#
# k3 is never negative, has the KL as its mean over the policy's own tokens, and the gradient $1 - e^x$: it pulls back
# gently where the policy is above the reference, and hard where it is far below.
#
# The mask stands before both exponentials. Padding may hold $-\infty$, and a `where` after `exp` mends the value alone:
# in backward the branch not taken gives $0 \cdot \infty$, which is nan.
#
# **What it costs.** Sixteen elementwise kernels, memory-bound: 1,024 answers of 4,096 tokens are 17 MB a float32
# tensor, 0.63 GB of HBM traffic forward, 0.2 ms on an H100. The rest costs more: with 7B parameters the reference's
# forward is 59 PFLOPs for these tokens, a minute at 989 TFLOPS, and a training step three times that. `beta=0` saves
# the reference; a critic beside the policy, as PPO trains one, is never there.
#
# ## The other formulation
#
# A weight for each token, made of the mask alone: `mask / mask.sum(1, keepdim=True) / n`, `mask / mask.sum()` or
# `mask / (n * max_len)`. Then every aggregate is `(weights * losses).sum()`, and splits into microbatches exactly.
#
# **Other schools.** verl bounds more: the loss of $A < 0$ at a ratio of 3 (dual clip), log-ratios at ±20, k3 at 10. A
# bound caps the loss of an outlier and takes its gradient away.
#
# ## The usual mistakes
#
# - Mean and deviation over the batch: answers to easy prompts then look good.
# - The biased deviation, NumPy's default: advantages are $\sqrt{g / (g - 1)}$ larger, 1.15 times in groups of four.
# - k3 of the wrong sign: it still is a KL, but the other way, and not of these samples.
# - The penalty inside of the minimum: the clip then cuts the way to the reference.
# - `advantages` without its new axis: an error, or with as many sequences as tokens a wrong loss.

# %% [markdown] tags=["solution", "questions"]
# ## What interviewers ask next
#
# ### `right` of `group` answers get a reward of 1, the others 0. What is the advantage of a right one, scaled?
#
# - The mean is $p$ = `right / group` and the unbiased variance $p (1 - p)\, g / (g - 1)$, so $1 - p$ is divided by its
#   root.
# - The rarer a right answer, the larger: one of 16 has 3.75, eight of 16 have 0.97 each. The sum over a group is 0.
# - Dr. GRPO leaves the deviation out: it makes prompts weigh more that are nearly always, or nearly never, solved.
#
# Answer: `sqrt((group - right) / right * (group - 1) / group)`, within 5 %. Settings: `right` 1, 2, 4; `group` 8, 16.
#
# Source: Liu et al. 2025, section 3, arXiv:2503.20783.
#
# ### Each answer is right with probability `p`: what percentage of groups of `group` answers gives no gradient?
#
# - Those whose answers are all right or all wrong: advantages are 0, and only the penalty is left.
# - At 0.9 it is 43 percent of groups of 8: their samples were for nothing, and the gradient of the others is noisier.
# - DAPO samples on until each group in the batch has both right and wrong answers.
#
# Answer: `100 * (p**group + (1 - p)**group)` percent, within 5 %. Settings: `p` 0.8, 0.9, 0.95; `group` 8, 16.
#
# Source: Yu et al. 2025, section 3.2, arXiv:2503.14476.
#
# ### Why do answers grow longer under the sequence mean?
#
# - A wrong answer's loss is divided by its length: the longer, the less each token is pushed down.
# - By token, long answers dominate the batch instead. By a constant, a token's weight depends on nothing that the
#   policy does.
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
