# ---
# jupyter:
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

# %% [markdown] tags=["contract"]
# - **Candidates.** The best of all stay, however many have one parent.
# - **Finished texts.** They stay in the beam, each a candidate as it is, and compete with live ones by the plain sum.
# - **Impossible tokens.** One of log-probability `-inf` never enters. The beam may so be narrower than `beam_width`.
# - **Prompt.** It counts neither in the sum nor in the length. One that ends in `eos_id` is extended like any other.
# - **Cost.** `step` is called once a round, with at most `beam_width` prefixes, and not again once all are finished.
#   Nothing in Python grows with the vocabulary.

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
# The beam is three tensors: tokens `(beam, length)`, sums `(beam,)`, and which of them are finished. What are all
# candidates of a round, as one tensor of sums?

# %% [markdown] tags=["hint"]
# `(sums[:, None] + logprobs).flatten().topk(beam_width)`: a place divided by the vocabulary is the parent, its
# remainder the token. A finished row has one candidate: `eos_id`, at no cost.

# %% [markdown] tags=["hint"]
# Reorder everything by `index_select(0, parents)`: tokens and lengths. Count lengths apart, for finished rows go on
# growing by `eos_id`. Divide by `lengths**length_penalty` at the end, and sort again.

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
    ### BEGIN SOLUTION
    tokens = torch.tensor([prompt])
    sums = torch.zeros(1)
    lengths = torch.zeros(1, dtype=torch.int64)
    finished = torch.zeros(1, dtype=torch.bool)
    for _ in range(max_new_tokens):
        if finished.all():
            break
        logprobs = step(tokens)
        vocab = logprobs.shape[1]
        is_eos = torch.arange(vocab) == eos_id
        as_it_is = torch.where(is_eos, 0.0, -torch.inf).to(logprobs)  # the only candidate of a finished row
        logprobs = torch.where(finished[:, None], as_it_is, logprobs)
        candidates = (sums[:, None] + logprobs).flatten()
        sums, places = candidates.topk(min(beam_width, len(candidates)))
        parents, new = places // vocab, places % vocab
        lengths = (lengths + ~finished).index_select(0, parents)
        tokens = torch.cat([tokens.index_select(0, parents), new[:, None]], dim=1)
        finished = new == eos_id  # what was finished has gone on by eos_id alone

    scores = sums / lengths**length_penalty
    best = scores.argsort(descending=True)
    rows = zip(tokens[best, len(prompt) :].tolist(), lengths[best].tolist(), scores[best].tolist(), strict=True)
    return [(row[:length], score) for row, length, score in rows if score > -math.inf]
    ### END SOLUTION


# %% [markdown] tags=["solution"]
# ## Why it is done this way
#
# **No exact search.** A sum falls with every token, so a hypothesis that was pruned might still have become the best.
# With a beam wider than the number of all texts nothing is pruned, and it is one.
#
# **One tensor of candidates.** The `topk` of all sums decides for all rows at once, on the device. A finished row goes
# through it with a single candidate, `eos_id` at no cost, so shapes are the same in every round.
#
# **The penalty at the end.** Within a round nearly all candidates are equally long, so plain sums are fair. At the end
# longer texts would lose by length alone: $\alpha = 1$ compares means per token.
#
# **What it costs.** A row of the model for each hypothesis and round. The candidates of a beam of 4 at GPT-2's
# vocabulary are 201,028 sums: 0.8 MB in float32, a `topk` of microseconds on a GPU, and Python lists and tuples of some
# 40 MB a round where a loop makes them. The KV cache is reordered like the tokens, and that is the price: at 131 kB a
# token, as in Llama 3 8B, 4 texts of 8,192 tokens are 4.3 GB, 2.6 ms on an H100 to read and write, beside the 6.1 ms
# of the step.
#
# ## The other formulation
#
# Hypotheses as Python objects: take the best `beam_width` tokens of each row by `topk`, for no row can give more, and
# sort these `beam_width**2` candidates in Python.
#
# The other school lets finished texts leave the beam, into a list of their own, and fills their places with live ones:
# whisper and fairseq until the list holds `beam_width` texts, transformers until no live one can win. It finds more,
# for longer. In `core` both pass.
#
# ## The usual mistakes
#
# - Each hypothesis keeps its own best token: that is greedy search, `beam_width` times.
# - `beam_width` copies of the prompt at the start: the beam stays copies of one text.
# - Something is not reordered by the parents: tokens, lengths, or the cache.
# - Finished texts extended after their end, or lost.
# - The result in the order of sums, although the penalty has changed it.

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
# ### A text of `short` tokens has the sum -6.0, one of `long` tokens -7.5. From which length penalty on does it win?
#
# - Each token adds a negative number: without a penalty the shorter text wins.
# - $6 / s^\alpha = 7.5 / l^\alpha$, so $\alpha = \ln 1.25 / \ln (l/s)$: 0.55 for 8 and 12 tokens.
# - GNMT divides by $((5 + |y|) / 6)^{\alpha}$ instead.
#
# Answer: `log(7.5 / 6) / log(long / short)`, within 5 %. Settings: `short` 5, 8; `long` 10, 12, 20.
#
# Source: Wu et al. 2016, section 7, arXiv:1609.08144.
#
# ### How many ms does it take to reorder the KV cache of Llama 3 8B on an H100: `beams` texts of `tokens` tokens?
#
# - 131 kB a token, read and written once, at 3.35 TB/s, in every round.
# - With pages and reference counts the children share their parent's pages, and only the last one is copied.
#
# Answer: `2 * 131072 * beams * tokens / 3.35e12 * 1e3` ms, within 5 %. Settings: `beams` 4, 8; `tokens` 2048, 8192.
#
# Source: Kwon et al. 2023, section 4.4, arXiv:2309.06180.
#
# ### Why do chat models sample and not search?
#
# - Open-ended text of maximal probability is dull and repeats itself; people write less predictably.
# - Where one answer is right, as in translation and speech, the mode is what one wants.
#
# Source: Holtzman et al. 2019, section 4, arXiv:1904.09751.
