# ---
# jupyter:
#   dojo:
#     title: Decoding, from greedy to speculative
#     level: 3
#     minutes: 60
#     builds_on: [sampling, generate, speculative]
#     sources:
#       - "Holtzman et al. 2019: The Curious Case of Neural Text Degeneration (top-p), arXiv:1904.09751"
#       - "Leviathan et al. 2022: Fast Inference from Transformers via Speculative Decoding, arXiv:2211.17192"
# ---

# %% [markdown]
# # Decoding, from greedy to speculative
#
# One file grows from a greedy loop to a step of speculative decoding. A causal language model is given, and stays as
# it is: `model(ids)` takes int64 `(batch, seq)` and gives logits `(batch, seq, vocab)`. It has no cache. All prompts of
# a batch have the same length.

# %% [markdown] tags=["stage"]
# ## Stage 1 · 8 min
#
# "You have a model that gives logits. Write the loop that continues a batch of prompts greedily."
#
# `ids` are the prompts `(batch, seq)`; the result is `(batch, max_new_tokens)`.
#
# ```python
# def decode(model, ids, max_new_tokens):
#     """Continue the prompts `ids (batch, seq)`, and give the new tokens, `(batch, max_new_tokens)`."""
#     ...
# ```

# %% [markdown] tags=["contract"]
# - **Result.** The new ids alone, int64; none where none are asked for. `ids` is left as it was.
# - **Graph.** None: the model runs without autograd.
# - **Cost.** One call of the model a token, for the whole batch. No loop over rows or the vocabulary, at any stage.

# %% [markdown] tags=["hint"]
# The next token hangs on the logits of the last place alone. What does the model have to see in the next round?

# %% [markdown] tags=["stage"]
# ## Stage 2 · 17 min
#
# "Greedy text repeats itself. Add temperature, top-k and top-p. I want to repeat a run exactly, so chance comes in as
# an argument."
#
# `uniforms` are float32 numbers of $[0, 1)$, `(batch, max_new_tokens)`: one draws one token.
#
# ```python
# def decode(model, ids, max_new_tokens, temperature=1.0, top_k=None, top_p=None, uniforms=None):
#     """Tokens are drawn by the numbers `uniforms (batch, max_new_tokens)`."""
#     ...
# ```

# %% [markdown] tags=["contract"]
# - **Greedy.** Where `temperature` is 0, or no `uniforms` are given.
# - **Order.** Temperature, top-k, top-p: each works on what the one before has left, renormalized. `top_k` may exceed
#   the vocabulary.
# - **Crossing token.** A token stays while the sum of the more probable ones is below `top_p`: the one that crosses it
#   stays. `top_p=1` keeps every token, however float32 rounds.
# - **Draw.** The smallest id at which the running sum of probabilities, in the order of ids, exceeds the number. Always
#   an id of positive probability: at a number of 0, and where rounded sums stay below one near 1.
# - **Half precision.** Probabilities and sums are float32.

# %% [markdown] tags=["hint"]
# Put the new part into functions of their own: from logits to probabilities, and from probabilities and numbers to ids.
# The loop then changes in one line.

# %% [markdown] tags=["hint"]
# Only top-p needs a sort, and `scatter` takes its mask back to the order of ids. The draw is
# `torch.searchsorted(sums, wanted, right=True)` in `probs.cumsum(-1)`; scale the number by the last sum.

# %% [markdown] tags=["stage"]
# ## Stage 3 · 10 min
#
# "Answers have an end. Each row stops at its own stop token, and the batch goes on until all have stopped."
#
# The result is `(batch, n)`, `n` at most `max_new_tokens`.
#
# ```python
# def decode(
#     model, ids, max_new_tokens, temperature=1.0, top_k=None, top_p=None, uniforms=None, stop_id=None, pad_id=0
# ):
#     """A row ends with `stop_id` and holds `pad_id` from there on."""
#     ...
# ```

# %% [markdown] tags=["contract"]
# - **Stop.** The first new `stop_id` is kept, and ends the row. One in the prompt ends nothing. Without a `stop_id` no
#   row ends.
# - **After.** `pad_id`, whatever the model says. The model may emit `pad_id` too, which ends nothing; and it may be the
#   stop id.
# - **End.** When all rows have ended: the longest row gives `n`, and the model is not called again.
# - **Uniforms.** Row `b` draws its token of step `t` by `uniforms[b, t]`, whichever rows have ended.

# %% [markdown] tags=["hint"]
# Keep a boolean `(batch,)` of rows that have ended, and overwrite their tokens before you look for new ends.

# %% [markdown] tags=["stage"]
# ## Stage 4 · 25 min
#
# "A small draft model proposes `k` tokens, and the large one checks them all at once. Write one round, so that the text
# is distributed as if the large model had drawn every token. Temperature 1, no filters."
#
# `accept_uniforms` `(k,)` decide on draft tokens. Of `draw_uniforms` `(k + 1,)` the first `k` draw the draft tokens,
# the last one the token that follows those accepted. Draws are those of stage 2.
#
# ```python
# def speculate(model, draft, ids, k, accept_uniforms, draw_uniforms):
#     """One round for the prompt `ids (1, seq)`: the new tokens `(1, n)`, from 1 to `k + 1` of them."""
#     ...
# ```

