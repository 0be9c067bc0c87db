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
#     title: Beam search
#     level: 3
#     minutes: 30
#     builds_on: [sampling]
#     sources:
#       - "Graves 2012: Sequence Transduction with Recurrent Neural Networks, arXiv:1211.3711"
#       - "Wu et al. 2016: Google's Neural Machine Translation System (length penalty), arXiv:1609.08144"
# ---

# %% [markdown]
# # Beam search
#
# $$\mathrm{score}(y) = \frac{1}{|y|^{\alpha}} \sum_{t} \log p(y_t \mid \text{prompt}, y_1 \dots y_{t-1})$$
#
# Greedy decoding takes the best token, and may never come to the best text. Beam search follows several texts at a
# time.
#
# **Write** `beam_search(step, prompt, beam_width, max_new_tokens, eos_id, length_penalty=0.0)`.
#
# - **The model** comes as a function: `step(prefixes)` takes an int64 tensor of shape `(rows, length)`, prompt and new
#   tokens of each row, and gives log-probabilities of the next token, `(rows, vocab)`. `prompt` is a list of ids.
# - **The beam** holds at most `beam_width` hypotheses, best first. It starts with one, which has no new token.
# - **A round** makes candidates. A finished hypothesis, one whose new tokens end in `eos_id`, is a candidate as it
#   stands. A live one gives a candidate for every token of the vocabulary. The best `beam_width` of all candidates are
#   the next beam: finished and live ones compete by the plain sum of their log-probabilities.
# - **It ends** when no hypothesis is live, or after `max_new_tokens` rounds.
# - **The answer** is a list of pairs `(tokens, score)`, sorted anew by score, best first. `tokens` is the list of new
#   ids, `eos_id` included; `score` is a float, the sum divided by `len(tokens) ** length_penalty`. The prompt counts
#   neither in the sum nor in the length.
# - **Of equal sums or scores** the earlier one comes first. Candidates stand in the order of the beam, those of one
#   hypothesis in the order of token ids; the last sort starts from the order of the beam.
# - **A token of log-probability `-inf`** makes no candidate. The beam may so be narrower than `beam_width`; if nothing
#   is left of it, the answer is `[]`.
# - **The prompt** is not modified. One that ends in `eos_id` is continued like any other.
# - **`step` is called once a round**, with the live hypotheses alone, in any order.
# - **Each call** starts afresh: the same prompt may come with another model.
# - **A `ValueError`**: `beam_width` or `max_new_tokens` below 1, with the value in the message, or an empty prompt.
# - **Not graded:** sums that differ by less than 1e-3 without being equal, scores beyond five digits, time. float32 is
#   enough.
#
# **Example.** The first token is A with probability 0.6 or B with 0.4. Behind A, the possible tokens have 0.55 and
# 0.45; behind B, one has 0.9. Greedy search finds $0.6 \cdot 0.55 = 0.33$. With `beam_width=2` A and B both stay, and
# $0.4 \cdot 0.9 = 0.36$ wins.

# %% tags=["active-ipynb", "example"]
# # The example, in numbers
# first = {"A": 0.6, "B": 0.4}
# second = {"A": {"x": 0.55, "y": 0.45}, "B": {"x": 0.1, "y": 0.9}}
# for width in (1, 2):
#     beam = sorted(first, key=first.get, reverse=True)[:width]
#     found = {a + b: first[a] * p for a in beam for b, p in second[a].items()}
#     best = max(found, key=found.get)
#     print(f"width {width}: {best} with probability {found[best]:.2f}")

# %% [markdown] tags=["hint"]
# A hypothesis is its new tokens and their sum. Whether it is finished can be seen from its last token.

# %% [markdown] tags=["hint"]
# In each round: collect the live ones and call `step` with them, if there are any; go through the beam, and put what is
# finished among the candidates as it is; sort; cut. `sorted` keeps equal entries in their order, `reverse=True` too.

