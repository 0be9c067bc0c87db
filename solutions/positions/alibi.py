# ---
# jupyter:
#   dojo:
#     title: ALiBi
#     level: 2
#     minutes: 15
#     builds_on: [causal_mask]
#     sources:
#       - "Press, Smith, Lewis 2021: Train short, test long, arXiv:2108.12409"
# ---

# %% [markdown]
# # ALiBi: attention with linear biases
#
# $$\mathrm{bias}_{h, i, j} = -m_h \cdot |\,p_i - j\,|, \qquad p_i = k_{\mathrm{len}} - q_{\mathrm{len}} + i, \qquad
# m_h = 2^{-8 (h + 1) / H} \text{ for } H = 1, 2, 4, 8, \dots$$
#
# ALiBi has no position vectors. It subtracts from each score a penalty that grows with the distance between query and
# key. Each head has its own slope $m_h$: steep heads look nearby, flat ones far away. Models trained this way can read
# texts longer than those of their training.
#
# **Write** two functions of Python integers that give float32 tensors:
#
# - `alibi_slopes(num_heads)`: the slopes, of shape `(num_heads,)`; 8 heads have $1/2, 1/4, \dots, 1/256$;
# - `alibi_bias(num_heads, q_len, k_len=None)`: the biases, of shape `(num_heads, q_len, k_len)`. `k_len` is `q_len` by
#   default.
#
# **Example.** 2 heads: slopes $2^{-4} = 1/16$ and $1/256$. The bias of head 0 for `q_len=2, k_len=3` has queries at 1
# and 2: `[[-1/16, 0, -1/16], [-2/16, -1/16, 0]]`.

# %% [markdown] tags=["contract"]
# - **Head counts.** Other numbers than powers of two follow the code of the paper. With $P$ the largest power of two
#   below $H$, the first $P$ slopes are those of $P$ heads, and the other $H - P$ are every other slope of $2P$ heads,
#   from the first on: 3 heads have $1/16$, $1/256$ and $1/4$.
# - **Positions.** The queries are the last of the keys, as with a KV cache.
# - **Both sides.** Keys after the query get a penalty as well. The causal mask is not part of the bias.

# %% tags=["active-ipynb", "example"]
# # The example, in numbers
# from fractions import Fraction
#
# slope = Fraction(1, 16)  # head 0 of 2
# for query in (1, 2):  # two queries at the end of three positions
#     print("query at", query, [str(-slope * abs(query - key)) for key in range(3)])

# %% [markdown] tags=["hint"]
# For a power of two the slopes are a geometric series that starts with its own ratio.

# %% [markdown] tags=["hint"]
# `1 << (num_heads.bit_length() - 1)` is the largest power of two that is not above `num_heads`.

# %% [markdown] tags=["hint"]
# Two aranges, one as a column and one as a row: `(query[:, None] - key[None, :]).abs()`. Multiply by the slopes as
# `(heads, 1, 1)`.

# %%
import torch
from jaxtyping import Float
from torch import Tensor


# %%
def alibi_slopes(num_heads: int) -> Float[Tensor, "heads"]:
    """The slope of each head, in float32: 2^(-8 (h + 1) / heads), or what the paper's code makes of other numbers.

    Press, Smith, Lewis 2021, arXiv:2108.12409; code at https://github.com/ofirpress/attention_with_linear_biases.
    """
    ### BEGIN SOLUTION
    power = 1 << (num_heads.bit_length() - 1)  # the largest power of two that is not above num_heads
    slopes = geometric(power)
    if num_heads > power:
        slopes += geometric(2 * power)[0::2][: num_heads - power]
    return torch.tensor(slopes, dtype=torch.float32)
    ### END SOLUTION


# %%
### BEGIN SOLUTION
def geometric(heads: int) -> list[float]:
    ratio = 2.0 ** (-8.0 / heads)
    return [ratio ** (head + 1) for head in range(heads)]


### END SOLUTION


# %%
def alibi_bias(num_heads: int, q_len: int, k_len: int | None = None) -> Float[Tensor, "heads q_len k_len"]:
    """-slope · |distance| for each head, query and key, in float32. The queries are the last of the keys."""
    ### BEGIN SOLUTION
    if k_len is None:
        k_len = q_len
    query = torch.arange(q_len) + (k_len - q_len)
    key = torch.arange(k_len)
    distance = (query[:, None] - key).abs()
    return -alibi_slopes(num_heads)[:, None, None] * distance
    ### END SOLUTION


