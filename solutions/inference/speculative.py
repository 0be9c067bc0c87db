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
#     title: Verifying a draft
#     level: 4
#     minutes: 30
#     builds_on: [sampling]
#     sources:
#       - "Leviathan et al. 2022: Fast Inference from Transformers via Speculative Decoding, arXiv:2211.17192"
#       - "Chen et al. 2023: Accelerating Large Language Model Decoding with Speculative Sampling, arXiv:2302.01318"
# ---

# %% [markdown]
# # Verifying a draft
#
# $$u_i \, q_i(x_i) < p_i(x_i), \qquad
# \mathrm{residual}_i = \frac{\max(p_i - q_i,\, 0)}{\sum_v \max(p_i(v) - q_i(v),\, 0)}$$
#
# A small model has drafted $k$ tokens, each drawn from its distribution $q_i$. The large model gives its own
# distributions $p_i$ for all of them in one pass. What is kept must be distributed as if the large model had drawn
# every token itself.
#
# **Write** `speculative_verify(draft_tokens, draft_probs, target_probs, accept_uniform, sample_uniform)`. It gives
# `(tokens, lengths)`, both int64.
#
# - **Shapes.** `draft_tokens` `(batch, k)`; `draft_probs` $q$ `(batch, k, vocab)`; `target_probs` $p$
#   `(batch, k + 1, vocab)`, one place more than the draft; `accept_uniform` $u$ `(batch, k)`; `sample_uniform`
#   `(batch,)`. Results: `tokens` `(batch, k + 1)`, `lengths` `(batch,)`.
# - **A draft token is accepted** if $u_i \, q_i(x_i) < p_i(x_i)$ and all before it in its row were. So $p = 0$ is never
#   accepted, be $q$ 0 as well, and $p = q$ always is.
# - **One more token** stands behind the accepted ones. If a token was rejected, it is drawn from the residual of that
#   place. If all were accepted, it is drawn from the last distribution of the target, $p_{k+1}$.
# - **It is drawn** by `sample_uniform` as in **sampling**: the smallest id whose cumulative probability exceeds the
#   number. An id of probability 0 is never drawn. Where rounding leaves the whole sum below the number, it is the last
#   id of positive probability.
# - **A residual that sums to 0**, as rounded probabilities may leave it, is replaced by $p$ of that place.
# - **`lengths`** counts the accepted tokens and the one behind them, 1 to `k + 1`. Places behind hold -1.
# - **Probabilities** are float32 or float64. Inputs are not modified, and may be non-contiguous or expanded. No
#   gradients are asked for. No loops over rows, places or tokens.
# - **A `ValueError`** whose message holds the values: `target_probs` without its `k + 1` places; vocabularies or
#   batches that differ; a draft token outside of the vocabulary; a uniform number outside of $[0, 1)$.
# - **Not graded:** half precision, `k` of 0, choices that hang on less than 1e-3 of probability.
#
# Not allowed: `torch.multinomial` and `torch.distributions`.
#
# **Example.** One row, $k = 1$, draft token 0, $q = (0.6, 0.3, 0.1)$, $p_1 = (0.3, 0.3, 0.4)$. With $u = 0.4$ it is
# accepted, since $0.4 \cdot 0.6 = 0.24 < 0.3$, and one more token comes from $p_2$: length 2. With $u = 0.7$ it is
# rejected: $0.42 \ge 0.3$. The residual is $(0, 0, 0.3)$, normalised $(0, 0, 1)$: the tokens are $(2, -1)$, length 1.

# %% tags=["active-ipynb", "example"]
# # The example, in numbers
# import torch
#
# q, p = torch.tensor([0.6, 0.3, 0.1]), torch.tensor([0.3, 0.3, 0.4])
# for u in (0.4, 0.7):
#     print(f"u = {u}: token 0 is {'accepted' if u * q[0] < p[0] else 'rejected'}")
# residual = (p - q).clamp_min(0)
# print("residual:", (residual / residual.sum()).tolist())

# %% [markdown] tags=["hint"]
# Accepted is what fits by itself and stands behind nothing that does not: a cumulative product along the row.

# %% [markdown] tags=["hint"]
# `gather` takes the probabilities of the draft tokens. The number of accepted tokens is also the place to draw at: from
# 0 to `k`. A draft that has probability 0 for all tokens at place `k` makes the last place like the others.

