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
#
# **Builds on** causal_attention, gqa. **Sources:** Shazeer 2019: Fast transformer decoding, one write-head is all you
# need, [arXiv:1911.02150](https://arxiv.org/abs/1911.02150); Su et al. 2021: RoFormer,
# [arXiv:2104.09864](https://arxiv.org/abs/2104.09864), section 3.4.
#
# House rules hold: docs/house_rules.md.

# %% [markdown] tags=["contract"]
# <details><summary>Contract: Any cut, Buffer, Cost, Half precision, Errors</summary>
#
# - **Any cut.** However a sequence is cut into calls, and rolled back by `truncate` in between, it gives what one call
#   gives. A module serves several caches by turns.
# - **Buffer.** Allocated once, at construction, with its `dtype` and on its `device`. `append` copies the new tokens
#   into it, and no others.
# - **Cost.** A call on one token projects one token.
# - **Half precision.** Softmax in float32. Scores and weights may be rounded to the dtype of the inputs, as Llama does.
# - **Errors.** More than `max_len` tokens, a position from `max_seq_len` on. The cache is then as before.
#
# </details>

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
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn


# %%
class KVCache:
    """Keys and values of up to max_len tokens, in buffers that are allocated once.

    Raises ValueError where tokens do not fit, and stays as it was. Shazeer 2019, arXiv:1911.02150.
    """

    def __init__(self, batch: int, num_kv_heads: int, max_len: int, head_dim: int, *, device=None, dtype=None):
        raise NotImplementedError

    def append(
        self, k: Float[Tensor, "batch kv_heads new head_dim"], v: Float[Tensor, "batch kv_heads new head_dim"]
    ) -> tuple[Float[Tensor, "batch kv_heads length head_dim"], Float[Tensor, "batch kv_heads length head_dim"]]:
        """Copy the keys and values of new tokens; those of all so far, oldest first."""
        raise NotImplementedError

    def truncate(self, length: int) -> None:
        """Forget all tokens but the first `length`."""
        raise NotImplementedError


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
