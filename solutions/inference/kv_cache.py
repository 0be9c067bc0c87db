# ---
# jupyter:
#   dojo:
#     title: Attention with a KV cache
#     level: 4
#     minutes: 45
#     builds_on: [causal_attention, gqa]
#     sources:
#       - "Shazeer 2019: Fast transformer decoding, one write-head is all you need, arXiv:1911.02150"
#       - "Su et al. 2021: RoFormer, arXiv:2104.09864, section 3.4"
# ---

# %% [markdown]
# # Attention with a KV cache
#
# $$o_i = \mathrm{softmax}\!\left(\frac{q_i\, K_{0 \ldots t + i}^\top}{\sqrt{d}}\right) V_{0 \ldots t + i}$$
#
# A model that decodes token by token keeps the keys and values of earlier tokens: here of $t$, before new ones $i$.
#
# **Write** `KVCache(batch, num_kv_heads, max_len, head_dim, *, device=None, dtype=None)`. `length` is an int, 0 at
# first. `append(k, v)`, each `(batch, num_kv_heads, new, head_dim)`, returns those of all tokens so far, oldest first.
# `truncate(length)` forgets all but the first `length`.
#
# **Write** `CachedAttention(d_model, num_heads, max_seq_len, theta=10000.0, num_kv_heads=None, *, device=None,
# dtype=None)` with `forward(x, cache=None)`, from `(batch, seq, d_model)` to the same shape. The tokens of `x` follow
# those in the cache, and join them. Otherwise as **causal_attention**: `q_proj`, `k_proj`, `v_proj`, `o_proj`
# without biases; query head `h` reads key head `h // (num_heads // num_kv_heads)`; RoPE on the pairs `(2i, 2i + 1)`.
#
# Not allowed: `F.scaled_dot_product_attention` and other fused attention.
#
# **Example.** `d_model = 2`, one head, all four weights the identity. Token 0 is $(1, 0)$. It sees only itself, gives
# $(1, 0)$, and `length` is 1. Token 1 is $(0, 1)$, in a call of its own. It stands at position 1: rotated, query and
# key are $(-\sin 1, \cos 1)$. Its scores are $-0.595$ with token 0 and $0.707$ with itself, its weights $0.214$ and
# $0.786$, and the result is $(0.214, 0.786)$. Counted from 0 again it would be $(0.330, 0.670)$.

# %% [markdown] tags=["contract"]
# - **Any cut.** However a sequence is cut into calls, and rolled back by `truncate` in between, it gives what one call
#   gives. A module serves several caches by turns.
# - **Buffer.** Allocated once, at construction, with its `dtype` and on its `device`. `append` copies the new tokens
#   into it, and no others.
# - **Cost.** A call on one token projects one token.
# - **Half precision.** Softmax in float32. Scores and weights may be rounded to the dtype of the inputs, as Llama does.
# - **Errors.** More than `max_len` tokens, a position from `max_seq_len` on. The cache is then as before.

# %% tags=["active-ipynb", "example"]
# # The example, in numbers
# import math
#
# key = (1.0, 0.0)  # of token 0, from the cache
# for position in (1, 0):  # where token 1 stands, and where it would if each call counted from 0
#     query = (-math.sin(position), math.cos(position))
#     scores = [sum(a * b for a, b in zip(query, each)) / math.sqrt(2) for each in (key, query)]
#     exponentials = [math.exp(score) for score in scores]
#     weights = [round(e / sum(exponentials), 3) for e in exponentials]
#     print(f"position {position}: scores {[round(s, 3) for s in scores]}, weights and result {weights}")

# %% [markdown] tags=["hint"]
# The cache is two tensors of the full size and a number. What does `truncate` have to write?

# %% [markdown] tags=["hint"]
# `keys[:, :, length:end] = k` copies, and `keys[:, :, :end]` is a view. The module reads `cache.length` before it
# appends: that is the position of its first token.

# %% [markdown] tags=["hint"]
# With `seq` queries and `length` keys the mask is `torch.ones(seq, length).tril(length - seq)`: its diagonal ends in
# the lower right corner. Rotate, append, scores, mask, softmax. Instead of repeating key heads, fold the group into the
# query axis: `q.unflatten(1, (-1, group)).flatten(2, 3)`, and repeat the mask.

