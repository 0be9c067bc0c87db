# ---
# jupyter:
#   dojo:
#     title: KL estimators
#     level: 2
#     minutes: 12
#     builds_on: [cross_entropy]
#     sources:
#       - "Schulman 2020: Approximating KL Divergence, https://joschu.net/blog/kl-approx.html"
#       - "Shao et al. 2024: DeepSeekMath (GRPO, with k3), arXiv:2402.03300"
# ---

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

# %% [markdown] tags=["contract"]
# - **Extremes.** A token of probability $e^{-150}$ has that log-probability, and estimates. These are what the formulas
#   give, however large: verl and OpenRLHF, the other school, clamp theirs at 10, and their mean is no longer the KL.
# - **Ruled-out classes.** A class with the logit `-inf` under the policy adds 0 to the exact value, even where the
#   reference rules it out too, and makes no nan in gradients. Where the policy may draw what the reference rules out,
#   the value is infinite.
# - **Half precision.** Differences, exponentials and sums are computed in float32, and rounded once, at the end.

# %% tags=["active-ipynb", "example"]
# # The example, in numbers
# import math
#
# for x in (-0.5, 1.0):
#     print(f"x {x:4}: k1 {-x:.3f}, k2 {x * x / 2:.3f}, k3 {math.exp(x) - 1 - x:.5f}")
# p, q = (0.75, 0.25), (0.5, 0.5)
# print(f"exact {sum(a * math.log(a / b) for a, b in zip(p, q)):.5f}")
# print(f"mean of k3 {sum(a * (b / a - 1 - math.log(b / a)) for a, b in zip(p, q)):.5f}")

# %% [markdown] tags=["hint"]
# All three functions begin with log-probabilities. Which operation makes them from logits without an underflow?

# %% [markdown] tags=["hint"]
# $0 \cdot \infty$ is nan, and so is $\infty - \infty$. Take such classes out before the product, not after it.

# %% [markdown] tags=["hint"]
# `F.log_softmax` of both in float32; `gather` for the tokens; for the sum over classes `torch.where` with 0 where the
# policy's probability is 0.

# %%
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor


# %%
def token_logprobs(logits: Float[Tensor, "*batch vocab"], token_ids: Int[Tensor, "*batch"]) -> Float[Tensor, "*batch"]:
    """The log-probability of each token under its row of logits."""
    ### BEGIN SOLUTION
    log_p = F.log_softmax(logits, dim=-1, dtype=torch.promote_types(logits.dtype, torch.float32))
    return log_p.gather(-1, token_ids[..., None]).squeeze(-1).to(logits.dtype)
    ### END SOLUTION


# %%
def kl_estimates(
    logp: Float[Tensor, "*batch"], ref_logp: Float[Tensor, "*batch"]
) -> tuple[Float[Tensor, "*batch"], Float[Tensor, "*batch"], Float[Tensor, "*batch"]]:
    """k1 = -x, k2 = x²/2 and k3 = exp(x) - 1 - x of each token, where x = ref_logp - logp."""
    ### BEGIN SOLUTION
    acc = torch.promote_types(logp.dtype, torch.float32)
    x = ref_logp.to(acc) - logp.to(acc)
    k1, k2, k3 = -x, 0.5 * x.square(), torch.expm1(x) - x
    return k1.to(logp.dtype), k2.to(logp.dtype), k3.to(logp.dtype)
    ### END SOLUTION


# %%
def kl_exact(
    logits: Float[Tensor, "*batch vocab"], ref_logits: Float[Tensor, "*batch vocab"]
) -> Float[Tensor, "*batch"]:
    """KL(p || q) of each row, the sum over all classes; p is the policy and q the reference."""
    ### BEGIN SOLUTION
    acc = torch.promote_types(logits.dtype, torch.float32)
    log_p = F.log_softmax(logits, dim=-1, dtype=acc)
    log_q = F.log_softmax(ref_logits, dim=-1, dtype=acc)
    p = log_p.exp()
    difference = torch.where(p > 0, log_p - log_q, 0.0)
    return (p * difference).sum(dim=-1).to(logits.dtype)
    ### END SOLUTION


