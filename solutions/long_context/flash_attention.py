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
# Attention without a matrix of all scores. Keys and values come a block at a time. Each query keeps three things: the
# largest score so far $m$, the sum of exponentials $\ell$, and the weighted sum of values $o$. At the end $o / \ell$ is
# what attention gives, and $m + \ln \ell$ is what the way back needs.
#
# **Write** `flash_attention(q, k, v, causal=False, block_size=64)`. `q` has shape `(..., s, d_k)`, `k` has
# `(..., t, d_k)` and `v` has `(..., t, d_v)`; what stands for `...` is the same in all three. The scores are
# $S = q k^\top / \sqrt{d_k}$. The results are a tuple `(out, lse)`: `out (..., s, d_v)`, the attention, and
# `lse (..., s)`, the natural logarithm of the sum of $e^{S_j}$ over the keys that a query sees.
#
# - **Blocks.** Keys come `block_size` at a time. Any block size gives the same; the last block may be short, and one
#   block may be longer than all keys.
# - **`causal`** lets the last query see all keys, the query before it all but one, and so on: query $i$ sees key $j$
#   where $j \le t - s + i$.
# - **Large scores** of either sign, as 1e4, which may rise or fall from block to block, overflow nowhere.
# - **Dtype.** `out` has the dtype of the inputs. `lse` is float32 for float16 and bfloat16. There the running values
#   are float32 too; scores and weights may be rounded to the dtype of the inputs. float64 in, float64 out; float32
#   accuracy is enough.
# - **Both results are differentiable** in `q`, `k` and `v`. Plain autograd will do, and its memory is not judged.
# - **Memory.** Without gradients no tensor besides inputs and results has more than
#   $\max(s, d) \cdot \max(b, d)$ entries a head, where $b$ is `block_size` and $d$ the larger of $d_k$ and $d_v$.
# - **Operations.** Forward and backward, their number grows with the number of blocks alone: of keys, and of queries if
#   you cut those too.
# - **Inputs are not modified**, and may be non-contiguous or expanded.
# - **A `ValueError`** whose message holds the values: a `block_size` below 1; `causal` with fewer keys than queries.
# - **Not graded:** no keys or no queries at all, leading axes that broadcast.
#
# Not allowed: `softmax`, `logsumexp`, fused attention such as `F.scaled_dot_product_attention`.
#
# **Example.** The query $(2)$, the keys $(0)$ and $(\ln 3 / 2)$ with the values $8$ and $4$, and `block_size=1`. The
# first score is $0$: $m = 0$, $\ell = 1$, $o = 8$. The second is $\ln 3$: what was there counts
# $e^{0 - \ln 3} = 1/3$ of what it did, so $\ell = 1/3 + 1 = 4/3$ and $o = 8/3 + 4 = 20/3$. `out` is $5$, `lse` is
# $\ln 3 + \ln (4/3) = \ln 4 = 1.38629$.

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
# Write softmax attention with a maximum that is subtracted. Which three sums or maxima run over the keys? What must be
# done to the first ones when a later block brings a larger score?

# %% [markdown] tags=["hint"]
# Everything that was summed under the old maximum is multiplied by `exp(old_max - new_max)`. Begin with a maximum of
# `-inf` and sums of 0: then the first block needs no case of its own.

# %% [markdown] tags=["hint"]
# `for start in range(0, t, block_size)`, and slices `k[..., start : start + block_size, :]`. In a block,
# `new_max = torch.maximum(row_max, scores.amax(-1, keepdim=True))`. Hidden scores are `-inf` where
# `torch.arange(start, stop) > torch.arange(t - s, t)[:, None]`. Divide after the loop.

# %%
import math

import torch
from jaxtyping import Float
from torch import Tensor


# %%
def flash_attention(
    q: Float[Tensor, "*batch q_len d_k"],
    k: Float[Tensor, "*batch k_len d_k"],
    v: Float[Tensor, "*batch k_len d_v"],
    causal: bool = False,
    block_size: int = 64,
) -> tuple[Float[Tensor, "*batch q_len d_v"], Float[Tensor, "*batch q_len"]]:
    """Attention, and the logarithm of its sums of exponentials, from blocks of keys.

    A causal query sees no key behind its own place, where the last query stands at the last key. `lse` and all sums are
    float32 at least. Dao et al. 2022, arXiv:2205.14135.

    Raises:
        ValueError: block_size is below 1, or causal queries outnumber their keys.
    """
    ### BEGIN SOLUTION
    s, t = q.shape[-2], k.shape[-2]
    if block_size < 1:
        raise ValueError(f"block_size={block_size} is below 1")
    if causal and t < s:
        raise ValueError(f"causal attention of {s} queries to {t} keys: the first queries would see none")
    acc = torch.promote_types(q.dtype, torch.float32)
    queries = q.to(acc) / math.sqrt(q.shape[-1])
    row_max = queries.new_full((*q.shape[:-1], 1), -torch.inf)
    row_sum = queries.new_zeros(*q.shape[:-1], 1)
    out = queries.new_zeros(*q.shape[:-1], v.shape[-1])
    place = torch.arange(t - s, t, device=q.device)[:, None]
    for start in range(0, t, block_size):
        stop = min(start + block_size, t)
        scores = queries @ k[..., start:stop, :].to(acc).transpose(-2, -1)
        if causal:
            hidden = torch.arange(start, stop, device=q.device) > place
            scores = scores.masked_fill(hidden, -torch.inf)
        new_max = torch.maximum(row_max, scores.detach().amax(dim=-1, keepdim=True))
        rescale = (row_max - new_max).exp()
        weights = (scores - new_max).exp()
        row_sum = rescale * row_sum + weights.sum(dim=-1, keepdim=True)
        out = rescale * out + weights @ v[..., start:stop, :].to(acc)
        row_max = new_max
    lse = row_max + row_sum.log()
    return (out / row_sum).to(q.dtype), lse[..., 0]
    ### END SOLUTION


