# %% [markdown]
# # KL estimators
#
# $$\mathrm{KL}(p \parallel q) = \sum_y p_y (\ln p_y - \ln q_y), \qquad x = \ln q_y - \ln p_y$$
#
# $$k_1 = -x, \qquad k_2 = \tfrac12 x^2, \qquad k_3 = e^x - 1 - x$$
#
# How far has the policy $p$ moved from the reference $q$? The sum over all classes is exact. From two log-probabilities
# of each token that the policy drew it can be estimated: the mean of $k_3$ is the exact value, as that of $k_1$ is;
# that of $k_2$ is only near.
#
# **Write** three functions. `...` stands for any leading dimensions.
#
# - `token_logprobs(logits, token_ids)`, from `(..., vocab)` and int64 ids `(...)`, gives the log-probability of each
#   token, `(...)`.
# - `kl_estimates(logp, ref_logp)`, from log-probabilities of tokens, gives `(k1, k2, k3)`, element by element.
# - `kl_exact(logits, ref_logits)`, from `(..., vocab)` twice, policy first, gives the sum over all classes, `(...)`.
#
# All of PyTorch is allowed.
#
# **Example.** Two tokens with `logp = [-1, -2]` and `ref_logp = [-1.5, -1]`: $x$ is `-0.5` and `1`. So `k1` is
# `[0.5, -1]`, `k2` is `[0.125, 0.5]` and `k3` is `[0.10653, 0.71828]`. With $p = (\frac34, \frac14)$ and
# $q = (\frac12, \frac12)$ the exact value is $\frac34 \ln \frac32 + \frac14 \ln \frac12 = 0.13081$.
#
# **Builds on** cross_entropy. **Sources:** Schulman 2020: Approximating KL Divergence,
# https://joschu.net/blog/kl-approx.html; Shao et al. 2024: DeepSeekMath (GRPO, with k3),
# [arXiv:2402.03300](https://arxiv.org/abs/2402.03300).
#
# House rules hold: docs/house_rules.md.

# %% [markdown] tags=["contract"]
# <details><summary>Contract: Extremes, Ruled-out classes, Half precision</summary>
#
# - **Extremes.** A token of probability $e^{-150}$ has that log-probability, and estimates. These are what the formulas
#   give, however large: verl and OpenRLHF, the other school, clamp theirs at 10, and their mean is no longer the KL.
# - **Ruled-out classes.** A class with the logit `-inf` under the policy adds 0 to the exact value, even where the
#   reference rules it out too, and makes no nan in gradients. Where the policy may draw what the reference rules out,
#   the value is infinite.
# - **Half precision.** Differences, exponentials and sums are computed in float32, and rounded once, at the end.
#
# </details>

# %% tags=["active-ipynb", "example"]
# # The example, in numbers
# import math
#
# for x in (-0.5, 1.0):
#     print(f"x {x:4}: k1 {-x:.3f}, k2 {x * x / 2:.3f}, k3 {math.exp(x) - 1 - x:.5f}")
# p, q = (0.75, 0.25), (0.5, 0.5)
# print(f"exact {sum(a * math.log(a / b) for a, b in zip(p, q)):.5f}")
# print(f"mean of k3 {sum(a * (b / a - 1 - math.log(b / a)) for a, b in zip(p, q)):.5f}")

# %%
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor


# %%
def token_logprobs(logits: Float[Tensor, "*batch vocab"], token_ids: Int[Tensor, "*batch"]) -> Float[Tensor, "*batch"]:
    """The log-probability of each token under its row of logits."""
    raise NotImplementedError


# %%
def kl_estimates(
    logp: Float[Tensor, "*batch"], ref_logp: Float[Tensor, "*batch"]
) -> tuple[Float[Tensor, "*batch"], Float[Tensor, "*batch"], Float[Tensor, "*batch"]]:
    """k1 = -x, k2 = x²/2 and k3 = exp(x) - 1 - x of each token, where x = ref_logp - logp."""
    raise NotImplementedError


# %%
def kl_exact(
    logits: Float[Tensor, "*batch vocab"], ref_logits: Float[Tensor, "*batch vocab"]
) -> Float[Tensor, "*batch"]:
    """KL(p || q) of each row, the sum over all classes; p is the policy and q the reference."""
    raise NotImplementedError


# %% tags=["active-ipynb"]
# import sys
#
# sys.path.append("../..")  # the project
# from dojo import check
#
# check("kl_estimators")
