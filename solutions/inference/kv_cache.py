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
#     title: Attention with a KV cache
#     level: 3
#     minutes: 30
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
# A language model writes one token at a time. Each new token attends to all before it, but their keys and values never
# change: they are computed once and kept. Here $t$ tokens stand in the cache, and $i$ counts the new ones.
#
# **Write two classes.**
#
# `KVCache(batch, num_kv_heads, max_len, head_dim, *, device=None, dtype=None)` with `length`, `append(k, v)` and
# `truncate(length)`.
#
# `CachedAttention(d_model, num_heads, max_seq_len, theta=10000.0, num_kv_heads=None, *, device=None, dtype=None)` with
# `forward(x, cache=None)`, from `(batch, seq, d_model)` to the same shape.
#
# - **`length`** is an int: how many tokens stand in the cache, 0 at first.
# - **`append(k, v)`** takes keys and values of shape `(batch, num_kv_heads, new, head_dim)`. It gives those of all
#   tokens so far as a tuple, each `(batch, num_kv_heads, length, head_dim)`, the oldest first.
# - **It copies.** Whatever happens afterwards to `k`, to `v` or to an `x`, the cache holds what it was given.
# - **`truncate(length)`** forgets all tokens but the first `length`. Appending goes on from there.
# - **`device` and `dtype`** are those of the room, and of what `append` gives.
# - **Room** for `max_len` tokens is taken once, at construction, and `append` writes into it. One of one token makes no
#   larger tensor at length 4,000 than at 40, and takes as many operations. Views of the room are free.
# - **Parameters** of `CachedAttention`, and no others, as in **gqa** and without biases: `q_proj.weight` and
#   `o_proj.weight`, each `(d_model, d_model)`; `k_proj.weight` and `v_proj.weight`, each
#   `(num_kv_heads * head_dim, d_model)`, where `head_dim = d_model / num_heads`, and `num_kv_heads` is `num_heads` when
#   it is None.
# - **Without a cache** `forward` is that of **causal_attention** at positions `0 ... seq - 1`: query head `h` reads
#   key/value head `h // (num_heads // num_kv_heads)`. Queries and keys are rotated: at position $p$ the pair of entries
#   `(2i, 2i + 1)` of a head turns by $p \cdot \theta^{-2i/\text{head\_dim}}$. Values are not.
# - **With a cache** the tokens of `x` stand behind those in the cache, and join them. Their positions go on from
#   `cache.length`. Query `i` of `seq` sees the first `length - seq + i + 1` keys, where `length` counts the new ones.
# - **Any way of cutting** a sequence into calls, and any rollback by `truncate`, gives what one call gives. What a
#   module must remember of a sequence stands in its cache: it serves several in turn.
# - **Cost.** A call on one token computes the projections of one token. No loops over heads, batch or tokens.
# - **Dtype.** The result has the dtype of the parameters. With float16 or bfloat16 softmax is computed in float32.
#   Queries, keys, scores and weights may each be rounded to the dtype of the inputs, as Llama does. float64 in, float64
#   out; float32 accuracy is enough.
# - **Tables** of cosines and sines, if there are any, never show in `state_dict()`. They work on the device that the
#   module was moved to, and lose no precision when it is cast to bfloat16 or float16.
# - **Inputs are not modified**, and may be non-contiguous or expanded. Gradients flow to `x` and the parameters
#   without a cache. With one, none are asked for.
# - **Errors of the cache** are `ValueError`s that hold the values: more than `max_len` tokens; `k` or `v` of another
#   batch, number of heads or width than the cache; `k` and `v` of unequal lengths; `truncate` outside of `[0, length]`.
# - **Errors of the module** are `ValueError`s that hold the values: `d_model` not a multiple of `num_heads`,
#   `num_heads` not a multiple of `num_kv_heads`, an odd `head_dim`, a position from `max_seq_len` on. `append` may be
#   the one that refuses what does not fit into the cache.
# - **After an error** the cache is as it was before.
# - **Not graded:** whether keys are kept turned or plain; what becomes of views after the next `append`; calls without
#   tokens; inputs of another dtype than the cache or the parameters; the dtype that half precision is rotated in; heads
#   below 1.
#
# Not allowed: fused attention, as `F.scaled_dot_product_attention` or `nn.MultiheadAttention`.
#
# **Example.** `d_model = 2`, one head, all four weights the identity. Token 0 is $(1, 0)$. It sees only itself, gives
# $(1, 0)$, and `length` is 1. Token 1 is $(0, 1)$, in a call of its own. It stands at position 1: turned, query and key
# are $(-\sin 1, \cos 1)$. Its scores are $-0.595$ with token 0 and $0.707$ with itself, its weights $0.214$ and
# $0.786$, and the result is $(0.214, 0.786)$. Counted from 0 again it would be $(0.330, 0.670)$.

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
# With `seq` queries and `total` keys the hidden ones are `torch.ones(seq, total).triu(1 + total - seq)`: the diagonal
# ends in the lower right corner, not in the upper left one. Rotate, append, repeat the key heads by
# `repeat_interleave`, then scores, mask, softmax. Check all before you write anything.

