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
#
# **Builds on** lm_loss. **Sources:** Rafailov et al. 2023: Direct Preference Optimization,
# [arXiv:2305.18290](https://arxiv.org/abs/2305.18290); Mitchell 2023: A note on DPO with noisy preferences
# (conservative DPO), https://ericmitchell.ai/cdpo.pdf.
#
# House rules hold: docs/house_rules.md.

# %% [markdown] tags=["contract"]
# <details><summary>Contract: Left-out tokens, Large margins, Reference, Half precision</summary>
#
# - **Left-out tokens.** What the mask leaves out may have the logit `-inf`, and makes no nan in results or gradients. A
#   row without a response gives 0.
# - **Large margins.** Margins of ±10,000 give finite losses and gradients.
# - **Reference.** It is constant: no gradient flows to `ref_chosen` and `ref_rejected`.
# - **Half precision.** Log-probabilities, their sums and the margin are computed in float32 from the inputs on, and
#   rounded once: what is summed over a long response, and what is left of the difference of two sums, keeps its digits.
#
# </details>

# %% tags=["active-ipynb", "example"]
# # The example, in numbers
# import math
#
# print(f"response {math.log(1 / 4) + math.log(3 / 4):.5f}")
# margin = 0.5 * ((-5 - -9) - (-6 - -8))
# won, lost = math.log(1 + math.exp(-margin)), math.log(1 + math.exp(margin))
# print(f"margin {margin}, loss {won:.5f}, smoothed by 0.1 {0.9 * won + 0.1 * lost:.5f}")

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
    raise NotImplementedError


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
    raise NotImplementedError


# %% tags=["active-ipynb"]
# import sys
#
# sys.path.append("../..")  # the project
# from dojo import check
#
# check("dpo")
