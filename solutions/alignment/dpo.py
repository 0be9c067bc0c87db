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
#     title: Direct preference optimisation
#     level: 2
#     minutes: 20
#     builds_on: [lm_loss]
#     sources:
#       - "Rafailov et al. 2023: Direct Preference Optimization, arXiv:2305.18290"
#       - "Mitchell 2023: A note on DPO with noisy preferences (conservative DPO), https://ericmitchell.ai/cdpo.pdf"
# ---

# %% [markdown]
# # Direct preference optimisation
#
# $$\ell = -(1 - \varepsilon) \ln \sigma(m) - \varepsilon \ln \sigma(-m), \qquad
# m = \beta \big( (\pi_c - \pi_r) - (\rho_c - \rho_r) \big)$$
#
# One prompt, two responses, and a person who chose one of them. $\pi_c$ and $\pi_r$ are the log-probabilities of the
# chosen and of the rejected response under the policy, $\rho_c$ and $\rho_r$ those under the reference, the model
# before training. The loss asks the policy to prefer the chosen one by more than the reference does.
#
# **Write** two functions.
#
# - **`sequence_logprobs(logits, token_ids, response_mask)`** takes `(batch, seq, vocab)`, int64 ids of shape
#   `(batch, seq)`, and a boolean mask of shape `(batch, seq)`, where True says: this token is one of the response. It
#   returns the log-probability of each response, the *sum* over its tokens, of shape `(batch,)`. The logits at $t - 1$
#   predict token $t$; token 0 is never predicted, whatever its mask says.
# - **`dpo_loss(policy_chosen, policy_rejected, ref_chosen, ref_rejected, beta=0.1, label_smoothing=0.0)`** takes four
#   tensors of shape `(batch,)`. It returns the mean of $\ell$ over the batch, a tensor of no dimensions, with the dtype
#   of `policy_chosen`. $\varepsilon$ is `label_smoothing`: the share of pairs that are thought to be labelled the wrong
#   way around. Nothing is divided by $1 - 2\varepsilon$.
# - **No response**, or `seq` 1, gives the log-probability 0, with gradients of 0.
# - **A token left out** may have the logit `-inf`. It makes no nan, in the result or in the gradient.
# - **The reference is constant**: no gradient flows to `ref_chosen` and `ref_rejected`.
# - **Margins** $m$ of ±10,000 give finite losses and gradients. At the first step the policy is the reference and
#   every margin is 0: the loss is $\ln 2$, and the gradient of a pair is $\mp\beta / 2$ divided by the batch, if
#   $\varepsilon$ is 0.
# - **float16 and bfloat16** are computed in float32 and rounded once, at the end. float64 in, float64 out; float32
#   accuracy is enough.
# - **Inputs are not modified**, and may be non-contiguous or expanded. Gradients flow to `logits`, `policy_chosen` and
#   `policy_rejected`. No loops over rows, positions or classes.
# - **A `ValueError`** whose message holds the values: `token_ids` of another shape than `logits` without its last
#   dimension; `response_mask` of another shape than `token_ids`; `beta` not above 0; `label_smoothing` outside of
#   `[0, 0.5)`.
# - **Not graded:** ids outside the vocabulary, logits that are nan or infinite elsewhere, and unlike shapes in
#   `dpo_loss`.
#
# All of PyTorch is allowed, `F.logsigmoid` included.
#
# **Example.** `token_ids = [[0, 1, 1, 0]]`, logits $(\ln 3, 0)$ everywhere, so that token 0 has probability 3/4, and
# `response_mask = [[F, F, T, T]]`: the response has $\ln \frac14 + \ln \frac34 = -1.67398$. One pair with the
# log-probabilities `-5`, `-9`, `-6`, `-8` and `beta=0.5` has $m = 0.5\,(4 - 2) = 1$ and the loss
# $\ln(1 + e^{-1}) = 0.31326$. With `label_smoothing=0.1` it is `0.41326`.

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
# `log_softmax` of the logits but the last in float32, `gather` of the tokens but the first, `torch.where` with the
# mask, a sum over the row. Then `F.logsigmoid` of the margin and of its negative, `detach` for the reference.

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
    """The log-probability of each row's response: the sum over the tokens whose mask is True, but for token 0.

    Raises:
        ValueError: shapes do not fit.
    """
    ### BEGIN SOLUTION
    if token_ids.shape != logits.shape[:-1]:
        raise ValueError(f"token_ids of shape {tuple(token_ids.shape)} do not fit logits of {tuple(logits.shape)}")
    if response_mask.shape != token_ids.shape:
        raise ValueError(f"response_mask of {tuple(response_mask.shape)} for token_ids of {tuple(token_ids.shape)}")
    log_p = torch.log_softmax(logits.to(torch.promote_types(logits.dtype, torch.float32)), dim=-1)
    of_token = log_p[:, :-1].gather(-1, token_ids[:, 1:, None])[..., 0]
    kept = response_mask[:, 1:]
    return torch.where(kept, of_token, 0.0).sum(dim=-1).to(logits.dtype)
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

    Raises:
        ValueError: beta is not above 0, or label_smoothing is outside of [0, 0.5).
    """
    ### BEGIN SOLUTION
    if beta <= 0:
        raise ValueError(f"beta={beta} is not above 0")
    if not 0 <= label_smoothing < 0.5:
        raise ValueError(f"label_smoothing={label_smoothing} is outside of [0, 0.5)")
    wide = torch.promote_types(policy_chosen.dtype, torch.float32)
    chosen, rejected = policy_chosen.to(wide), policy_rejected.to(wide)
    reference = (ref_chosen.to(wide) - ref_rejected.to(wide)).detach()
    margin = beta * ((chosen - rejected) - reference)
    loss = -(1 - label_smoothing) * F.logsigmoid(margin) - label_smoothing * F.logsigmoid(-margin)
    return loss.mean().to(policy_chosen.dtype)
    ### END SOLUTION


# %% [markdown] tags=["solution"]
# ## Why it is done this way
#
# The policy that earns the most reward $r$ at a price of $\beta$ for its KL to the reference is
# $\pi \propto \rho\, e^{r / \beta}$. Turned around, $r = \beta (\ln \pi - \ln \rho) + \beta \ln Z$: the policy's own
# log-ratio is a reward. $Z$ belongs to the prompt, so it cancels in the difference of two responses. What is left is
# logistic regression on pairs: $\sigma(m)$ is the probability that the chosen one wins.
#
# The sum, not the mean: a response's probability is the product of its tokens'. The gradient is
# $-\beta\, \sigma(-m)$ times the gradient of $\pi_c - \pi_r$: pairs that are ordered wrongly count most.
#
# $\ln \sigma(m) = \min(m, 0) - \ln(1 + e^{-|m|})$ is what `logsigmoid` computes. The sigmoid itself is 0 in float32
# below $-89$.
#
# **What it costs.** Four forward passes, two of them with gradients, and two models in memory. The loss itself takes
# $O(t\, n)$ time for $t$ tokens and $n$ classes. The logits dominate: $4\, t\, n$ bytes in float32 for each model.
#
# ## The other formulation
#
# Implicit rewards: $\beta(\pi_c - \rho_c)$ and $\beta(\pi_r - \rho_r)$, and the loss of their difference. It is the
# same margin, and the two numbers are worth logging: how often the first is larger is the accuracy. In PyTorch the loss
# is also `F.binary_cross_entropy_with_logits(m, 1 - ε)`.
#
# ## The usual mistakes
#
# - Logits and tokens not shifted: the log-probabilities are those of repeating.
# - The prompt counted. It is the same in both responses, yet not always tokenised to the same length.
# - A mean over tokens: another loss, with another $\beta$.
# - The reference with a gradient: if it shares weights with the policy it is trained the other way.
# - `log(sigmoid(m))`: infinite as soon as a pair is ordered very wrongly.

# %% tags=["active-ipynb", "solution"]
# # The loss of one pair by its margin, and how hard it pulls; smoothed, it stops at ln((1 - ε) / ε)
# import torch
# from matplotlib import pyplot as plt
#
# figure, axes = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
# margins, zero = torch.linspace(-6, 8, 150), torch.zeros(1)
# for smoothing in (0.0, 0.1, 0.3):
#     points = [margin.view(1).requires_grad_() for margin in margins]
#     losses = [dpo_loss(point, zero, zero, zero, beta=1.0, label_smoothing=smoothing) for point in points]
#     pulls = [-torch.autograd.grad(loss, point)[0].item() for loss, point in zip(losses, points)]
#     axes[0].plot(margins, [loss.item() for loss in losses], label=f"ε = {smoothing}")
#     axes[1].plot(margins, pulls, label=f"ε = {smoothing}")
# for axis, title in zip(axes, ("loss", "minus its gradient")):
#     axis.set(xlabel="margin", title=title)
#     axis.legend()
# plt.show()

# %% [markdown] tags=["solution", "questions"]
# ## What interviewers ask next
#
# ### Where did the reward model go?
#
# - The best policy under a KL penalty is $\rho\, e^{r/\beta} / Z$, so every policy is the best one for some reward.
# - That reward, $\beta \ln (\pi / \rho)$ up to a constant of the prompt, is put into the Bradley-Terry likelihood.
#
# Source: Rafailov et al. 2023, section 4, arXiv:2305.18290.
#
# ### What does $\beta$ do?
#
# - It is the price of the KL. A small one lets the policy go far before a pair counts as won: $m$ grows slowly.
# - A margin of 2 needs log-ratios that differ by 20 with $\beta = 0.1$, and by 4 with $\beta = 0.5$.
#
# Source: Rafailov et al. 2023, section 4, arXiv:2305.18290.
#
# ### The log-probability of the chosen responses falls during training. Is that a bug?
#
# - No: only the difference counts, and both may fall as long as the rejected one falls faster.
# - It happens above all when the two differ in a few tokens. A term that keeps the chosen one likely prevents it.
#
# Source: Pal et al. 2024, arXiv:2402.13228.
#
# ### Why do DPO models write longer answers?
#
# - Chosen answers tend to be longer, and a sum over more tokens can move the margin further.
# - Remedies: a penalty on length in the margin, or log-probabilities per token, as in SimPO, which needs no reference.
#
# Source: Park et al. 2024, arXiv:2403.19159; Meng et al. 2024, arXiv:2405.14734.
#
# ### What does label smoothing assume?
#
# - That a share $\varepsilon$ of labels is turned around. The best margin is $\ln((1 - \varepsilon) / \varepsilon)$,
#   2.2 for 0.1, and no longer infinite.
# - Robust DPO turns the sign of the second term and divides by $1 - 2\varepsilon$: in the mean over wrong labels that
#   is the loss of the right ones.
#
# Source: Chowdhury et al. 2024, arXiv:2403.00409.
#
# ### How do you avoid holding a second model?
#
# - The reference is constant, so its log-probabilities can be computed once, before training.
# - With LoRA the reference is the same model with its adapters switched off.
#
# Source: TRL, DPO Trainer, https://huggingface.co/docs/trl/dpo_trainer.
#
# ### When would you rather use PPO?
#
# - DPO learns from fixed pairs: what the policy comes to write may be far from all of them.
# - PPO samples from the policy and asks a reward model, which costs more, and wins where rewards can be checked.
#
# Source: Xu et al. 2024, arXiv:2404.10719.
