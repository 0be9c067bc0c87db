# %% [markdown]
# # Sampling the next token
#
# $$p_i = \frac{e^{x_i / T}}{\sum_j e^{x_j / T}}, \qquad
# \mathrm{id}(u) = \min\, i \ \text{ with } \sum_{j \le i} p_j > u$$
#
# A model gives logits $x$. What is drawn from them is a choice: the temperature $T$ sharpens or flattens the
# distribution, filters cut its tail, and a uniform number $u$ picks a token.
#
# **Write** `next_token_logprobs(logits, temperature=1.0, top_k=None, top_p=None, min_p=None)`: for logits
# `(..., vocab)` the log-probabilities to draw from, in the same shape, `-inf` for what is left out. `top_k` keeps the
# $k$ most probable tokens, `top_p` the fewest that together reach it, `min_p` those that are at least `min_p` times as
# probable as the best.
#
# **Write** `sample(logprobs, uniform)`: for log-probabilities `(..., vocab)` and numbers of $[0, 1)$ `(...)` token ids,
# int64 `(...)`.
#
# No gradients are asked for. Not allowed: `torch.multinomial` and `torch.distributions`.
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

# %% [markdown] tags=["contract"]
# <details><summary>Contract: Filter order, Nucleus, Greedy, Extremes, Id order, Ends, Half precision, Errors</summary>
#
# - **Filter order.** Temperature, top-k, top-p, min-p, as in transformers: each works on what the one before has left,
#   renormalized. vLLM has min-p first, llama.cpp the temperature last.
# - **Nucleus.** A token stays while the sum *before* it is below `top_p`: the one that crosses stays, so one always
#   does. `top_p=1.0` keeps every token, however float32 rounds.
# - **Greedy.** `temperature=0` gives the largest logit log-probability 0, whatever the filters.
# - **Extremes.** A logit of `-inf` has probability 0; logits of ±1e4, or 1,000 apart, neither overflow nor underflow;
#   `top_k` may exceed `vocab`.
# - **Id order.** `sample` sums in the order of the vocabulary, where Llama's code goes from the most probable down.
# - **Ends.** A `uniform` of 0, or so near 1 that rounded sums stay below it, draws an id of positive probability.
# - **Half precision.** Computed in float32, rounded once. `sample` renormalizes rounded log-probabilities.
# - **Errors.** A negative `temperature`; `top_p` outside of $(0, 1]$.
#
# </details>

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

    Half precision is computed in float32 and rounded once. Raises ValueError if temperature or top_p is out of range.
    """
    raise NotImplementedError


def sample(logprobs: Float[Tensor, "*batch vocab"], uniform: Float[Tensor, "*batch"]) -> Int[Tensor, "*batch"]:
    """The smallest id whose cumulative probability exceeds the uniform number, int64."""
    raise NotImplementedError


# %% tags=["active-ipynb"]
# import sys
#
# sys.path.append("../..")  # the project
# from dojo import check
#
# check("sampling")
