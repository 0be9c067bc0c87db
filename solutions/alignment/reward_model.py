# ---
# jupyter:
#   dojo:
#     title: Reward model
#     level: 2
#     minutes: 12
#     builds_on: [dpo]
#     sources:
#       - "Ouyang et al. 2022: Training language models to follow instructions (InstructGPT), arXiv:2203.02155"
#       - "Touvron et al. 2023: Llama 2, section 3.2 (the margin), arXiv:2307.09288"
# ---

# %% [markdown]
# # Reward model
#
# $$\ell = -\ln \sigma(r_c - r_r - m)$$
#
# A reward model is a language model with a value head. It reads two responses to one prompt, and is trained to give the
# chosen one the higher reward.
#
# **Write** two functions.
#
# - `last_token_values(values, mask)`: the head's outputs `(batch, seq)` and a mask `(batch, seq)`, True on real tokens,
#   to `(batch,)`: each row's value at its last real token. Rows may be padded on the left or on the right.
# - `reward_loss(chosen, rejected, margin=None)`: rewards $r_c$ and $r_r$ `(batch,)` to the mean of $\ell$, a scalar,
#   the Bradley-Terry loss. `margin` `(batch,)` is how much better the chosen one was rated, as in Llama 2.
#
# All of PyTorch is allowed.
#
# **Example.** Values `[[1, 2, 9], [9, 3, 4]]` with masks `[[T, T, F], [F, T, T]]` give `[2, 4]`. One pair of rewards 1
# and 0 has the loss $\ln(1 + e^{-1}) = 0.31326$; with a margin of 1 it is $\ln 2 = 0.69315$.

# %% [markdown] tags=["contract"]
# - **Last token.** It is the last True of a row, also where the mask has holes, as when turns are left out. Every row
#   has one.
# - **Padding.** Values there may be nan or infinite, and reach neither results nor gradients.
# - **Large gaps.** Rewards that are ±2,000 apart give finite losses and gradients.
# - **Errors.** A `mask` of another shape than `values`: it would broadcast.

# %% [markdown] tags=["hint"]
# Counting the real tokens gives the place only where padding is on the right, and nothing has been left out.

# %% [markdown] tags=["hint"]
# Number the places, and take the largest number whose mask is True.

# %% [markdown] tags=["hint"]
# `torch.where(mask, torch.arange(seq), 0).amax(dim=-1, keepdim=True)` is what `gather` takes. For the loss
# `F.logsigmoid` of the gap, in float32.

# %%
import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor


# %%
def last_token_values(values: Float[Tensor, "batch seq"], mask: Bool[Tensor, "batch seq"]) -> Float[Tensor, "batch"]:
    """The value of each row at the last place where the mask is True. Raises ValueError if the shapes differ."""
    ### BEGIN SOLUTION
    if mask.shape != values.shape:
        raise ValueError(f"mask of shape {tuple(mask.shape)}, but values of shape {tuple(values.shape)}")
    places = torch.arange(values.shape[-1], device=values.device)
    last = torch.where(mask, places, 0).amax(dim=-1, keepdim=True)
    return values.gather(-1, last).squeeze(-1)
    ### END SOLUTION


# %%
def reward_loss(
    chosen: Float[Tensor, "batch"], rejected: Float[Tensor, "batch"], margin: Float[Tensor, "batch"] | None = None
) -> Float[Tensor, ""]:
    """The mean of -log σ(chosen - rejected - margin): how unlikely the choices are under Bradley and Terry's model."""
    ### BEGIN SOLUTION
    acc = torch.promote_types(chosen.dtype, torch.float32)
    gap = chosen.to(acc) - rejected.to(acc)
    if margin is not None:
        gap = gap - margin.to(acc)
    return -F.logsigmoid(gap).mean().to(chosen.dtype)
    ### END SOLUTION


