# ---
# jupyter:
#   dojo:
#     title: Flash attention
#     level: 4
#     minutes: 30
#     builds_on: [softmax, sdpa]
#     sources:
#       - "Dao et al. 2022: FlashAttention: Fast and Memory-Efficient Exact Attention, arXiv:2205.14135"
#       - "Milakov and Gimelshein 2018: Online normalizer calculation for softmax, arXiv:1805.02867"
# ---

# %% [markdown]
# # Flash attention
#
# $$m' = \max(m, \max_j S_j), \qquad \ell' = e^{m - m'} \ell + \sum_j e^{S_j - m'}, \qquad
# o' = e^{m - m'} o + \sum_j e^{S_j - m'} v_j$$
#
# Attention without a matrix of all scores. Keys and values come a block at a time; each query keeps its largest score
# so far $m$, its sum of exponentials $\ell$ and weighted sum of values $o$. In the end $o / \ell$ is the attention,
# and $m + \ln \ell$ what backward needs.
#
# **Write** `flash_attention(q, k, v, causal=False, block_size=64)`, which gives `(out, lse)`. `q` has shape
# `(..., s, d_k)`, `k` `(..., t, d_k)`, `v` `(..., t, d_v)`, `out` `(..., s, d_v)`, `lse` `(..., s)`; $S = q k^\top /
# \sqrt{d_k}$. With `causal` query $i$ sees key $j$ where $j \le t - s + i$. Any `block_size` gives the same.
# Plain autograd will do.
#
# Not allowed: `softmax`, `logsumexp`, fused attention.
#
# **Example.** The query $(2)$, the keys $(0)$ and $(\ln 3 / 2)$ with the values $8$ and $4$, and `block_size=1`. The
# first score is $0$: $m = 0$, $\ell = 1$, $o = 8$. The second is $\ln 3$: what was there counts
# $e^{0 - \ln 3} = 1/3$ of what it did, so $\ell = 1/3 + 1 = 4/3$ and $o = 8/3 + 4 = 20/3$. `out` is $5$, `lse` is
# $\ln 3 + \ln (4/3) = \ln 4 = 1.38629$.

# %% [markdown] tags=["contract"]
# - **Large scores.** Of either sign, rising or falling from block to block: they overflow nowhere.
# - **Half precision.** $m$, $\ell$, $o$ and `lse` are float32. Scores, weights and products may be rounded to the dtype
#   of the inputs.
# - **Memory.** Without gradients no tensor besides inputs and results has more than $\max(s, d) \cdot \max(b, d)$
#   entries a head, where $b$ is `block_size` and $d$ the larger of $d_k$ and $d_v$. Masks count.
# - **Operations.** Forward and backward, their number grows with the number of blocks alone: of keys, and of queries if
#   you cut those too.

# %% tags=["active-ipynb", "example"]
# # The example, in numbers
# import math
#
# largest, total, output = -math.inf, 0.0, 0.0
# for score, value in ((0.0, 8.0), (math.log(3), 4.0)):
#     before, largest = largest, max(largest, score)
#     rescale, weight = math.exp(before - largest), math.exp(score - largest)
#     total, output = rescale * total + weight, rescale * output + weight * value
#     print(f"score {score:.3f}: maximum {largest:.3f}, sum {total:.3f}, output {output:.3f}")
# print(f"out {output / total:.3f}, lse {largest + math.log(total):.5f}")

# %% [markdown] tags=["hint"]
# Everything that was summed under the old maximum is multiplied by `exp(old_max - new_max)`. Begin with a maximum of
# `-inf` and sums of 0: then the first block needs no case of its own.

# %% [markdown] tags=["hint"]
# `for start in range(0, t, block_size)`, and slices `k[..., start : start + block_size, :]`. In a block,
# `new_max = torch.maximum(row_max, scores.amax(-1, keepdim=True))`. Hidden scores are `-inf` where
# `torch.arange(start, stop) > torch.arange(t - s, t)[:, None]`. Divide after the loop.