# %% [markdown] tags=["idea"]
# A model writes one token at a time. To choose token 1,001 it attends to the 1,000 before it, and of each it needs two
# things: a key and a value. Made anew in every call, that is half a million keys for a text of a thousand tokens.
#
# None of it has to be made twice. In a causal model a token sees only what came before it, so its key and value never
# change. Keep them, and a call works on the new tokens alone: in the figure on 10 instead of 49. The price is memory.
# Llama 3 8B keeps 131 kB a token, 1.07 GB for 8,192 tokens, and reads all of it at every step.
#
# The result must not show where the text was cut into calls. New tokens stand after all that are kept, and see them
# all. If several come at once, none of them may see the next.

# %% tags=["active-ipynb", "figure"]
# """Two grids of seven calls by ten tokens: a prompt of four, then one token a call. Without a cache each call computes
# all tokens so far, a full triangle. With one it computes the new ones, a diagonal, and reads those before them."""
# import matplotlib.pyplot as plt
# import numpy as np
#
# token, call = np.meshgrid(np.arange(10), np.arange(1, 8))
# there, new = token < call + 3, (token == call + 2) | (call == 1)
# figure, both = plt.subplots(1, 2, figsize=(7.6, 3.2), sharey=True)
# for axes, done, title in zip(both, (there, there & new), ("without a cache", "with a cache"), strict=True):
#     axes.plot(token[done], call[done], "s", markersize=11, label="computed in this call")
#     axes.plot(token[there & ~done], call[there & ~done], "o", fillstyle="none", label="read from the cache")
#     axes.set(title=f"{title}: {done.sum()} computed", xlabel="position of the token", ylabel="call", ylim=(7.6, 0.4))
# figure.legend(*axes.get_legend_handles_labels(), loc="outside upper center", ncols=2)

# %%
import math

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

# %% [markdown] tags=["step"]
# **Positions.** `length` tokens are in the cache, and `new` ones follow. Where do the new ones stand?

# %% tags=["active-ipynb", "step"]
# def positions(length: int, new: int) -> list[int]:
#     """The positions that RoPE rotates the new queries and keys by."""
#     ### BEGIN SOLUTION
#     return [length + i for i in range(new)]
#     ### END SOLUTION

# %% [markdown] tags=["step-cases"]
# positions(3, 2) = [3, 4]
# positions(3, 2) ≠ [0, 1]: counted from 0 in every call; new tokens follow those in the cache
# positions(3, 2) ≠ [4, 5]: one too far; positions count from 0, so the first free one is `length`
# positions(3, 2) ≠ [5, 6]: the length after the new tokens have joined; read it before

# %% [markdown] tags=["step"]
# **The buffer.** Write `new` after the `length` tokens that are there. Return all tokens, the oldest first.

# %% tags=["active-ipynb", "step"]
# def stored(buffer: Float[Tensor, "max_len"], length: int, new: Float[Tensor, "new"]) -> Float[Tensor, "so_far"]:
#     """The part of the buffer that holds tokens, with the new ones in it."""
#     ### BEGIN SOLUTION
#     buffer[length : length + len(new)] = new
#     return buffer[: length + len(new)]
#     ### END SOLUTION

# %% [markdown] tags=["step-cases"]
# stored([1.0, 2.0, 9.0, 9.0, 9.0], 2, [7.0, 8.0]) = [1, 2, 7, 8]
# stored([1.0, 2.0, 9.0, 9.0, 9.0], 2, [7.0, 8.0]) ≠ [7, 8, 9, 9]: written at 0, over the old tokens
# stored([1.0, 2.0, 9.0, 9.0, 9.0], 2, [7.0, 8.0]) ≠ [1, 2, 7, 8, 9]: all of the buffer; what follows is no token
# stored([1.0, 2.0, 9.0, 9.0, 9.0], 2, [7.0, 8.0]) ≠ [7, 8]: the new tokens alone; a query sees the old ones too

# %% [markdown] tags=["step"]
# **The mask of a chunk.** A row for each new query, a column for each key, True where the query may look.