# %% [markdown] tags=["hint"]
# Start with `beam = [([], 0.0)]`. Rows for `step` are `[*prompt, *tokens]`. A live hypothesis gives
# `[(tokens + [token], total + logprob) for token, logprob in enumerate(row) if logprob > -math.inf]`. At the end divide
# each total, and sort again.

# %%
import math
from collections.abc import Callable

import torch
from torch import Tensor


# %%
def beam_search(
    step: Callable[[Tensor], Tensor],
    prompt: list[int],
    beam_width: int,
    max_new_tokens: int,
    eos_id: int,
    length_penalty: float = 0.0,
) -> list[tuple[list[int], float]]:
    """At most `beam_width` pairs of new tokens and score, best first.

    `step` takes prefixes (rows, length), int64, and gives the log-probabilities of their next tokens (rows, vocab).

    Raises:
        ValueError: beam_width or max_new_tokens is below 1, or the prompt is empty.
    """
    ### BEGIN SOLUTION
    if beam_width < 1 or max_new_tokens < 1:
        raise ValueError(f"{beam_width=} and {max_new_tokens=} must be at least 1")
    if not prompt:
        raise ValueError(f"{prompt=} is empty")
    beam: list[tuple[list[int], float]] = [([], 0.0)]
    for _ in range(max_new_tokens):
        live = [tokens for tokens, _ in beam if tokens[-1:] != [eos_id]]
        if not live:
            break
        logprobs = step(torch.tensor([[*prompt, *tokens] for tokens in live]))
        rows = iter(logprobs.tolist())
        candidates = []
        for tokens, total in beam:
            if tokens not in live:
                candidates.append((tokens, total))
                continue
            for token, logprob in enumerate(next(rows)):
                if logprob > -math.inf:
                    candidates.append(([*tokens, token], total + logprob))
        beam = sorted(candidates, key=lambda each: each[1], reverse=True)[:beam_width]
    scored = [(tokens, total / len(tokens) ** length_penalty) for tokens, total in beam]
    return sorted(scored, key=lambda each: each[1], reverse=True)
    ### END SOLUTION


# %% [markdown] tags=["solution"]
# ## Why it is done this way
#
# A text's log-probability is a sum over its tokens, and each further token can only lower it. So a hypothesis that has
# been pruned might still have become the best: beam search is no exact search. With a beam wider than the number of all
# texts nothing is pruned, and it is one.
#
# Finished hypotheses stay in the beam and hold a place. A short text with a good sum is not lost, and the search can
# end early: when all are finished, nothing can come any more. Sums are compared without the length penalty, since
# within a round most candidates have the same length.
#
# Because a sum falls with every token, longer texts are worse by length alone. Dividing by $|y|^{\alpha}$ corrects it
# at the end: $\alpha = 1$ compares the mean per token.
#
# **What it costs.** $O(T \cdot B)$ rows of the model for $T$ rounds and a beam of $B$, in $T$ calls, and
# $O(T B V \log (B V))$ for sorting all candidates of a vocabulary $V$; a selection of the best $B$ takes $O(T B V)$.
# The cache of keys and values takes $B$ times the bytes of one text, unless the common beginning is shared.
#
# ## The other formulation
#
# On tensors: add the sums $(B, 1)$ to the log-probabilities $(B, V)$, flatten, `topk`. The place divided by $V$ is the
# parent, its remainder the token; finished rows are masked but for one entry. That stays on the device, and the cache
# is reordered by `index_select` with the parents. Of equal sums `topk` may take any.
#
# transformers takes the best $2B$ candidates of each round: finished ones go into a pool of their own, and $B$ live
# ones go on. It then keeps searching where the beam here is full of finished texts.
#
# ## The usual mistakes
#
# - Each hypothesis keeps its own best token: that is greedy search, $B$ times.
# - $B$ copies of the prompt at the start: the beam stays $B$ copies of one text.
# - Finished texts extended behind their end, or thrown away.
# - The length penalty used while searching, so that short texts are held against long ones in each round.
# - The result in the order of sums, although the penalty has changed it.

