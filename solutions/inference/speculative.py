# ---
# jupyter:
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
# A small model has drafted $k$ tokens $x_i$, each drawn from its distribution $q_i$. The large model gives its own
# $p_i$ for all of them, and one more, in one pass. What is kept must be distributed as if the large model had
# drawn every token itself.
#
# **Write** `speculative_verify(draft_tokens, draft_probs, target_probs, accept_uniform, sample_uniform)`: shapes
# `(batch, k)`, $q$ `(batch, k, vocab)`, $p$ `(batch, k + 1, vocab)`, $u$ `(batch, k)` and `(batch,)`, in float32. Draft
# tokens are accepted up to the first for which the inequality fails. After them one is drawn: from the residual of that
# place, or from $p_{k+1}$ if all were accepted. Return `(tokens, lengths)`, int64: `(batch, k + 1)` with -1 after the
# drawn token, and how many are not -1, `(batch,)`.
#
# Not allowed: `torch.multinomial` and `torch.distributions`.
#
# **Example.** One row, $k = 1$, draft token 0, $q = (0.6, 0.3, 0.1)$, $p_1 = (0.3, 0.3, 0.4)$. With $u = 0.4$ it is
# accepted, since $0.4 \cdot 0.6 = 0.24 < 0.3$, and one more token comes from $p_2$: length 2. With $u = 0.7$ it is
# rejected: $0.42 \ge 0.3$. The residual is $(0, 0, 0.3)$, normalized $(0, 0, 1)$: the tokens are $(2, -1)$, length 1.

# %% [markdown] tags=["contract"]
# - **Rare tokens.** Where $p = q$ the draft's token is accepted for every $u$ of $[0, 1)$, however rare it is.
# - **Drawn id.** As in **sampling**: the smallest id whose cumulative probability exceeds `sample_uniform`. One of
#   probability 0 is never drawn, nor accepted: not at a number of 0, nor at one so near 1 that rounded sums stay below.
# - **Zero residual.** A residual that sums to 0, as rounded probabilities may leave it, is replaced by $p$ of that
#   place.
# - **Errors.** `target_probs` without its `k + 1` places, or with another vocabulary than `draft_probs`.

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
# Accepted is what fits by itself and comes after nothing that does not: a cumulative product along the row.

# %% [markdown] tags=["hint"]
# `gather` takes the probabilities of the draft tokens. The number of accepted tokens is also the place to draw at: from
# 0 to `k`. At place `k` there is no draft, and the target itself is drawn from.

# %% [markdown] tags=["hint"]
# `count = accepted.cumprod(-1).sum(-1)`, then `target_probs[rows, count]` with `rows = torch.arange(batch)`, and of
# `draft_probs` the same with `count.clamp_max(k - 1)`. Draw with `torch.searchsorted` from cumulative sums that nobody
# has to normalize. Keep the draft before place `count`, write the drawn token there, and -1 after it.

# %%
import torch
import torch.nn.functional as F
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
    """The accepted tokens and one more, -1 after them; and how many they are. `places` is `k` and one more.

    Raises ValueError if target_probs has another number of places, or another vocabulary than draft_probs.
    """
    ### BEGIN SOLUTION
    batch, k, vocab = draft_probs.shape
    if target_probs.shape != (batch, k + 1, vocab):
        raise ValueError(f"target_probs is {tuple(target_probs.shape)}, expected {(batch, k + 1, vocab)}")
    q = draft_probs.gather(-1, draft_tokens[..., None])[..., 0]
    p = target_probs[:, :-1].gather(-1, draft_tokens[..., None])[..., 0]
    accepted = accept_uniform * q < p
    count = accepted.cumprod(dim=-1).sum(dim=-1)

    rows = torch.arange(batch, device=count.device)
    target = target_probs[rows, count]
    residual = (target - draft_probs[rows, count.clamp_max(k - 1)]).clamp_min(0)
    rejected = (count < k) & (residual.sum(dim=-1) > 0)
    sums = torch.where(rejected[:, None], residual, target).cumsum(dim=-1)
    drawn = torch.searchsorted(sums, sample_uniform[:, None] * sums[:, -1:], right=True)

    places = torch.arange(k + 1, device=count.device)
    tokens = F.pad(draft_tokens, (0, 1)).where(places < count[:, None], -1)
    return tokens.where(places != count[:, None], drawn), count + 1
    ### END SOLUTION