# %% [markdown] tags=["solution"]
# ## Why it is done this way
#
# Bradley and Terry give every response a strength $e^r$, and the chosen one wins with probability
# $e^{r_c} / (e^{r_c} + e^{r_r}) = \sigma(r_c - r_r)$. The loss is logistic regression on the difference, and its
# gradient $-\sigma(-\text{gap})$: a pair that is right by 5 counts some 150 times less than one that is wrong by 5.
#
# The last token, because the model is causal: no other has seen the whole response. `gather` reads that one value and
# sends its gradient to that one place. A product with a one-hot mask reads the padding too, and $0 \cdot \text{nan}$ is
# nan.
#
# A margin asks for more distance where people were sure: Llama 2 takes 0, 1/3, 2/3 and 1 for its four ratings.
#
# **What it costs.** The head is a vector of `d_model`, 8 KB in bfloat16 beside a model of 16 GB. It makes no logits,
# 31 times as wide as the residual stream at a vocabulary of 128,256. Both responses go through in one batch: $12 N$
# FLOPs a token of the pair for $N$ parameters, and no reference model. The loss itself is $O(\text{batch})$.
#
# ## The other formulation
#
# The loss is a cross-entropy of two classes, `F.cross_entropy(torch.stack([chosen, rejected], -1), zeros)`, which
# InstructGPT extends to rankings of $K$ responses: all $K(K-1)/2$ pairs in one batch. It is also `F.softplus(-gap)`.
# The last place is `seq - 1 - mask.flip(-1).int().argmax(-1)` as well: the first True from the right.
#
# ## The usual mistakes
#
# - `mask.sum(-1) - 1` for the place: right without left padding and holes, and silently another token with them.
# - `values[:, -1]`: padding on the right is rewarded.
# - `log(sigmoid(gap))`: minus infinity as soon as a pair is ordered wrongly by 104, or by 17 in half precision.
# - The mean over the tokens: reads states that have not seen the answer's end.

# %% [markdown] tags=["solution", "questions"]
# ## What interviewers ask next
#
# ### What is the loss of a model that orders `share` of the pairs rightly, each of them by a gap of `gap`?
#
# - $s \ln(1 + e^{-g}) + (1 - s) \ln(1 + e^{g})$, wrong ones being as far apart as right ones.
# - A model that knows nothing gives 0 to all and has $\ln 2 = 0.693$.
# - The best gap for a share $s$ is $\ln(s / (1 - s))$: beyond it accuracy stands still and the loss rises.
#
# Answer: `share * log(1 + exp(-gap)) + (1 - share) * log(1 + exp(gap))` nats, within 5 %. Settings: `share` 0.65, 0.75,
# 0.9; `gap` 0.5, 1, 3.
#
# Source: Ouyang et al. 2022, section 3.5, arXiv:2203.02155.
#
# ### Why are rewards fixed only up to a constant, and who minds?
#
# - Only differences enter the loss: adding 7 to every reward changes nothing.
# - PPO with a learned baseline does not mind, a threshold on the reward does, and so does a mean over several models.
# - Center them: on a reference set, or by a penalty of $0.01\,(r_c + r_r)^2$ in the loss.
#
# Source: TRL, Reward Modeling, https://huggingface.co/docs/trl/reward_trainer.
#
# ### How many comparisons does one ranking of `responses` responses give?
#
# - Every two of them are a pair. They share a prompt and responses, so they are far from independent.
# - Spread over the epoch, the model sees each response $K - 1$ times and overfits. All pairs of a ranking in one batch
#   take $K$ forwards.
#
# Answer: `responses * (responses - 1) / 2` pairs, within 5 %. Settings: `responses` 4, 6, 9.
#
# Source: Ouyang et al. 2022, section 3.5, arXiv:2203.02155.
#
# ### The policy's reward rises and its answers get worse. What do you look at?
#
# - The length: longer answers are chosen more often, and the model learns that first.
# - The distance: a reward model is right near the responses that it was trained on. Plot reward against the KL to the
#   reference, and rate samples along it by hand or by a second model.
# - Remedies are a stronger KL penalty, new comparisons of the current policy, and an ensemble's smallest reward.
#
# Source: Gao et al. 2022: Scaling Laws for Reward Model Overoptimization, arXiv:2210.10760.
