# %% [markdown]
# # KL estimators
#
# $$\mathrm{KL}(p \parallel q) = \sum_y p_y (\ln p_y - \ln q_y), \qquad x = \ln q_y - \ln p_y$$
#
# $$k_1 = -x, \qquad k_2 = \tfrac12 x^2, \qquad k_3 = e^x - 1 - x$$
#
# How far has the policy $p$ moved from the reference $q$? The tokens were drawn from the policy. One needs only the
# two log-probabilities of each token for an estimate, and all logits for the exact value.
#
# **Write** three functions. `...` stands for any leading dimensions, none included.
#
# - **`token_logprobs(logits, token_ids)`** takes `(..., vocab)` and int64 ids of shape `(...)`. It returns the
#   log-probability of each token, of shape `(...)`.
# - **`kl_estimates(logp, ref_logp)`** takes log-probabilities of tokens under policy and reference, of one shape. It
#   returns a tuple `(k1, k2, k3)` of that shape, element by element.
# - **`kl_exact(logits, ref_logits)`** takes `(..., vocab)` twice, policy first. It returns the sum over all classes,
#   of shape `(...)`.
# - **The mean of** $k_3$ over the policy's tokens is the exact value, as that of $k_1$ is. That of $k_2$ is only near.
# - **A class of probability 0** under the policy, one with the logit `-inf`, adds 0 to the exact value, also if the
#   reference has none for it. It makes no nan in values or gradients.
# - **Infinity** is the exact value where the policy may draw what the reference rules out.
# - **Gradients** flow to both arguments of each function that are floating.
# - **float16 and bfloat16** are computed in float32 and rounded once, at the end. float64 in, float64 out; float32
#   accuracy is enough. `expm1(x) - x` and `exp(x) - 1 - x` are both right.
# - **Inputs are not modified**, and may be non-contiguous or expanded. No loops over positions or classes.
# - **A `ValueError`** whose message holds the values: an id outside of `[0, vocab)`; `token_ids` of another shape than
#   `logits` without its last dimension; two shapes that differ in the other two functions.
# - **Not graded:** gradients where the KL is infinite, rows of `-inf` alone, infinite log-probabilities, and $x > 80$,
#   where `exp` overflows.
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
from jaxtyping import Float, Int
from torch import Tensor


# %%
def token_logprobs(logits: Float[Tensor, "*batch vocab"], token_ids: Int[Tensor, "*batch"]) -> Float[Tensor, "*batch"]:
    """The log-probability of each token under its row of logits. Half precision is computed in float32.

    Raises:
        ValueError: an id is outside of the vocabulary, or shapes do not fit.
    """
    raise NotImplementedError


# %%
def kl_estimates(
    logp: Float[Tensor, "*batch"], ref_logp: Float[Tensor, "*batch"]
) -> tuple[Float[Tensor, "*batch"], Float[Tensor, "*batch"], Float[Tensor, "*batch"]]:
    """k1 = -x, k2 = x²/2 and k3 = exp(x) - 1 - x of each token, where x = ref_logp - logp.

    Raises:
        ValueError: the shapes differ.
    """
    raise NotImplementedError


# %%
def kl_exact(
    logits: Float[Tensor, "*batch vocab"], ref_logits: Float[Tensor, "*batch vocab"]
) -> Float[Tensor, "*batch"]:
    """KL(p || q) of each row, the sum over all classes; p is the policy and q the reference.

    Raises:
        ValueError: the shapes differ.
    """
    raise NotImplementedError


# %% tags=["active-ipynb"]
# import sys
#
# sys.path.append("../..")  # the project
# from dojo import check
#
# check("kl_estimators")
