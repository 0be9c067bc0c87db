# ---
# jupyter:
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

# %% [markdown] tags=["contract"]
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
# Each filter fills logits with `-inf`; the softmax of the next one renormalizes. Only top-p needs the tokens sorted,
# and then the way from sorted places to ids.

# %% [markdown] tags=["hint"]
# The sum before a token is the cumulative sum less its own probability. `scatter` with the indices of the sort puts
# each entry where it came from.

# %% [markdown] tags=["hint"]
# `probs, ids = torch.softmax(x, -1).sort(dim=-1, descending=True)`, `dropped = probs.cumsum(-1) - probs >= top_p`, and
# `dropped.scatter(-1, ids, dropped)` is in the order of the vocabulary. For `sample`: `torch.searchsorted(sums, u,
# right=True)`, with `u` scaled by the last of the sums, so that it stays below it.

# %% [markdown] tags=["idea"]
# A model gives each of its 128,256 tokens a probability, and one has to be chosen. Always the most probable one makes
# dull text that repeats itself. A fair draw has another fault: if 100,000 poor tokens have a millionth each, one draw
# in ten takes one of them, and all that follows builds on it.
#
# So the tail is cut off before the draw. A fixed number, top-k, keeps too many where the model is sure, and drops good
# ones where it is not. Top-p keeps as many as it takes to reach most of the probability, min-p those not far below the
# best: both follow the model. Temperature comes first: below 1 it sharpens the probabilities, above 1 it flattens them.
#
# The draw: lay the probabilities end to end, in the order of the vocabulary, on a line from 0 to 1. A random point on
# it falls on one token, and nothing of length 0 is ever hit.

# %% tags=["active-ipynb", "figure"]
# """Bars of ten probabilities, sure from 82 % down, unsure from 16 % down; lines above show how many tokens each filter
# keeps. top_k = 4 keeps 4 of both, top_p = 0.9 keeps 2 and 8, min_p = 0.1 keeps 2 and 10."""
# import matplotlib.pyplot as plt
#
# sure, unsure = (82, 10, 2, 1, 1, 1, 1, 1, 0.5, 0.5), (16, 14, 13, 12, 11, 10, 9, 7, 5, 3)
# panels = plt.figure(figsize=(7.6, 3.4)).subplots(1, 2, sharey=True)
# for axes, mood, probs, kept in zip(panels, ("sure", "unsure"), (sure, unsure), ((4, 2, 2), (4, 8, 10)), strict=True):
#     axes.bar(range(1, 11), probs, label="probability")
#     for n, (name, style) in enumerate((("top_k = 4", "-"), ("top_p = 0.9", "--"), ("min_p = 0.1", ":"))):
#         axes.plot([0.6, kept[n] + 0.4], [120 - 10 * n] * 2, f"C{n + 1}{style}", label=f"kept by {name}")
#     axes.set(xlabel=f"rank of the token, model {mood}", ylabel="probability in %", yticks=range(0, 81, 20))
# axes.legend(loc="center")

# %%
import torch
from jaxtyping import Float, Int
from torch import Tensor

# %% [markdown] tags=["step"]
# **The nucleus.** `probs` are sorted, the largest first. Which stay, so that the fewest together reach `top_p`?

# %% tags=["active-ipynb", "step"]
# def stays(probs: Float[Tensor, "vocab"], top_p: float) -> list[bool]:
#     """Whether each token stays."""
#     ### BEGIN SOLUTION
#     return [sum(probs[:rank].tolist()) < top_p for rank in range(len(probs))]
#     ### END SOLUTION

# %% [markdown] tags=["step-cases"]
# stays([0.5, 0.3, 0.15, 0.05], 0.7) = [True, True, False, False]
# stays([0.5, 0.3, 0.15, 0.05], 0.7) ≠ [True, False, False, False]: the token that crosses top_p is dropped; it stays
# stays([0.5, 0.3, 0.15, 0.05], 0.7) ≠ [True, True, True, False]: one too many; without it top_p is reached already
# stays([0.95, 0.05], 0.9) = [True, False]
# stays([0.95, 0.05], 0.9) ≠ [False, False]: no token is left; the one that crosses top_p stays, if it is the first too

# %% [markdown] tags=["step"]
# **Back to the vocabulary.** A row was sorted; `ids[i]` says which token stands at place `i`. Undo it.

