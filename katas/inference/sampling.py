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
#
# **Builds on** softmax. **Sources:** Holtzman et al. 2019: The Curious Case of Neural Text Degeneration (top-p),
# [arXiv:1904.09751](https://arxiv.org/abs/1904.09751); Nguyen et al. 2024: Turning Up the Heat, Min-p Sampling,
# [arXiv:2407.01082](https://arxiv.org/abs/2407.01082).
#
# House rules hold: docs/house_rules.md.

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
    raise NotImplementedError


def sample(logprobs: Float[Tensor, "*batch vocab"], uniform: Float[Tensor, "*batch"]) -> Int[Tensor, "*batch"]:
    """The smallest id whose cumulative probability exceeds the uniform number, int64.

    Raises:
        ValueError: a uniform number is outside of [0, 1).
    """
    raise NotImplementedError


# %% tags=["active-ipynb"]
# import sys
#
# sys.path.append("../..")  # the project
# from dojo import check
#
# check("sampling")