# %% [markdown] tags=["idea"]
# At 8,192 tokens the scores of one head take 134 MB in bfloat16. They go to the GPU's memory, come back for softmax,
# and again for the mean of the values: the GPU waits more than it computes. A block of scores would fit into the fast
# memory on the chip, some 200 kB. But a weight is a share of a sum over all keys, and that is known only at the end.
#
# So keep sums, and divide last. Exponentials are taken relative to the largest score, or they overflow. The largest so
# far will do: when a larger one comes, all that has been summed is too large by one factor, and a multiplication puts
# it right. After each block you hold the exact attention over the keys so far; without that factor the result goes
# astray, as the figure shows. FLOPs stay as they are. Memory grows with the tokens, and no longer with their square.

# %% tags=["active-ipynb", "figure"]
# """The result for one query after each of six blocks of keys. Rescaled, it is the attention over the keys so far: 2.7,
# 2, 6.5, 6.5, 2.2, 1.5. Not rescaled it is the same for two blocks, while the largest score stays, then ends at 3.1."""
# import matplotlib.pyplot as plt
# import numpy as np
#
# scores, values = np.array([[[0, 1, 2, 1, 4, 6], [1, 0, 3, 2, 5, 4]], [[2, 1, 7, 8, 2, 1], [3, 2, 8, 6, 1, 2]]])
# largest, axes = np.maximum.accumulate(scores.max(axis=0)), plt.figure(figsize=(7.6, 3.3)).gca()
# for shift, style, label in ((0, "o-", "rescaled: exact"), (largest, "s--", "not rescaled: wrong")):
#     powers = np.exp(scores - shift)
#     axes.plot((powers * values).sum(0).cumsum() / powers.sum(0).cumsum(), style, label=label)
# axes.set_xticks(range(6), [f"{n}\nlargest: {m}" for n, m in enumerate(largest, 1)])
# axes.set(xlabel="blocks of keys read, and the largest score so far", ylabel="result for one query", ylim=(0, 9))
# axes.legend(loc="upper right")

# %%
import math

import torch
from jaxtyping import Float
from torch import Tensor

# %% [markdown] tags=["step"]
# **The blocks.** Cut `t` keys into blocks: where does each begin, and before which key does it end?

# %% tags=["active-ipynb", "step"]
# def blocks(t: int, block_size: int) -> list[tuple[int, int]]:
#     """Start and stop of each block of keys."""
#     ### BEGIN SOLUTION
#     return [(n * block_size, min(t, (n + 1) * block_size)) for n in range(-(-t // block_size))]
#     ### END SOLUTION

# %% [markdown] tags=["step-cases"]
# blocks(10, 4) = [(0, 4), (4, 8), (8, 10)]
# blocks(10, 4) ≠ [(0, 4), (4, 8)]: the short block at the end is missing, and its keys count too
# blocks(10, 4) ≠ [(0, 4), (4, 8), (8, 12)]: the last block ends beyond the keys; slices forgive it, masks do not

# %% [markdown] tags=["step"]
# **One more block.** You have the largest score so far, and the sum of exponentials under it. Give both, after a block.

# %% tags=["active-ipynb", "step"]
# def after(largest: float, total: float, scores: list[float]) -> tuple[float, float]:
#     """The largest score and the sum under it, with this block's scores counted in."""
#     ### BEGIN SOLUTION
#     new = max(largest, *scores)
#     return new, sum(math.exp(score - new) for score in scores) + total / math.exp(new - largest)
#     ### END SOLUTION

# %% [markdown] tags=["step-cases"]
# after(1.0, 2.0, [3.0, 2.0]) = (3, 1.63855)
# after(1.0, 2.0, [3.0, 2.0]) ≠ (3, 3.36788): the old sum is not rescaled: it was taken under the old maximum
# after(1.0, 2.0, [3.0, 2.0]) ≠ (3, 16.14599): the factor is upside down: a larger maximum makes the old sum smaller
# after(1.0, 2.0, [3.0, 2.0]) ≠ (1, 12.10734): the maximum stays where it was, and large scores overflow
# after(3.0, 2.0, [1.0, 2.0]) = (3, 2.50321)
# after(3.0, 2.0, [1.0, 2.0]) ≠ (2, 6.80444): the maximum of the block alone: a block of low scores must not lower it

# %% [markdown] tags=["step"]
# **Causal, in a block.** Query `i` of `s` stands at key $t - s + i$. Which keys of a block does it see?

# %% tags=["active-ipynb", "step"]
# def seen(i: int, s: int, t: int, start: int, stop: int) -> list[bool]:
#     """True for each key of the block that the query may attend to."""
#     ### BEGIN SOLUTION
#     return [key - i <= t - s for key in range(start, stop)]
#     ### END SOLUTION

