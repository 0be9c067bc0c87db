# ---
# jupyter:
#   dojo:
#     title: Direct preference optimization
#     level: 2
#     minutes: 20
#     builds_on: [lm_loss]
#     sources:
#       - "Rafailov et al. 2023: Direct Preference Optimization, arXiv:2305.18290"
#       - "Mitchell 2023: A note on DPO with noisy preferences (conservative DPO), https://ericmitchell.ai/cdpo.pdf"
# ---

# %% [markdown]
# # Direct preference optimization
#
# $$\ell = -(1 - \varepsilon) \ln \sigma(m) - \varepsilon \ln \sigma(-m), \qquad
# m = \beta \big( (\pi_c - \pi_r) - (\rho_c - \rho_r) \big)$$
#
# Somebody chose one of two responses to a prompt. $\pi_c$ and $\pi_r$ are the log-probabilities of the chosen and of
# the rejected one under the policy, $\rho_c$ and $\rho_r$ those under the reference, the model before training.
#
# **Write** two functions.
#
# - `sequence_logprobs(logits, token_ids, response_mask)`, from `(batch, seq, vocab)` and two tensors `(batch, seq)` to
#   `(batch,)`, *sums* the log-probabilities of the tokens whose mask is True. The logits at $t - 1$ predict token $t$;
#   token 0 is never predicted, whatever its mask says.
# - `dpo_loss(policy_chosen, policy_rejected, ref_chosen, ref_rejected, beta=0.1, label_smoothing=0.0)`, from four
#   tensors `(batch,)` to the mean of $\ell$, a scalar. $\varepsilon$ is `label_smoothing`, the share of pairs that are
#   labeled the wrong way around.
#
# All of PyTorch is allowed.
#
# **Example.** `token_ids = [[0, 1, 1, 0]]`, logits $(\ln 3, 0)$ everywhere, so that token 0 has probability 3/4, and
# `response_mask = [[F, F, T, T]]`: the response has $\ln \frac14 + \ln \frac34 = -1.67398$. One pair with the
# log-probabilities `-5`, `-9`, `-6`, `-8` and `beta=0.5` has $m = 0.5\,(4 - 2) = 1$ and the loss
# $\ln(1 + e^{-1}) = 0.31326$. With `label_smoothing=0.1` it is `0.41326`.

# %% [markdown] tags=["contract"]
# - **Left-out tokens.** What the mask leaves out may have the logit `-inf`, and makes no nan in results or gradients. A
#   row without a response gives 0.
# - **Large margins.** Margins of ±10,000 give finite losses and gradients.
# - **Reference.** It is constant: no gradient flows to `ref_chosen` and `ref_rejected`.
# - **Half precision.** Log-probabilities, their sums and the margin are computed in float32 from the inputs on, and
#   rounded once: what is summed over a long response, and what is left of the difference of two sums, keeps its digits.

# %% tags=["active-ipynb", "example"]
# # The example, in numbers
# import math
#
# print(f"response {math.log(1 / 4) + math.log(3 / 4):.5f}")
# margin = 0.5 * ((-5 - -9) - (-6 - -8))
# won, lost = math.log(1 + math.exp(-margin)), math.log(1 + math.exp(margin))
# print(f"margin {margin}, loss {won:.5f}, smoothed by 0.1 {0.9 * won + 0.1 * lost:.5f}")

# %% [markdown] tags=["hint"]
# The first function is the language model loss without its mean: the same shift, the same mask, a sum for each row.

# %% [markdown] tags=["hint"]
# Write the margin first, from four numbers. Which two of them may not get a gradient? What does `log(sigmoid(-200))`
# give in float32?

# %% [markdown] tags=["hint"]
# `F.log_softmax(logits, dim=-1, dtype=torch.float32)` but its last row, `gather` of the tokens but the first,
# `torch.where` with the mask, a sum over the row. Then `F.logsigmoid` of the margin and of its negative, `detach` for
# the reference.

# %%
import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor


# %%
def sequence_logprobs(
    logits: Float[Tensor, "batch seq vocab"],
    token_ids: Int[Tensor, "batch seq"],
    response_mask: Bool[Tensor, "batch seq"],
) -> Float[Tensor, "batch"]:
    """The log-probability of each row's response: the sum over the tokens whose mask is True, but for token 0."""
    ### BEGIN SOLUTION
    acc = torch.promote_types(logits.dtype, torch.float32)
    log_p = F.log_softmax(logits, dim=-1, dtype=acc)
    of_token = log_p[:, :-1].gather(-1, token_ids[:, 1:, None]).squeeze(-1)
    return torch.where(response_mask[:, 1:], of_token, 0.0).sum(dim=-1).to(logits.dtype)
    ### END SOLUTION