# %% tags=["active-ipynb", "solution"]
# # The beam's tree: what was looked at, what stayed, and what won
# import torch
# from matplotlib import pyplot as plt
#
# rows = [[0.05, 0.55, 0.3, 0.1], [0.15, 0.37, 0.27, 0.21], [0.05, 0.1, 0.05, 0.8], [0.87, 0.02, 0.07, 0.04]]
# table = torch.tensor(rows).log()
# asked = []
#
#
# def step(prefixes):
#     asked.extend(prefixes.tolist())
#     return table[prefixes[:, -1]]
#
#
# found = beam_search(step, [0], beam_width=2, max_new_tokens=3, eos_id=0)
# places, kept = {(0,): (0.0, 0.0)}, {(0, *tokens[:n]) for tokens, _ in found for n in range(len(tokens) + 1)}
# for prefix in asked:
#     x, y = places[tuple(prefix)]
#     for token, logprob in enumerate(table[prefix[-1]].tolist()):
#         child = (*prefix, token)
#         places[child] = (x + 1, y + logprob)
#         stays = child in kept or list(child) in asked
#         plt.plot([x, x + 1], [y, y + logprob], color="C0" if stays else "lightgray", zorder=1 + stays)
#         plt.text(x + 1.03, y + logprob, "end" if token == 0 else f"{token}", color="black" if stays else "gray")
# best = (0, *found[0][0])
# plt.plot(*zip(*(places[best[:n]] for n in range(1, len(best) + 1))), color="C1", linewidth=3, zorder=3)
# plt.xticks(range(4))
# plt.xlabel("new tokens")
# plt.ylabel("sum of log-probabilities")
# plt.title("Gray was pruned. The first token 1 looked better, and 2 has won")
# plt.show()

# %% [markdown] tags=["solution", "questions"]
# ## What interviewers ask next
#
# ### Does a wider beam always find a better text?
#
# - Not even a more probable one: what a wider beam lets in may push out the prefix that would have won.
# - In translation quality falls beyond widths of 5 to 10: the most probable texts are often empty or too short.
#
# Source: Koehn and Knowles 2017, Six Challenges for Neural Machine Translation, section 3.6, arXiv:1706.03872.
#
# ### Why is a length penalty needed?
#
# - Each token adds a negative number: without correction the shortest text wins.
# - Dividing by the length to the power $\alpha$ is common; GNMT divides by $((5 + |y|) / 6)^{\alpha}$.
#
# Source: Wu et al. 2016, section 7, arXiv:1609.08144.
#
# ### When may the search stop early?
#
# - When all hypotheses of the beam are finished.
# - Without a penalty also once the best finished sum is above the best live one: sums only fall.
# - With a penalty only by a bound: the live sum divided by the greatest length to the power $\alpha$.
#
# Source: Huang, Zhao, Ma 2017, When to Finish? Optimal Beam Search for Neural Text Generation, arXiv:1809.00069.
#
# ### Why do chat models sample and not search?
#
# - Open-ended text of maximal probability is dull and repeats itself; people write less predictably.
# - Where one answer is right, as in translation and speech, the mode is what one wants.
#
# Source: Holtzman et al. 2019, section 4, arXiv:1904.09751.
#
# ### What must be done to the KV cache in each round?
#
# - Rows are reordered: the cache of a child is that of its parent, which may have several children or none.
# - With pages and reference counts the children share their parent's pages, and only the last one is copied.
#
# Source: Kwon et al. 2023, section 4.4, arXiv:2309.06180.
#
# ### How do you get beams that differ?
#
# - Texts of a beam mostly share all but a few tokens.
# - Diverse beam search divides the beam into groups, and takes something off a token that another group has chosen.
# - Or sample without replacement: beam search on log-probabilities with Gumbel noise.
#
# Source: Vijayakumar et al. 2016, arXiv:1610.02424; Kool et al. 2019, arXiv:1903.06059.