# %% [markdown] tags=["step-cases"]
# seen(1, 3, 8, 4, 8) = [True, True, True, False]
# seen(1, 3, 8, 4, 8) ≠ [True, True, True, True]: keys counted from the block's own first one, without `start`
# seen(1, 3, 8, 4, 8) ≠ [False, False, False, False]: the query counted from the first key, without t - s
# seen(1, 3, 8, 4, 8) ≠ [True, True, False, False]: its own key is hidden

# %% [markdown] tags=["experiment"]
# Two parts of the keys, each by itself, make the whole: `lse` says how much each weighs. Change `cut` to 1 and to 1000:
# does the difference stay at rounding? So keys may lie on several GPUs, as in ring attention. Further reading: Dao et
# al. 2022, section 3.1, arXiv:2205.14135; Milakov and Gimelshein 2018, section 3, arXiv:1805.02867.

# %% tags=["active-ipynb", "experiment"]
# cut = 512
# q, k, v = torch.randn(3, 1024, 32)
# one, first = flash_attention(q, k[:cut], v[:cut])
# two, second = flash_attention(q, k[cut:], v[cut:])
# merged = one + torch.sigmoid(second - first)[:, None] * (two - one)
# print("largest difference:", (merged - flash_attention(q, k, v)[0]).abs().max().item())


# %%
def flash_attention(
    q: Float[Tensor, "*batch q_len d_k"],
    k: Float[Tensor, "*batch k_len d_k"],
    v: Float[Tensor, "*batch k_len d_v"],
    causal: bool = False,
    block_size: int = 64,
) -> tuple[Float[Tensor, "*batch q_len d_v"], Float[Tensor, "*batch q_len"]]:
    """Attention, and the logarithm of its sums of exponentials, from blocks of keys.

    A causal query sees no key after its own place, where the last query stands at the last key. `lse` and all sums are
    float32 at least. Dao et al. 2022, arXiv:2205.14135.
    """
    ### BEGIN SOLUTION
    s, t = q.shape[-2], k.shape[-2]
    acc = torch.promote_types(q.dtype, torch.float32)
    scale = 1 / math.sqrt(q.shape[-1])
    row_max = q.new_full((*q.shape[:-1], 1), -torch.inf, dtype=acc)
    row_sum = torch.zeros_like(row_max)
    out = q.new_zeros(*q.shape[:-1], v.shape[-1], dtype=acc)
    place = torch.arange(t - s, t, device=q.device)[:, None]
    for start in range(0, t, block_size):
        stop = min(start + block_size, t)
        scores = (q @ k[..., start:stop, :].transpose(-2, -1)).to(acc) * scale
        if causal:
            hidden = torch.arange(start, stop, device=q.device) > place
            scores = scores.masked_fill(hidden, -torch.inf)
        new_max = torch.maximum(row_max, scores.detach().amax(dim=-1, keepdim=True))
        rescale = (row_max - new_max).exp()
        weights = (scores - new_max).exp()
        row_sum = rescale * row_sum + weights.sum(dim=-1, keepdim=True)
        out = rescale * out + weights.to(v.dtype) @ v[..., start:stop, :]
        row_max = new_max
    lse = row_max + row_sum.log()
    return (out / row_sum).to(q.dtype), lse[..., 0]
    ### END SOLUTION


# %% [markdown] tags=["solution"]
# ## Why it is done this way
#
# $e^{S_j - m'} = e^{S_j - m} \cdot e^{m - m'}$: a sum under one maximum becomes the sum under another by one factor for
# the row. That is all that lets softmax be summed block by block. The result is exact, not an approximation.
#
# With $m = -\infty$ at the start the first factor is $e^{-\infty} = 0$. Key 0 is seen by every query, so after the
# first block no maximum is $-\infty$ and no difference is nan. The maximum is detached: the result does not depend on
# it, so neither does the gradient.
#
# **What it costs.** The FLOPs stay: $4\, s\, t\, d$ a head. What goes is traffic: written out, the scores of one head
# at 8,192 tokens are 134 MB in bfloat16, to HBM and back several times, where queries, keys and values are 6.3 MB.
# So attention as three operations is memory-bound, and the kernel, which keeps a block in SRAM, is compute-bound. Here
# the largest tensor has $s \cdot b$ entries a head instead of $s \cdot t$: at 32,768 tokens and blocks of 64 it is
# 8.4 MB in place of 4.3 GB in float32. Plain autograd saves every block for backward, $4\, s\, t$ bytes after all;
# kernels save `out` and `lse`, and recompute the blocks.
#
# ## The other formulation
#
# Every block gives its own $(o_b, L_b)$, normalized. Two of them merge: $L = \ln(e^{L_1} + e^{L_2})$ and
# $o = e^{L_1 - L} o_1 + e^{L_2 - L} o_2$. Merging is associative, so blocks may lie on different devices or be
# done at the same time: flash decoding and ring attention.
#
# ## The usual mistakes
#
# - The sum is rescaled and the output is not, or the other way round.
# - The factor is upside down: $e^{m' - m}$ grows where it should shrink.
# - The causal mask counted within the block, without `start`.