# %% tags=["active-ipynb", "step"]
# def restored(row: Float[Tensor, "vocab"], ids: Int[Tensor, "vocab"]) -> Float[Tensor, "vocab"]:
#     """The row in the order of the vocabulary."""
#     ### BEGIN SOLUTION
#     return row[ids.argsort()]
#     ### END SOLUTION

# %% [markdown] tags=["step-cases"]
# restored([0.5, 0.3, 0.2], [2, 0, 1]) = [0.3, 0.2, 0.5]
# restored([0.5, 0.3, 0.2], [2, 0, 1]) ≠ [0.2, 0.5, 0.3]: taken from place ids[i]; entry i belongs at place ids[i]
# restored([0.5, 0.3, 0.2], [2, 0, 1]) ≠ [0.5, 0.3, 0.2]: still in sorted order

# %% [markdown] tags=["step"]
# **The draw.** The first id whose cumulative sum exceeds `u` times the whole sum, which rounding may leave below 1.

# %% tags=["active-ipynb", "step"]
# def drawn(probs: list[float], u: float) -> int:
#     """The token on which u falls."""
#     ### BEGIN SOLUTION
#     return min(i for i in range(len(probs)) if sum(probs[: i + 1]) > u * sum(probs))
#     ### END SOLUTION

# %% [markdown] tags=["step-cases"]
# drawn([0.2, 0.3, 0.1, 0.25, 0.15], 0.58) = 2
# drawn([0.2, 0.3, 0.1, 0.25, 0.15], 0.58) ≠ 3: the sum before the token is compared; compare the one with it
# drawn([0.2, 0.3, 0.1, 0.25, 0.15], 0.58) ≠ 0: drawn in the order of probability; the order is that of the vocabulary
# drawn([0.0, 0.4, 0.6], 0.0) = 1
# drawn([0.0, 0.4, 0.6], 0.0) ≠ 0: at least where it says exceeds; an id of probability 0 is drawn
# drawn([0.5, 0.4, 0.0], 0.95) = 1
# drawn([0.5, 0.4, 0.0], 0.95) ≠ 3: an id after the last; scale u by the whole sum
# drawn([0.5, 0.4, 0.0], 0.95) ≠ 2: the last id, whose probability is 0; scale u by the whole sum

# %% [markdown] tags=["experiment"]
# 1,000 poor tokens: how many are drawn at `temperature` 0.5, 1 and 2? Now set `top_p` to None and `min_p` to 0.1: why
# does heat not help the tail there? Further reading: Holtzman et al. 2019, arXiv:1904.09751, section 3.

# %% tags=["active-ipynb", "experiment"]
# temperature, top_k, top_p, min_p = 1.0, None, 0.9, None
# logits = torch.cat([torch.tensor([4.0, 3.5, 3.0, 2.0, 1.0]), torch.linspace(-6, -7, 1000)])
# logprobs = next_token_logprobs(logits, temperature, top_k, top_p, min_p)
# ids = sample(logprobs.expand(10000, -1), torch.rand(10000))
# print(f"{logprobs.isfinite().sum()} tokens kept, {(ids > 4).sum()} of 10000 draws poor")


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
    ### BEGIN SOLUTION
    if temperature < 0:
        raise ValueError(f"temperature={temperature} is negative")
    if top_p is not None and not 0 < top_p <= 1:
        raise ValueError(f"top_p={top_p} is outside of (0, 1]")
    if temperature == 0:
        best = logits.argmax(dim=-1, keepdim=True)
        return torch.full_like(logits, -torch.inf).scatter(-1, best, 0.0)
    x = logits.to(torch.promote_types(logits.dtype, torch.float32)) / temperature
    if top_k is not None:
        kth = x.topk(min(top_k, x.shape[-1]), dim=-1).values[..., -1:]
        x = x.masked_fill(x < kth, -torch.inf)
    if top_p is not None and top_p < 1:
        probs, ids = torch.softmax(x, dim=-1).sort(dim=-1, descending=True)
        dropped = probs.cumsum(dim=-1) - probs >= top_p
        x = x.masked_fill(dropped.scatter(-1, ids, dropped), -torch.inf)
    if min_p is not None:
        probs = torch.softmax(x, dim=-1)
        x = x.masked_fill(probs < min_p * probs.amax(dim=-1, keepdim=True), -torch.inf)
    return torch.log_softmax(x, dim=-1).to(logits.dtype)
    ### END SOLUTION


