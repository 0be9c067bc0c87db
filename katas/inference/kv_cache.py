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
#
# **Builds on** causal_attention, gqa. **Sources:** Shazeer 2019: Fast transformer decoding, one write-head is all you
# need, [arXiv:1911.02150](https://arxiv.org/abs/1911.02150); Su et al. 2021: RoFormer,
# [arXiv:2104.09864](https://arxiv.org/abs/2104.09864), section 3.4.
#
# House rules hold: docs/house_rules.md.

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
        raise NotImplementedError

    def append(
        self, k: Float[Tensor, "batch kv_heads new head_dim"], v: Float[Tensor, "batch kv_heads new head_dim"]
    ) -> tuple[Float[Tensor, "batch kv_heads length head_dim"], Float[Tensor, "batch kv_heads length head_dim"]]:
        """Copy the keys and values of new tokens; those of all so far, oldest first.

        Raises:
            ValueError: there is no room for them, or their shape is not that of the cache.
        """
        raise NotImplementedError

    def truncate(self, length: int) -> None:
        """Forget all tokens but the first `length`.

        Raises:
            ValueError: length is outside [0, self.length].
        """
        raise NotImplementedError


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
        raise NotImplementedError

    def forward(
        self, x: Float[Tensor, "batch seq d_model"], cache: KVCache | None = None
    ) -> Float[Tensor, "batch seq d_model"]:
        """Attention of x to itself and to what stands in the cache, which it joins."""
        raise NotImplementedError


# %% tags=["active-ipynb"]
# import sys
#
# sys.path.append("../..")  # the project
# from dojo import check
#
# check("kv_cache")