# %% [markdown] tags=["contract"]
# - **Acceptance.** With $p$ of the model and $q$ of the draft a token is accepted where $u q < p$, up to the first that
#   is not.
# - **Rejection.** In the place of the first rejected token one is drawn from the positive part of $p - q$, normalized.
# - **All accepted.** One more token is drawn, from the model's distribution after the last.
# - **Calls.** One of the model, and `k` of the draft.
# - **Zero.** A token with $p = 0$ is never taken, whatever the numbers are.

# %% [markdown] tags=["hint"]
# Show on paper that an accepted $x$ comes with probability $\min(p, q)$. What is missing to $p$, and how often does a
# round get there?

# %% [markdown] tags=["hint"]
# The model's last `k + 1` places are the distributions of the `k` draft tokens and of one more. Accepted tokens are a
# cumulative product. Give $q$ a row of zeros for that last place, and both kinds of draw are one.

# %%
import torch
import torch.nn.functional as F


# %%
### BEGIN SOLUTION
def probabilities(logits, temperature=1.0, top_k=None, top_p=None):
    """What tokens are drawn from, `(..., vocab)` in float32: temperature, then top-k, then top-p."""
    x = logits.float() / temperature
    if top_k is not None:
        kth = x.topk(min(top_k, x.shape[-1]), dim=-1).values[..., -1:]
        x = x.masked_fill(x < kth, -torch.inf)
    probs = torch.softmax(x, dim=-1)
    if top_p is not None and top_p < 1:
        sorted_probs, order = probs.sort(dim=-1, descending=True)
        dropped = sorted_probs.cumsum(dim=-1) - sorted_probs >= top_p
        probs = probs.masked_fill(dropped.scatter(-1, order, dropped), 0.0)
    return probs


def draw(weights, uniforms):
    """For weights `(..., vocab)`, which need not sum to 1, the smallest id whose running sum exceeds the number."""
    sums = weights.cumsum(dim=-1)
    return torch.searchsorted(sums, uniforms[..., None] * sums[..., -1:], right=True)[..., 0]


@torch.no_grad()
def decode(model, ids, max_new_tokens, temperature=1.0, top_k=None, top_p=None, uniforms=None, stop_id=None, pad_id=0):
    """The new tokens `(batch, n)` of the prompts `ids (batch, seq)`, each row up to its stop id, then `pad_id`.

    They are drawn by `uniforms (batch, max_new_tokens)`, or greedy where there are none or the temperature is 0.
    """
    text, ended = ids, torch.zeros(len(ids), dtype=torch.bool, device=ids.device)
    for step in range(max_new_tokens):
        logits = model(text)[:, -1]
        if uniforms is None or temperature == 0:
            new = logits.argmax(dim=-1)
        else:
            new = draw(probabilities(logits, temperature, top_k, top_p), uniforms[:, step])
        new = new.masked_fill(ended, pad_id)
        text = torch.cat([text, new[:, None]], dim=1)
        if stop_id is not None:
            ended = ended | (new == stop_id)
            if ended.all():
                break
    return text[:, ids.shape[1] :]


@torch.no_grad()
def speculate(model, draft, ids, k, accept_uniforms, draw_uniforms):
    """One round for the prompt `ids (1, seq)`: the accepted draft tokens and one more, `(1, n)`."""
    text, seq, q = ids, ids.shape[1], []
    for i in range(k):
        q.append(probabilities(draft(text)[:, -1]))
        text = torch.cat([text, draw(q[-1], draw_uniforms[i : i + 1])[:, None]], dim=1)
    drafted = text[0, seq:]
    q = F.pad(torch.cat(q), (0, 0, 0, 1))  # nothing is drafted after the last place
    p = probabilities(model(text)[0, seq - 1 :])

    rows = torch.arange(k, device=ids.device)
    accepted = accept_uniforms * q[rows, drafted] < p[rows, drafted]
    count = int(accepted.cumprod(dim=0).sum())
    residual = (p[count] - q[count]).clamp_min(0)
    last = draw(residual, draw_uniforms[k])
    return torch.cat([drafted[:count], last[None]])[None]


### END SOLUTION

