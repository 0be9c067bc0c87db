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
#     title: Sampling the next token
#     level: 3
#     minutes: 25
#     builds_on: [softmax]
#     sources:
#       - "Holtzman et al. 2019: The Curious Case of Neural Text Degeneration (top-p), arXiv:1904.09751"
#       - "Nguyen et al. 2024: Turning Up the Heat, Min-p Sampling, arXiv:2407.01082"
# ---

# %% [markdown]
# # Sampling the next token
#
# $$p_i = \frac{e^{x_i / T}}{\sum_j e^{x_j / T}}, \qquad
# \mathrm{id}(u) = \min\, i \ \text{ with } \sum_{j \le i} p_j > u$$
#
# A model gives logits $x$. What is drawn from them is a choice: the temperature $T$ sharpens or flattens the
# distribution, filters cut its tail, and a uniform number $u$ picks a token.
#
# **Write two functions.**
#
# `next_token_logprobs(logits, temperature=1.0, top_k=None, top_p=None, min_p=None)` takes logits of shape
# `(..., vocab)` and gives the log-probabilities of the distribution to draw from, in the same shape: `-inf` for what is
# left out.
#
# `sample(logprobs, uniform)` takes log-probabilities of shape `(..., vocab)` and one number of $[0, 1)$ for each row,
# `(...)`. It gives token ids, int64 of shape `(...)`.
#
# - **The order** is temperature, top-k, top-p, min-p. Each filter works on the distribution that the one before has
#   left, renormalised, and what comes out is normalised.
# - **`top_k`** keeps exactly the `top_k` most probable tokens; all of them if there are no more.
# - **`top_p`** goes from the most probable token down. A token stays while the sum of those *before* it is below
#   `top_p`: the one that crosses stays, so one always does. `top_p=1.0` keeps every token, however float32 rounds.
# - **`min_p`** keeps what is at least `min_p` times as probable as the most probable token.
# - **Of equal logits** the lower ids come first, in all filters.
# - **`temperature=0`** gives the largest logit log-probability 0, whatever the filters. Their values are checked even
#   so.
# - **A logit of `-inf`** has probability 0. Large logits, as 1e4, do not overflow.
# - **`sample`** inverts the distribution function in the order of the vocabulary: the smallest id whose cumulative
#   probability exceeds `uniform`. An id of probability 0 is never drawn. Where rounding leaves the whole sum below
#   `uniform`, it is the last id of positive probability.
# - **Half precision.** `sample` renormalises, so log-probabilities that were rounded to float16 or bfloat16 are fine.
#   Both functions compute in float32; results of `next_token_logprobs` are rounded once. float64 in, float64 out;
#   float32 accuracy is enough.
# - **Inputs are not modified**, and may be non-contiguous or expanded. No gradients are asked for. No loops over rows
#   or tokens.
# - **A `ValueError`** whose message holds the value: `temperature` below 0; `top_k` below 1; `top_p` outside of
#   $(0, 1]$; `min_p` outside of $[0, 1]$; a uniform number outside of $[0, 1)$.
# - **Not graded:** rows of `-inf` alone, log-probabilities below -80, nan, `uniform` of another shape, and choices that
#   hang on less than 1e-3 of probability.
#
# Not allowed: `torch.multinomial` and `torch.distributions`. Every softmax is allowed.
#
# **Example.** Four tokens of probability 0.4, 0.3, 0.2, 0.1. `top_k=3` leaves $\tfrac49, \tfrac39, \tfrac29$. With
# `top_p=0.7` the sums before them are 0, 0.444 and 0.778: the first two stay, with $\tfrac47$ and $\tfrac37$. Their
# logarithms are $-0.5596$ and $-0.8473$. The uniform number 0.5 draws id 0, and 0.6 draws id 1.

# %% tags=["active-ipynb", "example"]
# # The example, in numbers
# import torch
#
# probs = torch.tensor([0.4, 0.3, 0.2, 0.1])
# top = probs[:3] / probs[:3].sum()
# before = top.cumsum(0) - top
# print("after top-k:", [round(p, 3) for p in top.tolist()], "sums before:", [round(p, 3) for p in before.tolist()])
# kept = top[before < 0.7]
# print("after top-p:", (kept / kept.sum()).log().tolist())

# %% [markdown] tags=["hint"]
# Sorted from the most probable down, every filter keeps the beginning of a row. What remains is the way back.