# %% tags=["active-ipynb", "step"]
# def visible(length: int, new: int) -> Tensor:
#     """Which keys each new query sees: the old ones, those of new tokens before it, and its own."""
#     ### BEGIN SOLUTION
#     return torch.arange(length + new) <= length + torch.arange(new)[:, None]
#     ### END SOLUTION

# %% [markdown] tags=["step-cases"]
# visible(2, 2) = [[True, True, True, False], [True, True, True, True]]
# visible(2, 2) ≠ [[True, False, False, False], [True, True, False, False]]: the diagonal ends in the lower right corner
# visible(2, 2) ≠ [[True, True, False, False], [True, True, True, False]]: a query does not see its own key
# visible(2, 2) ≠ [[True, True, True, True], [True, True, True, True]]: the first new query sees the second
# visible(2, 2) ≠ [[True, False], [True, True]]: the columns of the old keys are missing
# visible(2, 2) ≠ [[False, False, False, True], [False, False, False, False]]: turned round; True is what is seen

# %% [markdown] tags=["experiment"]
# Make `chunk` 7, then 256, all tokens in one call. Does the result change? The time? Then leave `cache` out.
# Read on: Shazeer 2019, section 2.4, arXiv:1911.02150; Pope et al. 2022, section 2, arXiv:2211.05102.

# %% tags=["active-ipynb", "experiment"]
# import time
#
# chunk, x, cache = 1, torch.randn(1, 256, 512), KVCache(1, 2, 256, 64)
# attention, begun = CachedAttention(512, 8, 256, num_kv_heads=2), time.perf_counter()
# with torch.no_grad():
#     parts = torch.cat([attention(x[:, n : n + chunk], cache) for n in range(0, 256, chunk)], dim=1)
#     print(f"{time.perf_counter() - begun:.3f} s, differs by {(parts - attention(x)).abs().max():.1e}")


# %%
class KVCache:
    """Keys and values of up to max_len tokens, in buffers that are allocated once.

    Raises ValueError where tokens do not fit, and stays as it was. Shazeer 2019, arXiv:1911.02150.
    """

    def __init__(self, batch: int, num_kv_heads: int, max_len: int, head_dim: int, *, device=None, dtype=None):
        ### BEGIN SOLUTION
        self.keys = torch.zeros(batch, num_kv_heads, max_len, head_dim, device=device, dtype=dtype)
        self.values = torch.zeros_like(self.keys)
        self.length = 0
        ### END SOLUTION

    def append(
        self, k: Float[Tensor, "batch kv_heads new head_dim"], v: Float[Tensor, "batch kv_heads new head_dim"]
    ) -> tuple[Float[Tensor, "batch kv_heads length head_dim"], Float[Tensor, "batch kv_heads length head_dim"]]:
        """Copy the keys and values of new tokens; those of all so far, oldest first."""
        ### BEGIN SOLUTION
        end, max_len = self.length + k.shape[2], self.keys.shape[2]
        if end > max_len:
            raise ValueError(f"{self.length} tokens and {k.shape[2]} more are beyond max_len {max_len}")
        self.keys[:, :, self.length : end] = k.detach()
        self.values[:, :, self.length : end] = v.detach()
        self.length = end
        return self.keys[:, :, :end], self.values[:, :, :end]
        ### END SOLUTION

    def truncate(self, length: int) -> None:
        """Forget all tokens but the first `length`."""
        ### BEGIN SOLUTION
        self.length = length
        ### END SOLUTION


# %%
### BEGIN SOLUTION
def rotate(x: Float[Tensor, "*batch seq dim"], cos: Tensor, sin: Tensor) -> Float[Tensor, "*batch seq dim"]:
    """RoPE on neighboring pairs, in float32 at least."""
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    first, second = wide[..., 0::2], wide[..., 1::2]
    pairs = torch.stack([first * cos - second * sin, first * sin + second * cos], dim=-1)
    return pairs.flatten(-2).to(x.dtype)


### END SOLUTION