# %% tags=["active-ipynb", "solution"]
# # One query and five blocks of keys: scores, the running maximum, and the sum, which a new maximum scales down
# import matplotlib.pyplot as plt
#
# generator, block, t = torch.Generator().manual_seed(5), 6, 30
# q, k, v = (torch.randn(n, 4, generator=generator) * 1.5 for n in (1, t, t))
# scores, ends = (q @ k.mT)[0] / 2, range(block, t + 1, block)
# largest = torch.stack([scores[:end].max() for end in ends])
# lse = torch.stack([flash_attention(q, k[:end], v[:end], block_size=block)[1][0] for end in ends])
# figure, (above, below) = plt.subplots(2, 1, sharex=True, figsize=(9, 5.5), layout="constrained")
# above.bar(range(t), scores, color=[f"C{key // block}" for key in range(t)])
# above.step([-0.5, *(end - 0.5 for end in ends)], [largest[0], *largest], "gray", label="running maximum m")
# above.set(ylabel="score", title="Keys come six at a time")
# above.legend()
# middles, sums = [end - block / 2 - 0.5 for end in ends], (lse - largest).exp()
# below.bar(middles, sums, 0.9 * block, color=[f"C{number}" for number in range(5)])
# below.set(ylabel="sum ℓ after the block", xlabel="key", title="A larger maximum scales down what was summed before")
# plt.show()

# %% [markdown] tags=["solution", "questions"]
# ## What interviewers ask next
#
# ### Why is it faster if it does as many FLOPs?
#
# - Attention as separate kernels is memory-bound: scores, mask, softmax and weights go to HBM and come back.
# - A block stays in SRAM, and only inputs and results cross. The arithmetic intensity rises from a few FLOPs a byte to
#   hundreds.
#
# Source: Dao et al. 2022, section 3.2, arXiv:2205.14135.
#
# ### How many MB is the largest tensor of one head here, with `seq` queries and blocks of `block` keys in float32?
#
# - A block of scores, $4\, s\, b$ bytes, as long as blocks are longer than heads are wide.
# - All scores would take $4\, s^2$: 268 MB at 8,192 tokens, 69 GB at 131,072.
# - A kernel cuts the queries too, so that a tile fits into the 228 kB of SRAM of a multiprocessor.
#
# Answer: `4 * seq * block / 1e6` MB, within 5 %. Settings: `seq` 8192, 32768, 131072; `block` 128, 256, 512.
#
# Source: Dao et al. 2022, section 3.1, arXiv:2205.14135.
#
# ### What percent of the tiles can a causal kernel skip, `seq` queries and as many keys, in square tiles of `tile`?
#
# - Tiles above the diagonal: $n(n-1)/2$ of $n^2$ with $n$ tiles a side. With more tiles it nears half.
# - Tiles that the diagonal crosses are computed and masked; those below need no mask.
#
# Answer: `50 * (1 - tile / seq)` percent, within 2 %. Settings: `seq` 1024, 4096; `tile` 64, 128, 256.
#
# Source: Dao 2023, section 3.1, arXiv:2307.08691.
#
# ### Why is lse kept, and not the maximum and the sum?
#
# - Backward needs $e^{S_j - m} / \ell = e^{S_j - \mathrm{lse}}$ alone: one number a query does.
# - Two partial results merge by their `lse` too: with one query and a long cache, flash decoding splits the keys.
#
# Source: Dao 2023, section 3.1, arXiv:2307.08691.
