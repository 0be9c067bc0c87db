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
# `torch.log_softmax` of both in float32; `gather` for the tokens; for the sum over classes `torch.where` with 0 where
# the policy's probability is 0.

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
    ### BEGIN SOLUTION
    if token_ids.shape != logits.shape[:-1]:
        raise ValueError(f"token_ids of shape {tuple(token_ids.shape)} do not fit logits of {tuple(logits.shape)}")
    vocab = logits.shape[-1]
    outside = (token_ids < 0) | (token_ids >= vocab)
    if outside.any():
        raise ValueError(f"token {token_ids[outside][0].item()} is outside of [0, {vocab})")
    log_p = torch.log_softmax(logits.to(torch.promote_types(logits.dtype, torch.float32)), dim=-1)
    return log_p.gather(-1, token_ids[..., None])[..., 0].to(logits.dtype)
    ### END SOLUTION


# %%
def kl_estimates(
    logp: Float[Tensor, "*batch"], ref_logp: Float[Tensor, "*batch"]
) -> tuple[Float[Tensor, "*batch"], Float[Tensor, "*batch"], Float[Tensor, "*batch"]]:
    """k1 = -x, k2 = x²/2 and k3 = exp(x) - 1 - x of each token, where x = ref_logp - logp.

    Raises:
        ValueError: the shapes differ.
    """
    ### BEGIN SOLUTION
    if logp.shape != ref_logp.shape:
        raise ValueError(f"logp of shape {tuple(logp.shape)}, but ref_logp of {tuple(ref_logp.shape)}")
    wide = torch.promote_types(logp.dtype, torch.float32)
    x = ref_logp.to(wide) - logp.to(wide)
    k1, k2, k3 = -x, x.square() / 2, torch.expm1(x) - x
    return k1.to(logp.dtype), k2.to(logp.dtype), k3.to(logp.dtype)
    ### END SOLUTION


# %%
def kl_exact(
    logits: Float[Tensor, "*batch vocab"], ref_logits: Float[Tensor, "*batch vocab"]
) -> Float[Tensor, "*batch"]:
    """KL(p || q) of each row, the sum over all classes; p is the policy and q the reference.

    Raises:
        ValueError: the shapes differ.
    """
    ### BEGIN SOLUTION
    if logits.shape != ref_logits.shape:
        raise ValueError(f"logits of shape {tuple(logits.shape)}, but ref_logits of {tuple(ref_logits.shape)}")
    acc = torch.promote_types(logits.dtype, torch.float32)
    log_policy = torch.log_softmax(logits.to(acc), dim=-1)
    log_ref = torch.log_softmax(ref_logits.to(acc), dim=-1)
    p = log_policy.exp()
    difference = torch.where(p > 0, log_policy - log_ref, 0.0)
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
# $x = 10^{-3}$ in float32 $k_3 = 5 \cdot 10^{-7}$ is right to 4 digits, without `expm1` hardly to one.
#
# **What it costs.** The estimates take $O(1)$ a token beside the two forward passes. The exact value takes $O(n)$, and
# both models' logits at once: with a vocabulary of 128,000 a million bytes a token in float32.
#
# ## The other formulation
#
# Cross-entropy minus entropy: $-\sum p \ln q + \sum p \ln p$. The same number, with a cancellation where the two are
# near. `F.kl_div(log_ref, log_policy, log_target=True)` is the same KL, with its arguments the other way around, and
# nan where both are `-inf`.
#
# ## The usual mistakes
#
# - Policy and reference swapped: $k_1$ changes its sign, $k_2$ hides it, $k_3$ becomes $e^{-x} - 1 + x$, whose mean may
#   explode.
# - $\mathrm{KL}(q \parallel p)$: it needs samples of the reference.
# - $|k_1|$ "because a KL is not negative": its mean is not the KL.
# - A mean over the vocabulary instead of the sum.
# - A small number inside the logarithm: infinite becomes 20, and nobody sees it.