# %% [markdown] tags=["solution"]
# ## Why it is done this way
#
# $k_1$ is what stands under the expectation, so its mean is the KL. It is negative for every token that the reference
# likes better, and such terms cancel: a mean over few tokens is noisy, and may be negative.
#
# $k_3 = k_1 + (e^x - 1)$. What is added has the mean $\sum_y p_y (q_y / p_y - 1) = 0$, so the mean stays, and because
# $e^x \ge 1 + x$ no term is negative. $k_2$ is the first term of its series: small where policies are near, and
# biased where they are not.
#
# `where` stands between the difference and the product. Where both logits are `-inf` the difference is nan; in the
# product with a probability of 0 it would stay nan, and its gradient too.
#
# `expm1` keeps the digits of $e^x - 1$ near 0. The last subtraction loses them again, for $e^x - 1 \approx x$: with
# $x = 10^{-3}$ in float32 $k_3 = 5 \cdot 10^{-7}$ is right to 4 digits, without `expm1` to 1 or 2.
#
# **What it costs.** The estimates take $O(1)$ a token beside the two forward passes. The exact value is memory-bound:
# it reads both models' logits, with the 128,256 tokens of Llama 3 a million bytes a token in float32, and makes five
# tables of their size on its way. Distillation therefore chunks the sequence, or keeps the teacher's top k.
#
# ## The other formulation
#
# Cross-entropy minus entropy: $-\sum p \ln q + \sum p \ln p$. The same number, with a cancellation where the two are
# near. `F.kl_div(log_q, log_p, log_target=True)` is the same KL, with its arguments the other way around, and nan where
# both are `-inf`.
#
# verl clamps: a token with $x = 5$ gives 10 instead of $k_3 = 142$. That bounds its gradient, and hides how far the
# policy has moved.
#
# ## The usual mistakes
#
# - Policy and reference swapped: $k_1$ changes its sign, $k_2$ hides it, $k_3$ becomes $e^{-x} - 1 + x$, whose mean may
#   explode.
# - $|k_1|$ "because a KL is not negative": its mean is not the KL.
# - A mean over the vocabulary instead of the sum, or a small number inside the logarithm: infinite becomes 20.

# %% [markdown] tags=["solution", "questions"]
# ## What interviewers ask next
#
# ### Why not $k_1$, which is unbiased?
#
# - A KL is small and $k_1$ is not: single terms of both signs are much larger than their mean.
# - $k_3$ adds a term of mean 0 that is correlated with $k_1$, a control variate: the mean stays, the variance falls.
#
# Source: Schulman 2020, Approximating KL Divergence, https://joschu.net/blog/kl-approx.html.
#
# ### What is $k_3$ of a token that the reference gives `ratio` times the policy's probability?
#
# - $e^x$ is that ratio, so it is the ratio, less 1, less its logarithm. It is never negative.
# - Its tail is heavy: at a ratio of 100 it is 94, where $k_1$ is -4.6. The variance may be infinite where $q / p$ is
#   unbounded; that of $k_1$ grows only with the logarithm.
#
# Answer: `ratio - 1 - log(ratio)` nats, within 3 %. Settings: `ratio` 0.1, 0.5, 2, 10, 100.
#
# Source: Schulman 2020, Approximating KL Divergence, https://joschu.net/blog/kl-approx.html.
#
# ### Is the gradient of an unbiased estimate unbiased?
#
# - No: the samples depend on the policy too. The gradient of the mean of $k_1$ at fixed samples has the mean 0.
# - That of $k_2$ has as its mean the gradient of $\mathrm{KL}(p \parallel q)$, that of $k_3$ the gradient of
#   $\mathrm{KL}(q \parallel p)$.
# - PPO subtracts $\beta k_1$ from the reward, with no gradient through it; GRPO adds $\beta k_3$ to the loss and
#   differentiates it.
#
# Source: Tang, Munos 2025, arXiv:2506.09477; Shao et al. 2024, section 4.1, arXiv:2402.03300.
#
# ### How many GB do both models' float32 logits take for the exact value of `tokens` tokens, a vocabulary of `vocab`?
#
# - Four bytes for each class, token and model; the gradient of the policy's takes as much again as its logits.
# - It pays in distillation: the teacher's whole distribution is the signal, and a gradient for all classes is less
#   noisy.
# - It is exact for one token after a given prefix; over sequences it is still an estimate from samples.
#
# Answer: `8 * tokens * vocab / 1e9` GB, within 5 %. Settings: `tokens` 1024, 8192, 65536; `vocab` 32000, 128256.
#
# Source: Agarwal et al. 2023, arXiv:2306.13649.