# %% [markdown] tags=["hint"]
# The sum before a token is the cumulative sum less its own probability. `scatter` with the indices of the sort puts
# each entry where it came from. `sort` has an argument that keeps equal entries in their order.

# %% [markdown] tags=["hint"]
# `x, order = (x / temperature).sort(descending=True, stable=True)`; fill with `-inf` what each filter drops; at the end
# `torch.empty_like(x).scatter(-1, order, torch.log_softmax(x, -1))`. For `sample`, count the entries of the cumulative
# sum that are at most `uniform`.

# %%
import torch
from jaxtyping import Float, Int
from torch import Tensor


# %%
def next_token_logprobs(
    logits: Float[Tensor, "*batch vocab"],
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    min_p: float | None = None,
) -> Float[Tensor, "*batch vocab"]:
    """The log-probabilities to draw from, -inf for what is left out: temperature, top-k, top-p, min-p, in this order.

    Half precision is computed in float32 and rounded once.

    Raises:
        ValueError: temperature, top_k, top_p or min_p is out of range.
    """
    ### BEGIN SOLUTION
    if temperature < 0:
        raise ValueError(f"temperature={temperature} is negative")
    if top_k is not None and top_k < 1:
        raise ValueError(f"top_k={top_k} is below 1")
    if top_p is not None and not 0 < top_p <= 1:
        raise ValueError(f"top_p={top_p} is outside of (0, 1]")
    if min_p is not None and not 0 <= min_p <= 1:
        raise ValueError(f"min_p={min_p} is outside of [0, 1]")
    if temperature == 0:
        best = logits.argmax(dim=-1, keepdim=True)
        return torch.full_like(logits, -torch.inf).scatter(-1, best, 0.0)
    wide = logits.to(torch.promote_types(logits.dtype, torch.float32))
    x, order = (wide / temperature).sort(dim=-1, descending=True, stable=True)
    if top_k is not None:
        rank = torch.arange(x.shape[-1], device=x.device)
        x = x.masked_fill(rank >= top_k, -torch.inf)
    if top_p is not None and top_p < 1:
        mass = torch.softmax(x, dim=-1)
        x = x.masked_fill(mass.cumsum(dim=-1) - mass >= top_p, -torch.inf)
    if min_p is not None:
        probs = torch.softmax(x, dim=-1)
        x = x.masked_fill(probs < min_p * probs[..., :1], -torch.inf)
    logprobs = torch.log_softmax(x, dim=-1)
    return torch.empty_like(logprobs).scatter(-1, order, logprobs).to(logits.dtype)
    ### END SOLUTION


def sample(logprobs: Float[Tensor, "*batch vocab"], uniform: Float[Tensor, "*batch"]) -> Int[Tensor, "*batch"]:
    """The smallest id whose cumulative probability exceeds the uniform number, int64.

    Raises:
        ValueError: a uniform number is outside of [0, 1).
    """
    ### BEGIN SOLUTION
    outside = (uniform < 0) | (uniform >= 1)
    if outside.any():
        raise ValueError(f"uniform number {uniform[outside][0].item()} is outside of [0, 1)")
    chances = torch.softmax(logprobs.to(torch.promote_types(logprobs.dtype, torch.float32)), dim=-1)
    below = chances.cumsum(dim=-1) <= uniform[..., None]
    possible = torch.arange(chances.shape[-1], device=chances.device) * (chances > 0)
    return torch.minimum(below.sum(dim=-1), possible.amax(dim=-1))
    ### END SOLUTION