# %% [markdown] tags=["solution"]
# ## Why it is done this way
#
# A token $x$ comes out as an accepted draft with probability $q(x) \min(1, p(x)/q(x)) = \min(q(x), p(x))$. What $p$ has
# beyond that is $\max(p(x) - q(x), 0)$: just the residual. A rejection happens with probability
# $1 - \sum \min(q, p)$, which is also the sum of the residual, so drawing from the normalized residual fills the gap
# exactly: $\min(q, p) + \max(p - q, 0) = p$.
#
# The product form needs no division, and has an answer where $q$ is 0. The number is scaled by the last sum instead of
# dividing all of them: so it stays below that sum, and the search ends at an id that is possible. Nothing looks at a
# value, so the GPU never waits and the whole step can be one CUDA graph.
#
# **What it costs.** The bonus token costs nothing: the pass that verified the last draft token has given its
# distribution too. With $k = 4$ and a vocabulary of 128,000 the probabilities take $9 \cdot 4 \cdot 128{,}000$ bytes,
# 4.6 MB a row, of which only the two rows at place `count` are read as a whole, 1.0 MB: 0.3 µs of an H100's HBM. It is
# launch-bound, some twenty small kernels; serving engines fuse them into one.
#
# ## The other formulation
#
# Without $q$ in full: where the draft is greedy, $q$ is 1 at its token. Then a token is accepted with probability
# $p(x)$, and the residual is $p$ without $x$. Drafts from n-grams or a prompt's own text are verified like this. vLLM
# recovers a token at every place and lets masks choose: more work, and no row waits for its count.
#
# ## The usual mistakes
#
# - Drawing from $p$ after a rejection: tokens that the draft likes come too often.
# - Accepting where $p \ge q$ alone: also right tokens are rejected, and the residual no longer fits.
# - Accepting after a rejection: such a token was drafted for another text.
# - The bonus left out: the same text, one token less for each pass.
# - The distributions of draft and target one place apart.

# %% [markdown] tags=["solution", "questions"]
# ## What interviewers ask next
#
# ### How many tokens does a pass give with `k` drafted ones, of which each is accepted with probability `alpha`?
#
# - $1 + \alpha + \dots + \alpha^k = (1 - \alpha^{k+1}) / (1 - \alpha)$, taken as independent.
# - $\alpha$ is the mean of $\sum \min(p, q)$, 1 less the total variation distance of draft and target.
#
# Answer: `(1 - alpha**(k + 1)) / (1 - alpha)` tokens, within 5 %. Settings: `k` 2, 4, 6; `alpha` 0.6, 0.8.
#
# Source: Leviathan et al. 2022, section 3.1, arXiv:2211.17192.
#
# ### And how many times faster is decoding if a draft step takes `c` of a target pass, `k` is 4 and `alpha` accepted?
#
# - A pass takes $1 + k c$ of the time and gives $(1 - \alpha^{k+1}) / (1 - \alpha)$ tokens, as long as verifying
#   $k + 1$ tokens takes as long as decoding one.
# - The best $k$ grows with the acceptance rate and falls with $c$; many systems adapt it.
#
# Answer: `(1 - alpha**5) / (1 - alpha) / (1 + 4 * c)` times, within 5 %. Settings: `c` 0.02, 0.1; `alpha` 0.6, 0.8.
#
# Source: Leviathan et al. 2022, section 3.3, arXiv:2211.17192.
#
# ### Why is it faster, although the large model computes more?
#
# - Decoding is memory-bound: one token reads all weights from HBM, and verifying $k + 1$ tokens reads them once too.
# - The arithmetic intensity rises $k + 1$ times, and stays below the roofline's ridge at small batches.
# - Latency falls, TTFT does not: prefill is compute-bound already.
#
# Source: Leviathan et al. 2022, section 1, arXiv:2211.17192.
#
# ### When does it not pay?
#
# - At large batches decoding is compute-bound: rejected tokens then take throughput from other requests.
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
# - The target's cache holds keys of all drafted tokens: those after the accepted ones are rolled back.
# - The draft's cache too. After a bonus token the draft has one more token to read than usual.
#
# Source: transformers, assisted decoding, https://huggingface.co/docs/transformers/generation_strategies.