# %% tags=["active-ipynb", "solution"]
# # One token's estimate, and what the mean over many tells as the policies part
# import torch
# from matplotlib import pyplot as plt
#
# x = torch.linspace(-2.5, 2.5, 101)
# shift = torch.linspace(0, 3, 50)[:, None]
# noise = torch.randn(2, 20, generator=torch.Generator().manual_seed(0))
# policy, reference = noise[0].expand(50, 20), noise[0] + shift * noise[1]
# logs = policy.log_softmax(-1), reference.log_softmax(-1)
# means = [(logs[0].exp() * k).sum(-1) for k in kl_estimates(*logs)]
# figure, axes = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
# for number, (one, mean) in enumerate(zip(kl_estimates(torch.zeros(101), x), means), 1):
#     axes[0].plot(x, one, label=f"k{number}")
#     axes[1].plot(kl_exact(policy, reference), mean, ["-", "-", "--"][number - 1], label=f"mean of k{number}")
# axes[0].set(xlabel="x = ref_logp - logp", title="of one token")
# axes[1].set(xlabel="exact KL", title="its mean over the policy's tokens: k2 is biased")
# for axis in axes:
#     axis.legend()
# plt.show()

# %% [markdown] tags=["solution", "questions"]
# ## What interviewers ask next
#
# ### Why not use $k_1$, which is unbiased?
#
# - A KL is small and $k_1$ is not: single terms of both signs are much larger than their mean.
# - $k_3$ adds a term of mean 0 that is correlated with $k_1$, a control variate: the mean stays, the variance falls.
#
# Source: Schulman 2020, Approximating KL Divergence, https://joschu.net/blog/kl-approx.html.
#
# ### When is $k_3$ worse than $k_1$?
#
# - $e^x$ has a heavy tail: a token that the policy drew, though the reference gives it a hundred times as much, adds
#   94.
# - Its variance may be infinite where $q / p$ is unbounded; $k_1$ grows only with the logarithm.
#
# Source: Schulman 2020, Approximating KL Divergence, https://joschu.net/blog/kl-approx.html.
#
# ### Is the gradient of an unbiased estimate unbiased?
#
# - No: the samples depend on the policy too. The gradient of the mean of $k_1$ at fixed samples has the mean 0.
# - That of $k_2$ has as its mean the gradient of $\mathrm{KL}(p \parallel q)$, that of $k_3$ the gradient of
#   $\mathrm{KL}(q \parallel p)$.
#
# Source: Tang, Munos 2025, arXiv:2506.09477.
#
# ### Where does PPO put the KL, and where does GRPO?
#
# - RLHF with PPO subtracts $\beta k_1$ from the reward of each token: no gradient flows through it.
# - GRPO adds $\beta k_3$ to the loss and differentiates it.
#
# Source: Shao et al. 2024, section 4.1, arXiv:2402.03300.
#
# ### What does the direction of the KL change?
#
# - $\mathrm{KL}(p \parallel q)$ punishes what the reference would not say: the policy may keep to one of its modes.
# - $\mathrm{KL}(q \parallel p)$ punishes what the policy no longer says: it must cover all modes, and needs samples of
#   the reference.
#
# Source: Agarwal et al. 2023, arXiv:2306.13649.
#
# ### When would you pay for the exact value?
#
# - In distillation: the teacher's whole distribution is the signal, and a gradient for all classes is less noisy.
# - It is exact for one token after a given prefix; over sequences it is still an estimate from samples.
#
# Source: Agarwal et al. 2023, arXiv:2306.13649.
#
# ### The samples come from an older policy. What now?
#
# - All three are wrong: their means are taken under another distribution.
# - Each is multiplied by the ratio of new to old probability, whose gradient is then part of the KL's gradient.
#
# Source: Tang, Munos 2025, arXiv:2506.09477.