def sample(logprobs: Float[Tensor, "*batch vocab"], uniform: Float[Tensor, "*batch"]) -> Int[Tensor, "*batch"]:
    """The smallest id whose cumulative probability exceeds the uniform number, int64."""
    ### BEGIN SOLUTION
    probs = torch.softmax(logprobs, dim=-1, dtype=torch.promote_types(logprobs.dtype, torch.float32))
    sums = probs.cumsum(dim=-1)
    wanted = uniform[..., None] * sums[..., -1:]
    return torch.searchsorted(sums, wanted.contiguous(), right=True)[..., 0]
    ### END SOLUTION


# %% [markdown] tags=["solution"]
# ## Why it is done this way
#
# Each filter is a mask on the logits, so it can be left out, and the softmax of the next one renormalizes. Only top-p
# sorts; top-k needs no more than its threshold. Several tokens equal to the $k$th all stay, as everywhere in the field.
#
# A token of the nucleus is judged by the sum before it. Judged by the sum with itself, the token that crosses would go,
# and a token of probability 0.95 with $p = 0.9$ would leave nothing. In float32 the cumulative sum of 50,000
# probabilities reaches 1 long before the end, and $p = 1$ would lose thousands of tokens: that filter is skipped.
#
# Chance comes in as an argument. One uniform number for each row makes a draw that can be repeated and tested without
# statistics. Scaled by the last sum it stays below it, also where rounding has left that at 0.9999998; and where an id
# is impossible the sum does not grow, so the search never stops there.
#
# **What it costs.** $O(n \log n)$ a row for the sort of $n$ tokens, and 12 bytes a token for sorted probabilities and
# their ids: 393 MB at 256 rows of 128,000 tokens, written to HBM and read again. It is memory-bound, and launch-bound
# at small batches. Serving engines select the 50 or so largest first and go on with those.
#
# ## The other formulation
#
# Sort once, let every filter keep a prefix, scatter back at the end. Or no sort: the nucleus by bisection on the
# probability, or by rejection, as FlashInfer's kernels have it. The draw itself can be made by Gumbel noise: the argmax
# of $\log p_i + g_i$ has the distribution $p$, with one random number for each token instead of one for each row.
#
# ## The usual mistakes
#
# - The token that crosses `top_p` dropped.
# - The mask of the sorted row laid on the unsorted one.
# - $\ge$ for $>$ in the inversion: $u = 0$ draws the first id even if its probability is 0.
# - A cumulative sum that ends at 0.9999998, and an id one after the vocabulary.

# %% [markdown] tags=["solution", "questions"]
# ## What interviewers ask next
#
# ### Two logits are `gap` apart: how many times as probable is the better token at temperature `T`?
#
# - $T$ divides every gap, and the ratio of two probabilities is $e^{(x_i - x_j)/T}$. Their order does not change.
# - Towards 0 everything goes to the largest logit, greedy decoding; towards infinity all tokens are equally probable.
#
# Answer: `exp(gap / T)` times, within 5 %. Settings: `gap` 1, 2, 3; `T` 0.5, 1, 2.
#
# Source: Hinton, Vinyals, Dean 2015, section 2, arXiv:1503.02531.
#
# ### When is top-p better than top-k, and min-p better than both?
#
# - A fixed k is too wide where the model is sure, and too narrow where many tokens are good.
# - The nucleus has as many tokens as hold the mass p, from 1 to thousands.
# - In a flat distribution the nucleus lets a long tail in; min-p scales its threshold with the largest probability.
#
# Source: Nguyen et al. 2024, section 3, arXiv:2407.01082.
#
# ### How would you test a sampler without statistics?
#
# - Make the uniform number an argument and feed $(i + \tfrac12)/N$: each token must come $N p$ times, to within 1.
# - Feed 0 and the largest number below 1: the first and the last token of positive probability.
#
# Source: Devroye 1986, Non-Uniform Random Variate Generation, chapter 2, https://luc.devroye.org/rnbookindex.html.
#
# ### How many MB do sorted float32 probabilities and their int64 ids take for `rows` rows of `vocab` tokens?
#
# - 4 + 8 bytes a token. A radix sort of such keys and values passes over them several times: memory-bound, and at small
#   batches longer than many layers.
# - Servers avoid it: the largest first, or rejection. Draw by inversion, and draw again among the more probable if the
#   token lies outside of the nucleus.
#
# Answer: `12 * rows * vocab / 1e6` MB, within 5 %. Settings: `rows` 32, 256; `vocab` 32000, 128256.
#
# Source: FlashInfer 2025, Sorting-Free GPU Kernels for LLM Sampling, https://flashinfer.ai/2025/03/10/sampling.html.