# %%
class CachedAttention(nn.Module):
    """Causal self-attention with RoPE and shared key heads, whose new tokens follow those of a cache.

    Softmax is computed in float32 at least. Raises ValueError for a position from max_seq_len on. Ainslie et al. 2023,
    arXiv:2305.13245.
    """

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        max_seq_len: int,
        theta: float = 10000.0,
        num_kv_heads: int | None = None,
        *,
        device=None,
        dtype=None,
    ):
        ### BEGIN SOLUTION
        super().__init__()
        if num_kv_heads is None:
            num_kv_heads = num_heads
        self.head_dim = d_model // num_heads
        self.max_seq_len = max_seq_len
        self.theta = theta
        kv_dim = num_kv_heads * self.head_dim
        self.q_proj = nn.Linear(d_model, d_model, bias=False, device=device, dtype=dtype)
        self.k_proj = nn.Linear(d_model, kv_dim, bias=False, device=device, dtype=dtype)
        self.v_proj = nn.Linear(d_model, kv_dim, bias=False, device=device, dtype=dtype)
        self.o_proj = nn.Linear(d_model, d_model, bias=False, device=device, dtype=dtype)
        table = torch.empty(max_seq_len, self.head_dim // 2, device=device, dtype=torch.float32)
        self.register_buffer("cos", table, persistent=False)
        self.register_buffer("sin", torch.empty_like(table), persistent=False)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Fill the tables, which no state dict holds."""
        position = torch.arange(self.max_seq_len, dtype=torch.float64, device="cpu")
        exponent = -torch.arange(0, self.head_dim, 2, dtype=torch.float64, device="cpu") / self.head_dim
        angles = torch.outer(position, self.theta**exponent)
        self.cos.copy_(angles.cos())
        self.sin.copy_(angles.sin())
        ### END SOLUTION

    def forward(
        self, x: Float[Tensor, "batch seq d_model"], cache: KVCache | None = None
    ) -> Float[Tensor, "batch seq d_model"]:
        """Attention of x to itself and to what stands in the cache, which it joins."""
        ### BEGIN SOLUTION
        seq, start = x.shape[1], 0 if cache is None else cache.length
        if start + seq > self.max_seq_len:
            raise ValueError(f"{start} tokens and {seq} more are beyond max_seq_len {self.max_seq_len}")
        cos, sin = self.cos[start : start + seq], self.sin[start : start + seq]
        q = self.split_heads(self.q_proj(x))
        k = self.split_heads(self.k_proj(x))
        v = self.split_heads(self.v_proj(x))
        q = rotate(q, cos, sin)
        k = rotate(k, cos, sin)
        if cache is not None:
            k, v = cache.append(k, v)

        # The queries of a group stand one after the other, so that no key head is repeated.
        group, length = q.shape[1] // k.shape[1], k.shape[2]
        q = q.unflatten(1, (-1, group)).flatten(2, 3)  # (batch, kv_heads, group * seq, head_dim)
        acc = torch.promote_types(q.dtype, torch.float32)
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
        if seq > 1:  # a single query sees every key
            mask = torch.ones(seq, length, dtype=torch.bool, device=x.device).tril(length - seq).repeat(group, 1)
            scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
        weights = F.softmax(scores, dim=-1, dtype=acc).to(q.dtype)
        heads = (weights @ v).unflatten(2, (group, seq)).flatten(1, 2)
        return self.o_proj(heads.transpose(-3, -2).flatten(-2))
        ### END SOLUTION

    ### BEGIN SOLUTION
    def split_heads(self, x: Float[Tensor, "batch seq dim"]) -> Float[Tensor, "batch heads seq head_dim"]:
        return x.unflatten(-1, (-1, self.head_dim)).transpose(-3, -2)

    ### END SOLUTION


# %% [markdown] tags=["solution"]
# ## Why it is done this way
#
# **Exact.** In a causal model the keys and values of a token depend on it and on earlier tokens alone. What comes later
# changes nothing that is kept.
#
# **One buffer.** `torch.cat` allocates a new tensor for each token and copies all that there was: 8 million rows for
# 4,000 tokens instead of 4,000, and for a moment the cache takes twice its memory. A buffer also keeps its address,
# which captured CUDA graphs need. `truncate` writes nothing: what stands after `length` is never read, so the rollback
# of speculative decoding is free.
#
# **The group in the query axis.** `repeat_interleave` reads the cache, writes it `group` times and reads that: with 32
# query heads to 8 key heads 9 times the traffic in HBM, in a step that is nothing but traffic. Folded, each key head
# meets `group * seq` rows in one product, and views of the buffer are all it takes.
#
# **The mask** has its diagonal end in the lower right corner, for the last query sees all keys.
#
# **What it costs.** Prefill is compute-bound, and sets the TTFT. A decoding step is memory-bound: it reads all weights
# and the whole cache, and does `group` FLOPs for a byte of cache. Llama 3 8B, with 32 layers of 8 key heads of 128, has
# 131 kB of cache a token, 1.07 GB at 8,192 tokens: a step on an H100, 3.35 TB/s, takes 4.8 ms for 16 GB of weights and
# 0.32 ms for that cache. Weights are shared by a batch, and the cache is not: throughput grows with the batch until the
# caches are most of the traffic, here from 15 sequences on.
#
# ## The other formulation
#
# Attend over the whole buffer and mask what is not filled, as gpt-fast does. All shapes are then alike in every step,
# as compiled graphs want it, and each step costs as much as the last. The buffer must start with zeros: `0 * nan` is
# nan.
#
# One length a row, for a batch of unequal texts: `length` becomes a tensor `(batch,)`, tokens are written by
# `keys[torch.arange(batch), :, lengths] = k`, positions are read from it, and the mask is
# `torch.arange(max_len) < lengths[:, None]`. A row of length 0 sees nothing, and gets zeros by a second fill after the
# softmax.
#
# ## The usual mistakes
#
# - Positions from 0 in every call: each new token then believes that it is the first.
# - `is_causal=True` with one query and many keys: aligned in the upper left corner, it sees the first key alone.
# - No mask with a cache: right for one token, wrong for a chunk.
# - Halves `(i, i + d/2)`, Hugging Face's layout of checkpoints, for neighboring pairs.

# %% [markdown] tags=["solution", "questions"]
# ## What interviewers ask next
#
# ### Why are keys and values kept, and queries not?
#
# - A query is used once, by its own token. Keys and values are read by every later one.
# - The outputs of earlier tokens are not needed again either: only the last one predicts.
#
# Source: Shazeer 2019, section 2.4, arXiv:1911.02150.
#
# ### How many sequences of `tokens` tokens fit on `gb` GB, beside Llama 3 8B's 16 GB of weights in bfloat16?
#
# - $2 \cdot 32 \cdot 8 \cdot 128$ numbers of two bytes: 131 kB a token.
# - On 80 GB 60 sequences of 8,192 tokens. With 32 key heads it would be 15.
#
# Answer: `(gb - 16) * 1e9 / (131072 * tokens)` sequences, within 5 %. Settings: `gb` 80, 141; `tokens` 2048, 8192,
# 32768.
#
# Source: Grattafiori et al. 2024, table 3, arXiv:2407.21783.
#
# ### How many ms does a decoding step of Llama 3 8B take on an H100, for `batch` sequences of `tokens` tokens?
#
# - It reads 16 GB of weights once, and 131 kB for each token of each sequence, at 3.35 TB/s. FLOPs do not matter.
# - Weights alone: 4.8 ms, whatever the batch. So throughput grows with the batch, and latency with the caches.
#
# Answer: `(16.06e9 + 131072 * batch * tokens) / 3.35e12 * 1e3` ms, within 5 %. Settings: `batch` 1, 8, 32; `tokens`
# 2048, 8192.
#
# Source: Pope et al. 2022, arXiv:2211.05102.
#
# ### One buffer of max_len, growing by parts, or pages?
#
# - A buffer for the longest sequence wastes what short ones do not fill: of the memory of earlier systems 20 to 38
#   percent held tokens.
# - Growing by `cat` copies; growing by doubling copies each token about once more, and takes up to twice the memory.
# - Pages of 16 tokens and a table waste less than one page a sequence, and prefixes can be shared.
#
# Source: Kwon et al. 2023, arXiv:2309.06180.