# %% [markdown] tags=["solution"]
# ## Why it is done this way
#
# In sorted order every filter keeps a prefix: one sort serves them all, and one scatter brings the row back. A filter
# by a threshold on the logits needs no way back, but keeps all of several equal tokens.
#
# A token of the nucleus is judged by the sum before it. Judged by the sum with itself, the token that crosses would go,
# and a token of probability 0.95 with $p = 0.9$ would leave nothing.
#
# In float32 the cumulative sum of 50,000 probabilities reaches 1 long before the end: with $p = 1$ thousands of tokens
# would be lost, so that filter is skipped.
#
# Chance comes in as an argument. One uniform number for each row makes a draw that can be repeated, on any device, and
# tested without statistics: 4,096 evenly spaced numbers give each token its share to within one.
#
# **What it costs.** $O(n \log n)$ time a row for the sort of $n$ tokens, and $4 n$ to $8 n$ bytes for each of sorted
# logits, order and probabilities. For 256 rows of 128,000 tokens the order alone takes 262 MB. Selecting the 50
# largest first, and sorting only those, is what serving engines do.
#
# ## The other formulation
#
# Without a sort: top-p and top-k as thresholds found by bisection on the probability, a few passes over the row. It is
# what fused kernels do. The draw itself can be made by Gumbel noise: the argmax of $\log p_i + g_i$ has the
# distribution $p$, and needs one random number for each token instead of one for each row.
#
# ## The usual mistakes
#
# - The token that crosses `top_p` dropped.
# - The mask of the sorted row laid on the unsorted one.
# - Filters before the temperature: the nucleus is then that of another distribution.
# - $\ge$ for $>$ in the inversion: $u = 0$ draws the first id even if its probability is 0.
# - A cumulative sum that ends at 0.9999998, and an id one behind the vocabulary.

# %% tags=["active-ipynb", "solution"]
# # The nucleus adapts to the model, a fixed k does not
# import torch
# from matplotlib import pyplot as plt
#
# row = torch.randn(200, generator=torch.Generator().manual_seed(1)) * 2
# temperatures = torch.linspace(0.1, 2.5, 60).tolist()
# for told, kept in {"top_k=20": {"top_k": 20}, "top_p=0.9": {"top_p": 0.9}, "min_p=0.1": {"min_p": 0.1}}.items():
#     counts = [next_token_logprobs(row, t, **kept).isfinite().sum() for t in temperatures]
#     plt.plot(temperatures, counts, label=told)
# plt.xlabel("temperature: how flat the distribution is")
# plt.ylabel("tokens that may be drawn, of 200")
# plt.title("top-p and min-p let in more tokens where the model is unsure")
# plt.legend()
# plt.show()

# %% [markdown] tags=["solution", "questions"]
# ## What interviewers ask next
#
# ### What does the temperature do at 0 and at infinity?
#
# - Towards 0 the whole probability goes to the largest logit: greedy decoding.
# - Towards infinity all tokens become equally probable.
# - Dividing by 0 is nan, so 0 is a case of its own.
#
# Source: Hinton, Vinyals, Dean 2015, section 2, arXiv:1503.02531.
#
# ### Why not always take the most probable token?
#
# - Greedy text falls into loops: a repeated phrase makes its own repetition more probable.
# - Human text is not the most probable text: its probability jumps from token to token.
#
# Source: Holtzman et al. 2019, section 4, arXiv:1904.09751.
#
# ### When is top-p better than top-k?
#
# - A fixed k is too wide where the model is sure, and too narrow where many tokens are good.
# - The nucleus has as many tokens as hold the mass p, from 1 to thousands.
# - In a flat distribution the nucleus lets a long tail in; min-p scales its threshold with the largest probability.
#
# Source: Nguyen et al. 2024, section 3, arXiv:2407.01082.
#
# ### Does the order of temperature and filters matter?
#
# - For top-k no, for top-p and min-p yes: a high temperature flattens the distribution and widens the nucleus.
# - Libraries differ: transformers divides first, llama.cpp filters first by default. The same settings give other text.
#
# Source: transformers, generation utilities, https://huggingface.co/docs/transformers/internal/generation_utils.
#
# ### How would you test a sampler without statistics?
#
# - Make the uniform number an argument and feed $(i + \tfrac12)/N$: each token must come $N p$ times, to within 1.
# - Feed 0 and the largest number below 1: the first and the last token of positive probability.
#
# Source: Devroye 1986, Non-Uniform Random Variate Generation, chapter 2, https://luc.devroye.org/rnbookindex.html.
#
# ### Why do servers avoid the sort, and how?
#
# - A sort of 128,000 logits a row takes longer than many layers at small batches.
# - Rejection: draw by inversion, and draw again among the more probable if the token lies outside of the nucleus.
#
# Source: FlashInfer 2025, Sorting-Free GPU Kernels for LLM Sampling, https://flashinfer.ai/2025/03/10/sampling.html.
#
# ### Do log-probabilities that an API returns belong to the filtered distribution?
#
# - Often not: many return those of the model, before temperature and filters.
# - For importance ratios in reinforcement learning it matters: the policy that acted is the filtered one.
#
# Source: vLLM documentation, logprobs_mode, https://docs.vllm.ai/en/latest/configuration/engine_args.html.