# %%
import math

import torch
from jaxtyping import Float
from torch import Tensor, nn


# %%
class KVCache:
    """Keys and values of up to max_len tokens, in room that is taken once.

    Raises ValueError where tokens do not fit, and leaves the cache as it was. Shazeer 2019, arXiv:1911.02150.
    """

    def __init__(self, batch: int, num_kv_heads: int, max_len: int, head_dim: int, *, device=None, dtype=None):
        ### BEGIN SOLUTION
        room = (batch, num_kv_heads, max_len, head_dim)
        self.keys = torch.zeros(room, device=device, dtype=dtype)
        self.values = torch.zeros(room, device=device, dtype=dtype)
        self.length = 0
        ### END SOLUTION

    def append(
        self, k: Float[Tensor, "batch kv_heads new head_dim"], v: Float[Tensor, "batch kv_heads new head_dim"]
    ) -> tuple[Float[Tensor, "batch kv_heads length head_dim"], Float[Tensor, "batch kv_heads length head_dim"]]:
        """Copy the keys and values of new tokens; those of all so far, oldest first.

        Raises:
            ValueError: there is no room for them, or their shape is not that of the cache.
        """
        ### BEGIN SOLUTION
        batch, heads, max_len, head_dim = self.keys.shape
        new = k.shape[2]
        if not k.shape == v.shape == (batch, heads, new, head_dim):
            shapes = f"k {tuple(k.shape)} and v {tuple(v.shape)}"
            raise ValueError(f"{shapes} do not fit a cache of ({batch}, {heads}, new, {head_dim})")
        end = self.length + new
        if end > max_len:
            raise ValueError(f"{self.length} tokens and {new} more do not fit into max_len {max_len}")
        self.keys[:, :, self.length : end] = k.detach()
        self.values[:, :, self.length : end] = v.detach()
        self.length = end
        return self.keys[:, :, :end], self.values[:, :, :end]
        ### END SOLUTION

    def truncate(self, length: int) -> None:
        """Forget all tokens but the first `length`.

        Raises:
            ValueError: length is outside [0, self.length].
        """
        ### BEGIN SOLUTION
        if not 0 <= length <= self.length:
            raise ValueError(f"length {length} is outside [0, {self.length}]")
        self.length = length
        ### END SOLUTION


# %%
### BEGIN SOLUTION
def rotate(x: Float[Tensor, "*batch seq dim"], cos: Tensor, sin: Tensor) -> Float[Tensor, "*batch seq dim"]:
    """RoPE on neighbouring pairs, in float32 at least."""
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    cos, sin = cos.to(wide.dtype), sin.to(wide.dtype)
    first, second = wide[..., 0::2], wide[..., 1::2]
    turned = torch.stack([first * cos - second * sin, first * sin + second * cos], dim=-1)
    return turned.flatten(-2).to(x.dtype)


### END SOLUTION


