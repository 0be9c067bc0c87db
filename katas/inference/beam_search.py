# %% [markdown]
# # Beam search
#
# $$\mathrm{score}(y) = \frac{1}{|y|^{\alpha}} \sum_{t} \log p(y_t \mid \text{prompt}, y_1 \dots y_{t-1})$$
#
# **Write** `beam_search(step, prompt, beam_width, max_new_tokens, eos_id, length_penalty=0.0)`. `step(prefixes)` takes
# int64 `(rows, length)`, prompt and new tokens, and returns log-probabilities of the next token, `(rows, vocab)`.
# `prompt` is a list of ids.
#
# The beam starts with one hypothesis, which has no new token. In each of at most `max_new_tokens` rounds every
# hypothesis is extended by every token, and the `beam_width` largest sums of log-probabilities stay. One that ends in
# `eos_id` is finished, and extended no further. The search ends when all are.
#
# Return a list of pairs `(tokens, score)`, best score first: `tokens` is the list of new ids, `eos_id` included,
# `score` a float, with $\alpha$ = `length_penalty`.
#
# **Example.** The first token is A with probability 0.6 or B with 0.4. After A, the possible tokens have 0.55 and 0.45;
# after B, one has 0.9. Greedy search finds $0.6 \cdot 0.55 = 0.33$. With `beam_width=2` A and B both stay, and
# $0.4 \cdot 0.9 = 0.36$ wins.
#
# **Builds on** sampling. **Sources:** Graves 2012: Sequence Transduction with Recurrent Neural Networks,
# [arXiv:1211.3711](https://arxiv.org/abs/1211.3711); Wu et al. 2016: Google's Neural Machine Translation System (length
# penalty), [arXiv:1609.08144](https://arxiv.org/abs/1609.08144).
#
# House rules hold: docs/house_rules.md.

# %% [markdown] tags=["contract"]
# <details><summary>Contract: Candidates, Finished texts, Impossible tokens, Prompt, Cost</summary>
#
# - **Candidates.** The best of all stay, however many have one parent.
# - **Finished texts.** They stay in the beam, each a candidate as it is, and compete with live ones by the plain sum.
# - **Impossible tokens.** One of log-probability `-inf` never enters. The beam may so be narrower than `beam_width`.
# - **Prompt.** It counts neither in the sum nor in the length. One that ends in `eos_id` is extended like any other.
# - **Cost.** `step` is called once a round, with at most `beam_width` prefixes, and not again once all are finished.
#   Nothing in Python grows with the vocabulary.
#
# </details>

# %% tags=["active-ipynb", "example"]
# # The example, in numbers
# first = {"A": 0.6, "B": 0.4}
# second = {"A": {"x": 0.55, "y": 0.45}, "B": {"x": 0.1, "y": 0.9}}
# for width in (1, 2):
#     beam = sorted(first, key=first.get, reverse=True)[:width]
#     found = {a + b: first[a] * p for a in beam for b, p in second[a].items()}
#     best = max(found, key=found.get)
#     print(f"width {width}: {best} with probability {found[best]:.2f}")

# %%
import math
from collections.abc import Callable

import torch
from jaxtyping import Float, Int
from torch import Tensor


# %%
def beam_search(
    step: Callable[[Int[Tensor, "rows length"]], Float[Tensor, "rows vocab"]],
    prompt: list[int],
    beam_width: int,
    max_new_tokens: int,
    eos_id: int,
    length_penalty: float = 0.0,
) -> list[tuple[list[int], float]]:
    """At most `beam_width` pairs of new tokens and score, best first."""
    raise NotImplementedError


# %% tags=["active-ipynb"]
# import sys
#
# sys.path.append("../..")  # the project
# from dojo import check
#
# check("beam_search")