# %% [markdown] tags=["solution"]
# ## Why it is done this way
#
# $e^{S_j - m'} = e^{S_j - m} \cdot e^{m - m'}$: a sum that was taken under one maximum becomes the sum under another by
# one factor for the row. That is all that makes softmax a sum that can be taken a part at a time. The result is exact,
# not an approximation.
#
# With $m = -\infty$ at the start the first factor is $e^{-\infty} = 0$. Key 0 is seen by every query, so after the
# first block no maximum is $-\infty$ and no difference is nan.
#
# The maximum is detached: the result does not depend on it, so neither does the gradient.
#
# **What it costs.** $O(s\, t\, (d_k + d_v))$ time, as before. The largest tensor has $s \cdot b$ entries a head
# instead of $s \cdot t$: for 32,768 tokens and blocks of 64, 8.4 MB in place of 4.3 GB, at 4 bytes each. Plain autograd
# keeps every block for its way back, and so needs $4\, s\, t$ bytes after all. Kernels keep `out` and `lse`, and make
# the blocks again.
#
# ## The other formulation
#
# Every block gives its own $(o_b, L_b)$, normalised. Two of them merge: $L = \ln(e^{L_1} + e^{L_2})$ and
# $o = e^{L_1 - L} o_1 + e^{L_2 - L} o_2$. Merging is associative, so blocks may lie on different devices or be
# done at the same time; flash decoding and ring attention do that.
#
# ## The usual mistakes
#
# - The sum is rescaled and the output is not, or the other way round.
# - The factor is upside down: $e^{m' - m}$ grows where it should shrink.
# - Dividing by the sum in every block, and then adding.
# - The causal mask counted within the block, without `start`.
# - `range(t // block_size)`: the last keys are lost.
# - `lse` without the maximum, or in base 2, as kernels keep it inside.

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
# above.step([-0.5, *(end - 0.5 for end in ends)], [largest[0], *largest], "k", label="running maximum m")
# above.set(ylabel="score", title="Keys come six at a time")
# above.legend()
# middles, sums = [end - block / 2 - 0.5 for end in ends], (lse - largest).exp()
# below.bar(middles, sums, 0.9 * block, color=[f"C{number}" for number in range(5)])
# below.set(ylabel="sum ℓ behind the block", xlabel="key", title="A larger maximum scales down what was summed before")
# plt.show()

# %% [markdown] tags=["solution", "questions"]
# ## What interviewers ask next
#
# ### Is flash attention an approximation?
#
# - No: the same sums are taken in another order, so only rounding differs.
# - What it saves are reads and writes of the matrix of scores, not products.
#
# Source: Dao et al. 2022, section 3.1, arXiv:2205.14135.
#
# ### Why is it faster if it does as many products?
#
# - Attention on a GPU waits for memory: scores, mask, softmax and weights go out and come back.
# - A block stays in the multiprocessor's own memory, and only inputs and results cross to the large one.
#
# Source: Dao et al. 2022, section 3.2, arXiv:2205.14135.
#
# ### Why is lse kept, and not the maximum and the sum?
#
# - The way back needs $e^{S_j - m} / \ell = e^{S_j - \mathrm{lse}}$ alone: one number a query does.
# - Two partial results merge by their `lse` too, as in flash decoding.
#
# Source: Dao 2023, section 3.1, arXiv:2307.08691.
#
# ### How does the way back do without the weights?
#
# - It makes each block of scores again from `q`, `k` and `lse`.
# - More products, yet less time: reading $s \cdot t$ weights would take longer than making them.
#
# Source: Dao et al. 2022, section 3.1, arXiv:2205.14135.
#
# ### What changes for one query and a long cache?
#
# - There is one row, so a GPU cut by queries stands idle: the keys are split among its multiprocessors.
# - Each part gives an output and an `lse`, and a last step merges them.
#
# Source: PyTorch blog, Flash-Decoding for long-context inference, https://pytorch.org/blog/flash-decoding/.
#
# ### Which blocks can a causal kernel leave out?
#
# - Blocks that lie behind the last query's place altogether: nearly half of them for $s = t$.
# - Only blocks on the diagonal need a mask.
#
# Source: Dao 2023, section 3.1, arXiv:2307.08691.
#
# ### Why divide by the sum once, at the end?
#
# - A division for each block is work that is no product of matrices, of which a GPU does far less a second.
# - Running values that are not normalised need one factor a row instead of two.
#
# Source: Dao 2023, section 3.1.1, arXiv:2307.08691.