# %%
def dpo_loss(
    policy_chosen: Float[Tensor, "batch"],
    policy_rejected: Float[Tensor, "batch"],
    ref_chosen: Float[Tensor, "batch"],
    ref_rejected: Float[Tensor, "batch"],
    beta: float = 0.1,
    label_smoothing: float = 0.0,
) -> Float[Tensor, ""]:
    """The mean of -(1 - ε) log σ(m) - ε log σ(-m), where m = β((policy's difference) - (reference's difference)).

    Rafailov et al. 2023, arXiv:2305.18290, with the label smoothing of conservative DPO.
    """
    ### BEGIN SOLUTION
    acc = torch.promote_types(policy_chosen.dtype, torch.float32)
    policy = policy_chosen.to(acc) - policy_rejected.to(acc)
    reference = ref_chosen.to(acc) - ref_rejected.to(acc)
    margin = beta * (policy - reference.detach())
    loss = -(1 - label_smoothing) * F.logsigmoid(margin) - label_smoothing * F.logsigmoid(-margin)
    return loss.mean().to(policy_chosen.dtype)
    ### END SOLUTION


# %% [markdown] tags=["solution"]
# ## Why it is done this way
#
# The policy that earns the most reward $r$ at a price of $\beta$ for its KL to the reference is
# $\pi \propto \rho\, e^{r / \beta}$. Solved for it, $r = \beta (\ln \pi - \ln \rho) + \beta \ln Z$: the policy's own
# log-ratio is a reward. $Z$ belongs to the prompt, so it cancels in the difference of two responses. What is left is
# logistic regression on pairs: $\sigma(m)$ is the probability that the chosen one wins.
#
# The sum, not the mean: a response's probability is the product of its tokens'. The gradient is $-\beta\, \sigma(-m)$
# times that of $\pi_c - \pi_r$: pairs that are ordered wrongly count most.
#
# `logsigmoid` is $\min(m, 0) - \ln(1 + e^{-|m|})$; the sigmoid itself is 0 in float32 below $-89$, its log infinite.
#
# **What it costs.** 8 FLOPs a parameter and token, 6 for the policy with its backward and 2 for the reference, and both
# models in memory. The logits dominate: with the 128,256 tokens of Llama 3 they take 0.51 MB a token in float32, 1.05
# GB for a pair of 1,024 tokens each and one model, and `log_softmax` as much again. Labs chunk the sequence.
#
# ## The other formulation
#
# Implicit rewards: $\beta(\pi_c - \rho_c)$ and $\beta(\pi_r - \rho_r)$, and the loss of their difference. It is the
# same margin, and the two are worth logging: how often the first is larger is the accuracy. The loss is also
# `F.binary_cross_entropy_with_logits(m, 1 - ε)`, as $\ln \sigma(-m) = \ln \sigma(m) - m$.
#
# With label smoothing this is *conservative* DPO, whose best margin is $\ln((1 - \varepsilon) / \varepsilon)$, no
# longer infinite. *Robust* DPO, the other school, subtracts the second term and divides by $1 - 2\varepsilon$. TRL has
# both.
#
# ## The usual mistakes
#
# - Logits and tokens not shifted: the log-probabilities are those of repeating.
# - A mean over tokens: that is SimPO's reward, and wants another $\beta$. The sum favors longer answers, the mean less.
# - The reference with a gradient: where it shares weights with the policy, it is trained the other way.
# - `log(sigmoid(m))`: infinite as soon as a pair is ordered very wrongly.

# %% [markdown] tags=["solution", "questions"]
# ## What interviewers ask next
#
# ### By how many nats must a pair's log-ratios differ, at `beta`, until the chosen one wins with probability `p`?
#
# - $\sigma(m) = p$ at $m = \ln \frac{p}{1 - p}$, and the log-ratios differ by $m / \beta$.
# - So $\beta$ is the price of the KL: with a small one the policy goes far before a pair counts as won.
# - At a probability of 0.9 it is 22 nats with $\beta = 0.1$, and 4.4 with 0.5.
#
# Answer: `log(p / (1 - p)) / beta` nats, within 5 %. Settings: `beta` 0.05, 0.1, 0.5; `p` 0.8, 0.9, 0.99.
#
# Source: Rafailov et al. 2023, section 4, arXiv:2305.18290.
#
# ### Where did the reward model go?
#
# - The best policy under a KL penalty is $\rho\, e^{r/\beta} / Z$, so every policy is the best one for some reward.
# - That reward, $\beta \ln (\pi / \rho)$ up to a constant of the prompt, is put into the Bradley-Terry likelihood.
#
# Source: Rafailov et al. 2023, section 4, arXiv:2305.18290.
#
# ### How many GB do all float32 logits of a step take: `pairs` pairs, `seq` tokens a response, a vocabulary of `vocab`?
#
# - Two responses a pair, and two models that see each: $4 \cdot \text{pairs} \cdot \text{seq}$ rows of logits.
# - The reference is constant: its log-probabilities can be computed once, before training, and its model unloaded. With
#   LoRA it is the policy with its adapters switched off.
#
# Answer: `16 * pairs * seq * vocab / 1e9` GB, within 5 %. Settings: `pairs` 2, 8; `seq` 1024, 4096; `vocab` 32000,
# 128256.
#
# Source: TRL, DPO Trainer, https://huggingface.co/docs/trl/dpo_trainer.
#
# ### The log-probability of the chosen responses falls during training. Is that a bug?
#
# - No: only the difference counts, and both may fall as long as the rejected one falls faster.
# - It happens above all when the two differ in a few tokens. A term that keeps the chosen one likely prevents it.
#
# Source: Pal et al. 2024, arXiv:2402.13228.
