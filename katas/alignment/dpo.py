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
#
# **Builds on** lm_loss. **Sources:** Rafailov et al. 2023: Direct Preference Optimization,
# [arXiv:2305.18290](https://arxiv.org/abs/2305.18290); Mitchell 2023: A note on DPO with noisy preferences
# (conservative DPO), https://ericmitchell.ai/cdpo.pdf.
#
# House rules hold: docs/house_rules.md.

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
    """The log-probability of each row's response: the sum over the tokens whose mask is True, but for token 0.

    Raises:
        ValueError: shapes do not fit.
    """
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

    Raises:
        ValueError: beta is not above 0, or label_smoothing is outside of [0, 0.5).
    """
    raise NotImplementedError


# %% tags=["active-ipynb"]
# import sys
#
# sys.path.append("../..")  # the project
# from dojo import check
#
# check("dpo")