# %%
class CachedAttention(nn.Module):
    """Causal self-attention with RoPE and shared key heads, whose new tokens stand behind those of a cache.

    Softmax is computed in float32 at least. Raises ValueError for heads that do not divide, an odd head dimension, and
    a position from max_seq_len on.
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
        if num_kv_heads is None:
            num_kv_heads = num_heads
        if num_heads < 1 or d_model % num_heads != 0:
            raise ValueError(f"d_model {d_model} is not a multiple of num_heads {num_heads}")
        if num_kv_heads < 1 or num_heads % num_kv_heads != 0:
            raise ValueError(f"num_heads {num_heads} is not a multiple of num_kv_heads {num_kv_heads}")
        head_dim = d_model // num_heads
        if head_dim % 2 != 0:
            raise ValueError(f"head_dim {head_dim} = d_model {d_model} / num_heads {num_heads} is odd")
        super().__init__()
        self.head_dim = head_dim
        self.max_seq_len = max_seq_len
        kv_dim = num_kv_heads * head_dim
        self.q_proj = nn.Linear(d_model, d_model, bias=False, device=device, dtype=dtype)
        self.k_proj = nn.Linear(d_model, kv_dim, bias=False, device=device, dtype=dtype)
        self.v_proj = nn.Linear(d_model, kv_dim, bias=False, device=device, dtype=dtype)
        self.o_proj = nn.Linear(d_model, d_model, bias=False, device=device, dtype=dtype)

        frequency = theta ** (-torch.arange(0, head_dim, 2, dtype=torch.float64) / head_dim)
        angles = torch.outer(torch.arange(max_seq_len, dtype=torch.float64), frequency)
        # Plain attributes, not buffers: `module.to(torch.bfloat16)` would round a buffer.
        self.cos, self.sin = angles.cos().to(device), angles.sin().to(device)
        ### END SOLUTION

    def forward(
        self, x: Float[Tensor, "batch seq d_model"], cache: KVCache | None = None
    ) -> Float[Tensor, "batch seq d_model"]:
        """Attention of x to itself and to what stands in the cache, which it joins."""
        ### BEGIN SOLUTION
        seq = x.shape[1]
        start = 0 if cache is None else cache.length
        if start + seq > self.max_seq_len:
            raise ValueError(f"{start} + {seq} tokens: positions end before max_seq_len {self.max_seq_len}")
        self.cos, self.sin = self.cos.to(x.device), self.sin.to(x.device)
        cos, sin = self.cos[start : start + seq], self.sin[start : start + seq]
        q = rotate(self.split_heads(self.q_proj(x)), cos, sin)
        k = rotate(self.split_heads(self.k_proj(x)), cos, sin)
        v = self.split_heads(self.v_proj(x))
        if cache is not None:
            k, v = cache.append(k, v)
        total = k.shape[2]
        group = q.shape[1] // k.shape[1]
        k, v = k.repeat_interleave(group, dim=1), v.repeat_interleave(group, dim=1)

        acc = torch.promote_types(x.dtype, torch.float32)
        scores = q.to(acc) @ k.to(acc).mT / math.sqrt(self.head_dim)
        hidden = torch.ones(seq, total, dtype=torch.bool, device=x.device).triu(1 + total - seq)
        weights = scores.masked_fill(hidden, -torch.inf).softmax(dim=-1)
        heads = (weights @ v.to(acc)).to(x.dtype)
        return self.o_proj(heads.transpose(1, 2).flatten(-2))
        ### END SOLUTION

    ### BEGIN SOLUTION
    def split_heads(self, x: Float[Tensor, "batch seq dim"]) -> Float[Tensor, "batch heads seq head_dim"]:
        return x.unflatten(-1, (-1, self.head_dim)).transpose(1, 2)

    ### END SOLUTION


# %% [markdown] tags=["solution"]
# ## Why it is done this way
#
# **Why it is exact.** In a causal model the keys and values of a token depend on it and on earlier tokens alone. What
# comes later changes nothing that is kept.
#
# **Why room is taken once.** `torch.cat` makes a new tensor for each token and copies all that there was: 8 million
# rows for 4,000 tokens instead of 4,000, and for a moment the cache takes twice its memory. A room of fixed size also
# keeps its address, which captured CUDA graphs need.
#
# **Why `truncate` writes nothing.** What stands behind `length` is never read, and the next `append` overwrites it.
# That makes a rollback free, and speculative decoding rolls back in nearly every step.
#
# **The mask.** With $s$ queries and $n$ keys the last query sees all keys. So the diagonal ends in the lower right
# corner. One query alone needs no mask; a chunk of a prompt behind a cache does.
#
# **What it costs.** $O(d^2 + n d)$ time for a token behind $n$ others; computed anew it would be $O(n d^2 + n^2 d)$.
# The cache takes $4\, G\,\text{head\_dim}$ bytes for a token and layer in bfloat16, with $G$ key heads: in a model of
# 32 layers with 8 heads of 128 that is 131 kB for a token, 1.1 GB for 8,192. A step reads all of it once.
#
# ## The other formulation
#
# Attend over the whole room and mask what is not filled. All shapes are then the same in every step, as compiled
# graphs want it, and each step costs as much as the last one. The room must start with zeros: `0 * nan` is nan.
#
# Keys may also be kept plain, and turned when they are read. That is more work in each step, and lets positions change
# later.
#
# ## The usual mistakes
#
# - Positions from 0 in every call: each new token then believes that it is the first.
# - `is_causal=True` with one query and many keys: aligned in the upper left corner it sees the first key alone.
# - No mask with a cache: right for one token, wrong for a chunk.
# - Keys turned once when they are stored, and again when they are read.
# - Keeping the caller's tensor: a static input buffer is refilled in the next step.
# - Writing first and checking afterwards: the cache that refused is no longer what it was.
# - State in the module: two sequences in turn then read each other's positions.

# %% tags=["active-ipynb", "solution"]
# # The cache fills, and a draft of four tokens of which one is kept is rolled back
# import matplotlib.pyplot as plt
# import torch
# import torch.nn.functional as F
#
# steps = [("prompt of 6", 6), ("one token", 1), ("one token", 1), ("draft of 4", 4), ("truncate(9)", 9), ("2 more", 2)]
# cache, rows = KVCache(1, 1, 16, 1), []
# for number, (told, count) in enumerate(steps):
#     if told.startswith("truncate"):
#         cache.truncate(count)
#     else:
#         keys, _ = cache.append(torch.full((1, 1, count, 1), float(number)), torch.zeros(1, 1, count, 1))
#     rows.append(F.pad(keys[0, 0, : cache.length, 0], (0, 16 - cache.length), value=torch.nan))  # a copy
# figure, axis = plt.subplots(figsize=(7, 3), layout="constrained")
# axis.imshow(torch.stack(rows), cmap="tab10", vmin=0, vmax=9)
# axis.set(xlabel="place in the cache", title="a colour for each call whose tokens stand there; white is free")
# axis.set_yticks(range(len(steps)), [told for told, _ in steps])
# plt.show()

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
# ### How large is the cache?
#
# - 2 × layers × key heads × head_dim × bytes for each token.
# - Llama 3 8B has 32 layers and 8 key heads of 128: 131 kB in bfloat16, 1.1 GB for 8,192 tokens.
# - With a batch of 16 such sequences it is larger than the weights, 16 GB.
#
# Source: Grattafiori et al. 2024, table 3, arXiv:2407.21783.
#
# ### What limits the speed of a step?
#
# - Memory: each step reads all weights and the whole cache, and does about one multiplication for each number of it.
# - The weights are shared by the sequences of a batch, the cache is not. So larger batches help only up to a point.
# - Prefill is the other way round: many tokens for each weight that is read.
#
# Source: Pope et al. 2022, arXiv:2211.05102.
#
# ### Room for max_len, growing by parts, or pages?
#
# - Room for the longest sequence wastes what short ones do not fill: of the memory of earlier systems 20 to 38 percent
#   held tokens.
# - Growing by `cat` copies; growing by doubling copies each token about once more, and takes up to twice the memory.
# - Pages of 16 tokens and a table waste less than one page for a sequence, and prefixes can be shared.
#
# Source: Kwon et al. 2023, arXiv:2309.06180.
#
# ### Where is a rollback needed?
#
# - In speculative decoding: a draft of several tokens joins the cache in one call, and the rejected ones are forgotten.
# - When a user edits the last message, or several answers start from one prompt.
# - With a window that overwrites its oldest tokens it is not free: what was overwritten is gone.
#
# Source: Leviathan, Kalman, Matias 2022, arXiv:2211.17192.
#
# ### Keep keys turned or plain?
#
# - Turned: each key is rotated once. That is the usual choice.
# - Plain: positions may be assigned anew, as when old tokens are dropped and the rest is counted within the cache.
# - Doing both, turning what was turned, is a classic bug: the error grows with the position.
#
# Source: Xiao et al. 2023, section 3.2, arXiv:2309.17453.
#
# ### Why is `is_causal=True` wrong with a cache?
#
# - For queries and keys of unequal number PyTorch aligns the mask at the upper left: query `i` sees keys `0 ... i`.
# - It should be the lower right. With one query, no mask at all is right.
# - For a chunk use an explicit mask, or `torch.nn.attention.bias.causal_lower_right`.
#
# Source: PyTorch, https://docs.pytorch.org/docs/stable/generated/torch.nn.attention.bias.CausalBias.html.
#
# ### Does decoding with a cache give the same bits as one call?
#
# - No. Products of other shapes are summed in another order, so results differ by rounding.
# - Greedy decoding can then take another token where two are nearly equal, and everything after it differs.
# - Test with float64 and a tolerance, on logits and not on text.
#
# Source: He 2025, Defeating nondeterminism in LLM inference,
# https://thinkingmachines.ai/blog/defeating-nondeterminism-in-llm-inference/.
#
# ### How is the cache made smaller?
#
# - Fewer key heads, one latent vector for all of them, windows, and layers that share a cache.
# - Fewer bits: keys have outliers in fixed channels and are quantised by channel, values by token; 2 bits suffice.
# - Dropping tokens of little weight, at the risk that a later question needs them.
#
# Source: Liu et al. 2024, KIVI, arXiv:2402.02750.