# %% [markdown] tags=["hint"]
# `count = fits.int().cumprod(-1).sum(-1)`. Concatenate zeros to $q$ at place `k`, then
# `rest = (target_probs - draft).clamp_min(0)` has the residuals and the last distribution; `gather` the place `count`
# of each row. Write the drawn token there, keep the draft in front of it, and -1 behind.

# %%
import torch
from jaxtyping import Float, Int
from torch import Tensor


# %%
def speculative_verify(
    draft_tokens: Int[Tensor, "batch k"],
    draft_probs: Float[Tensor, "batch k vocab"],
    target_probs: Float[Tensor, "batch places vocab"],
    accept_uniform: Float[Tensor, "batch k"],
    sample_uniform: Float[Tensor, "batch"],
) -> tuple[Int[Tensor, "batch places"], Int[Tensor, "batch"]]:
    """The accepted tokens and one more, -1 behind them; and how many they are. `places` is `k` and one more.

    Raises:
        ValueError: shapes do not fit, a draft token is outside of the vocabulary, or a uniform number of [0, 1).
    """
    ### BEGIN SOLUTION
    batch, k, vocab = draft_probs.shape
    if target_probs.shape != (batch, k + 1, vocab):
        raise ValueError(f"target_probs is {tuple(target_probs.shape)}, expected {(batch, k + 1, vocab)}")
    for given, shape in ((draft_tokens, (batch, k)), (accept_uniform, (batch, k)), (sample_uniform, (batch,))):
        if given.shape != shape:
            raise ValueError(f"an input is {tuple(given.shape)}, expected {shape}, as draft_probs has it")
    for uniform in (accept_uniform, sample_uniform):
        outside = (uniform < 0) | (uniform >= 1)
        if outside.any():
            raise ValueError(f"uniform number {uniform[outside][0].item()} is outside of [0, 1)")
    unknown = (draft_tokens < 0) | (draft_tokens >= vocab)
    if unknown.any():
        raise ValueError(f"draft token {draft_tokens[unknown][0].item()} is outside of a vocabulary of {vocab}")
    q = draft_probs.gather(-1, draft_tokens[..., None]).squeeze(-1)
    p = target_probs[:, :-1].gather(-1, draft_tokens[..., None]).squeeze(-1)
    fits = accept_uniform * q < p
    count = fits.cumprod(-1).sum(-1)
    draft = torch.cat([draft_probs, torch.zeros_like(draft_probs[:, :1])], dim=1)
    place = count[:, None, None].expand(-1, 1, vocab)
    here = target_probs.gather(1, place).squeeze(1)
    rest = (here - draft.gather(1, place).squeeze(1)).clamp_min(0)
    rest = torch.where(rest.sum(-1, keepdim=True) > 0, rest, here)
    cumulative = (rest / rest.sum(-1, keepdim=True)).cumsum(-1)
    below = cumulative <= sample_uniform[:, None]
    possible = torch.arange(vocab, device=rest.device) * (rest > 0)
    drawn = torch.minimum(below.sum(-1), possible.amax(-1))
    places = torch.arange(k + 1, device=rest.device)
    kept = torch.cat([draft_tokens, drawn[:, None]], dim=1).masked_fill(places > count[:, None], -1)
    tokens = torch.where(places == count[:, None], drawn[:, None], kept)
    return tokens, count + 1
    ### END SOLUTION


# %% [markdown] tags=["solution"]
# ## Why it is done this way
#
# A token $x$ comes out as an accepted draft with probability $q(x) \min(1, p(x)/q(x)) = \min(q(x), p(x))$. What $p$ has
# beyond that is $\max(p(x) - q(x), 0)$: just the residual. A rejection happens with probability
# $1 - \sum \min(q, p)$, which is also the sum of the residual, so drawing from the normalised residual fills the gap
# exactly: $\min(q, p) + \max(p - q, 0) = p$.
#
# The product form needs no division, and has an answer where $q$ is 0. The bonus token costs nothing: the pass that
# verified the last draft token has given its distribution too. Taken as a residual against a draft of zeros, it needs
# no case of its own.
#
# **What it costs.** $O(k \cdot V)$ time a row for the residuals of a vocabulary $V$, and less where only the place that
# is drawn from is read. With $k = 4$ and $V = 128{,}000$ the two tensors of float32 probabilities take
# $9 \cdot 4 \cdot 128{,}000$ bytes, 4.6 MB a row.
#
# ## The other formulation
#
# Without $q$ in full: where the draft is greedy, $q$ is 1 at its token. Then a token is accepted with probability
# $p(x)$, and the residual is $p$ without $x$. Drafts from n-grams or a prompt's own text are verified like this.
#
# ## The usual mistakes
#
# - Drawing from $p$ after a rejection: tokens that the draft likes come too often.
# - Accepting where $p \ge q$ alone: also right tokens are rejected, and the residual no longer fits.
# - Accepting behind a rejection: such a token was drafted for another text.
# - The bonus left out: the same text, one token less for each pass.
# - The distributions of draft and target one place apart.