# %% [markdown] tags=["solution"]
# ## Stage by stage
#
# **The loop.** The next token hangs on the last place alone. Without a cache each round feeds the whole text: a prompt
# of 1,000 tokens and 1,000 new ones take 1.5 million token positions, where a KV cache takes 1,999, 750 times fewer.
#
# **What it costs.** For Llama 3 70B in bfloat16 on eight H100 a token of one text takes 5.3 ms, the time to read its
# weights, 141 GB; the loop around it, filters and draw, reads 0.5 MB of logits.
#
# **Sampling.** Filters are masks, and the draw scales its number by the last sum: so nothing is renormalized, rounded
# sums never end below the number, and where an id is impossible the sum does not grow. With chance as an argument a run
# can be repeated, and tested without statistics. Only top-p sorts: 128,256 float32 keys with their int64 ids, 1.5 MB a
# row, move some 12 MB in four passes, 4 µs of an H100's HBM. For one row it is launch-bound, for 256 it takes 0.9 ms.
#
# **Ends.** `ended` is a mask, and the tokens of such rows are overwritten; they go through the model all the same. A
# loop that asks `ended.all()` waits for the device once a round. Servers launch the next step before they look, and let
# a waiting request take the row.
#
# **Speculation.** An accepted $x$ comes with probability $q \min(1, p / q) = \min(p, q)$. A round is rejected with
# probability $\sum \max(p - q, 0)$, just the sum of what is missing, so drawing from it gives $p$ exactly. Llama 3 70B
# on eight H100 reads its weights in 5.3 ms, the draft of 8B in 0.6 ms: with $k = 4$ and 80 percent accepted a round of
# 7.7 ms gives 3.4 tokens, 2.3 times the throughput. The result's length is a value: one wait a round.
#
# ## The usual mistakes
#
# - Logits of the whole batch read at the first place; the prompt in the result.
# - The token that crosses top-p dropped; the mask of the sorted row laid on the unsorted one.
# - `if stop_id:`, which a stop id of 0 passes; rows that come alive again after their end.
# - After a rejection a draw from $p$, or by the number that drew the rejected token: neither leaves $p$.

# %% [markdown] tags=["solution", "questions"]
# ## What interviewers ask next
#
# ### How many tokens does a round give where each of `k` draft tokens is accepted with probability `a`?
#
# - $1 + a + \dots + a^k = (1 - a^{k+1}) / (1 - a)$: the $i$th draft token counts where all before it were accepted.
# - The limit is $1 / (1 - a)$, however long the draft. $a$ is the mean of $\sum \min(p, q)$.
#
# Answer: `(1 - a**(k + 1)) / (1 - a)` tokens, within 5 %. Settings: `k` 3, 5, 8; `a` 0.5, 0.7, 0.9.
#
# Source: Leviathan et al. 2022, section 3.1, arXiv:2211.17192.
#
# ### When does speculation lose?
#
# - When a round of $1 + k c$ passes gives fewer tokens than that, a draft pass taking $c$ of the model's: a poor draft,
#   or a slow one. With $c = 0.1$ and $k = 4$ half of the tokens accepted still give 1.4 times, a fifth 0.9 times.
# - At large batches, where decoding is compute-bound: every rejected token takes throughput from another request.
# - Prefill gains nothing, nor does TTFT: it is compute-bound already.
#
# Source: Liu et al. 2024, Optimizing Speculative Decoding for Serving LLMs Using Goodput, arXiv:2406.14066.
#
# ### How many MB does a radix sort move for `rows` rows of 128,256 float32 logits and int64 ids in `passes` passes?
#
# - Each pass reads and writes 12 bytes a token; four passes of 8 bits sort 32-bit keys.
# - One row is 12 MB, 4 µs at 3.35 TB/s, less than the launches. 256 rows are 3.2 GB, 0.9 ms.
# - Cheaper: top-k first and the nucleus among those 50, a bisection on the probability, or rejection as in FlashInfer.
#
# Answer: `2 * 12 * rows * 128256 * passes / 1e6` MB, within 5 %. Settings: `rows` 1, 32, 256; `passes` 4, 8.
#
# Source: Adinets, Merrill 2022, Onesweep: A Faster Least Significant Digit Radix Sort for GPUs, arXiv:2206.01784.
#
# ### How would you test that a round does not change the distribution?
#
# - Exactly: a vocabulary of five, $k = 1$, and all numbers on a grid. Each token must come as often as $p$ says, to
#   within the grid.
# - By parts: with the draft equal to the model all is accepted; with a draft that the model bans nothing is.
# - By statistics last: $\chi^2$ on 100,000 first tokens finds a draw from $p$ after a rejection, and hides rare bugs.
#
# Source: Leviathan et al. 2022, appendix A.1, arXiv:2211.17192.

# %% [markdown] tags=["solution", "signals"]
# ### Stage 1
#
# Strong: says that only the last place counts, and what the missing cache costs; writes `no_grad` unasked; runs it on a
# model of three lines.
#
# Weak: returns the prompt too, or one token fewer; loops over rows; asks for a `generate` to call.
#
# ### Stage 2
#
# Strong: asks for the order of filters and for the token that crosses; keeps the loop and adds a function from logits
# to probabilities; names float32 and the ends of the interval.
#
# Weak: calls `multinomial` although chance is an argument; forgets to take the sorted mask back; divides by a
# temperature of 0.
#
# ### Stage 3
#
# Strong: keeps one mask of ended rows; asks whether padding may be a token; says that ended rows still cost a row.
#
# Weak: compares with the stop id alone, so that rows come alive again; ends the batch with its first row; breaks the
# calls of stages 1 and 2.
#
# ### Stage 4
#
# Strong: derives $\min(p, q)$ and the rest before writing; sees that one call gives all `k + 1` distributions, and that
# a new number is due after a rejection; knows when it does not pay.
#
# Weak: accepts the most probable tokens and calls it speculative; draws from $p$ after a rejection; calls the model for
# each token.
