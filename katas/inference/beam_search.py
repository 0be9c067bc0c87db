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
#
# **Builds on** sampling. **Sources:** Graves 2012: Sequence Transduction with Recurrent Neural Networks,
# [arXiv:1211.3711](https://arxiv.org/abs/1211.3711); Wu et al. 2016: Google's Neural Machine Translation System (length
# penalty), [arXiv:1609.08144](https://arxiv.org/abs/1609.08144).
#
# House rules hold: docs/house_rules.md.

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
    raise NotImplementedError


# %% tags=["active-ipynb"]
# import sys
#
# sys.path.append("../..")  # the project
# from dojo import check
#
# check("beam_search")