# %% tags=["active-ipynb", "solution"]
# # What is accepted and what is filled up give the target's distribution
# import torch
# from matplotlib import pyplot as plt
#
# q = torch.tensor([0.34, 0.26, 0.18, 0.12, 0.07, 0.03])
# p = torch.tensor([0.16, 0.30, 0.08, 0.24, 0.06, 0.16])
# n, vocab = 60, len(q)
# grid = (torch.arange(n) + 0.5) / n
# x, u, v = torch.cartesian_prod(torch.arange(vocab).float(), grid, grid).unbind(1)
# x = x.long()
# target = p.expand(len(x), 2, vocab)
# tokens, lengths = speculative_verify(x[:, None], q.expand(len(x), 1, vocab), target, u[:, None], v)
# weight = q[x] / n**2
# accepted = torch.zeros(vocab).index_add(0, tokens[:, 0], weight * (lengths == 2))
# filled = torch.zeros(vocab).index_add(0, tokens[:, 0], weight * (lengths == 1))
# ids = torch.arange(vocab)
# plt.bar(ids - 0.2, q, 0.35, color="lightgray", label="draft q")
# plt.bar(ids + 0.2, accepted, 0.35, label="accepted: min(q, p)")
# plt.bar(ids + 0.2, filled, 0.35, bottom=accepted, label="drawn from the residual")
# plt.plot(ids + 0.2, p, "k_", markersize=18, label="target p")
# plt.xlabel("token")
# plt.ylabel("probability of the first token")
# plt.title(f"{accepted.sum():.0%} of drafts are accepted, and the residual fills up to p")
# plt.legend()
# plt.show()

# %% [markdown] tags=["solution", "questions"]
# ## What interviewers ask next
#
# ### Why is it faster, although the large model computes more?
#
# - Decoding one token reads all weights once; verifying $k + 1$ tokens reads them once as well.
# - At small batches memory bandwidth is the limit, so the further tokens are nearly free.
#
# Source: Leviathan et al. 2022, section 1, arXiv:2211.17192.
#
# ### How many tokens does a pass give?
#
# - With an acceptance rate $\alpha$, taken as independent: $(1 - \alpha^{k+1}) / (1 - \alpha)$.
# - $\alpha$ is the mean of $\sum \min(p, q)$, 1 less the total variation distance of draft and target.
#
# Source: Leviathan et al. 2022, section 3.1, arXiv:2211.17192.
#
# ### How is `k` chosen?
#
# - A longer draft costs draft time, and later tokens are reached less often.
# - The best k grows with the acceptance rate and falls with the draft's relative cost; many systems adapt it.
#
# Source: Leviathan et al. 2022, section 3.5, arXiv:2211.17192.
#
# ### When does it not pay?
#
# - At large batches the device is busy with arithmetic: rejected tokens then cost time that others would use.
# - With a poor draft, or at high temperature, few tokens are accepted.
#
# Source: Liu et al. 2024, Optimizing Speculative Decoding for Serving LLMs Using Goodput, arXiv:2406.14066.
#
# ### Must draft and target use the same temperature?
#
# - No, any $q$ is right as long as it is the distribution that the draft was drawn from.
# - $p$ must be the filtered distribution that one wants; the nearer $q$ is to it, the more is accepted.
#
# Source: Chen et al. 2023, section 2, arXiv:2302.01318.
#
# ### What happens to the KV cache after a rejection?
#
# - The target's cache holds keys of all drafted tokens: those behind the accepted ones are rolled back.
# - The draft's cache too. After a bonus token the draft has one more token to read than usual.
#
# Source: transformers, assisted decoding, https://huggingface.co/docs/transformers/generation_strategies.
#
# ### What do tree drafts add?
#
# - Several continuations are verified in one pass, with a mask that lets each token see its ancestors alone.
# - Medusa and EAGLE make such drafts from the target's own hidden states, without a second model.
#
# Source: Cai et al. 2024, Medusa, arXiv:2401.10774; Li et al. 2024, EAGLE, arXiv:2401.15077.