# %% [markdown] tags=["solution"]
# ## Why it is done this way
#
# **Why a geometric series.** Where all scores are equal, half of a head's weight lies within $\ln 2 / m$ tokens: 1 at
# $m = 1/2$ and 177 at $1/256$. The series spreads these distances evenly on a logarithmic scale. The paper tried
# learning the slopes, and gained nothing.
#
# **Why it extrapolates.** Nothing the model sees at length 4,000 is new: far tokens are penalized even more. A
# sinusoidal or learned position of 4,000 has never been seen in training.
#
# **Other numbers of heads.** The formula with $H$ in the exponent would do as well. The authors interleaved two series
# instead, and published models follow their code.
#
# **What it costs.** $4\, H\, q_{\mathrm{len}}\, k_{\mathrm{len}}$ bytes as a tensor: 2.1 GB for 32 heads and 4,096
# tokens, 0.64 ms at an H100's 3.35 TB/s to read it once a layer. That is why fused kernels compute the bias from the
# indices in registers and read the slopes alone, $4 H$ bytes.
#
# ## The other formulation
#
# For causal attention softmax ignores what is constant in a row. So $m_h \cdot j$, without the query at all, gives the
# same weights as $-m_h (i - j)$. BLOOM does that, and its bias has the shape `(heads, 1, k_len)`: 0.9 MB for 112 heads
# and 2,048 tokens.
#
# ## The usual mistakes
#
# - Exponents from 0: the first slope is 1 instead of $2^{-8/H}$.
# - The sign: a bonus for distance.
# - Queries counted from 0 when keys are cached.
# - The formula for powers of two used for 12 heads.
# - The bias multiplied into the scores, or scaled by $1/\sqrt d$ with them.

# %% tags=["active-ipynb", "solution"]
# # What each head still sees of the past: its share of attention where all scores are equal but for the bias
# import matplotlib.pyplot as plt
#
# figure, axis = plt.subplots(figsize=(6, 3.8), layout="constrained")
# for head, weights in enumerate(torch.softmax(alibi_bias(8, 1, 64)[:, 0], dim=-1)):
#     axis.plot(range(-63, 1), weights, ("-", "--")[head // 4], label=f"head {head}")
# axis.set(xlabel="key, counted from the query", ylabel="weight", yscale="log", ylim=(1e-6, 1))
# axis.legend(fontsize="small")
# plt.show()

# %% [markdown] tags=["solution", "questions"]
# ## What interviewers ask next
#
# ### How many bytes does the bias take as a float32 tensor, for `heads` heads and `seq` tokens?
#
# - 4 bytes for each head, query and key. It has no parameters and no axis for the batch.
# - Fused kernels make it from the indices and the slopes, for one addition to each score.
# - The path without such a kernel is slow: handing over a bias tensor often rules out the fastest one.
#
# Answer: `4 * heads * seq**2` bytes, within 5 %. Settings: `heads` 32, 112; `seq` 2048, 8192.
#
# Source: Press, Smith, Lewis 2021, section 3, arXiv:2108.12409.
#
# ### Within how many tokens lies half of the weight of head `head` of `heads`, counted from 1, if all scores are equal?
#
# - The weights are $e^{-m d}$, so within $n$ tokens lies $1 - e^{-m n}$ of them: $n = \ln 2 / m$.
# - The slopes spread these distances evenly on a logarithmic scale, from 1 to 177 tokens for 8 heads.
# - Learning the slopes brought nothing in the paper. Fixed, they need no care in training.
#
# Answer: `log(2) * 2 ** (8 * head / heads)` tokens, within 15 %. Settings: `head` 2, 4, 8; `heads` 8, 16.
#
# Source: Press, Smith, Lewis 2021, section 3, arXiv:2108.12409.
#
# ### Why does it work beyond its training length?
#
# - Far tokens are penalized more than any seen in training, so the new ones hardly count.
# - In effect each head has a soft window. The model extrapolates because it does not look further.
# - That keeps the perplexity low. It does not mean that a fact 10,000 tokens back can be found.
#
# Source: Chi et al. 2022, arXiv:2212.10356.
#
# ### When would you choose it, and when RoPE?
#
# - ALiBi runs longer than trained without any change, and is the simplest to write.
# - RoPE can look far as sharply as near, and with a changed base and some training it serves long contexts. Nearly all
#   models use that.
# - ALiBi must be supported by the attention kernel, RoPE happens before it.
#
# Source: Press, Smith, Lewis 2021, arXiv:2108.12409; Peng et al. 2023, arXiv:2309.00071.
#
# ### What changes with a KV cache?
#
# - Keys are cached as they are, without any position. Old ones may be dropped and the rest need no repair.
# - The new query stands at `k_len - 1`, so its row of the bias is $-m_h (k_{\mathrm{len}} - 1 - j)$.
# - Under softmax a constant of a row cancels: $m_h\, j$ alone does as well, and never has to be computed anew.
# - Counting the query from 0 reverses the penalty: it then prefers the oldest keys.
#
# Source: Press, Smith, Lewis 2021, section 3, arXiv:2108.12409; Le Scao et al. 2022, arXiv:2211.05100.
#
# ### What breaks in half precision?
#
# - Slopes that are powers of two are exact. Distances in bfloat16 are exact up to 256 only: 1,001 becomes 1,000.
# - A score of 3.27 plus a bias of -15.6 is kept in steps of 0.06, so the score has lost its digits.
# - $m_h\, j$ without the query is worse: the largest numbers stand at the keys that matter most.
# - Add it in float32, inside the kernel, before the softmax.
#
# Source: Kalamkar et al. 2019, arXiv:1905.12322.
