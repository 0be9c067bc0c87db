# %% [markdown]
# # Multi-head latent attention
#
# $$s_{ij} = \frac{q^{\mathrm{nope}}_i \cdot k^{\mathrm{nope}}_j + q^{\mathrm{rope}}_i \cdot k^{\mathrm{rope}}_j}
# {\sqrt{d_{\mathrm{nope}} + d_{\mathrm{rope}}}}$$
#
# DeepSeek-V2 caches a latent for each token, from which all heads' keys and values are made, and one rotated key.
# **Write** `MultiHeadLatentAttention(d_model, num_heads, kv_rank, nope_dim, rope_dim, v_dim, max_seq_len,
# theta=10000.0, eps=1e-6, *, device=None, dtype=None)`. No biases:
#
# | weight | rows | columns |
# |---|---|---|
# | `q_proj` | heads × [nope, rope] | `d_model` |
# | `kv_down` | [`kv_rank`, rope] | `d_model` |
# | `kv_norm`, of an RMSNorm | `kv_rank` | |
# | `kv_up` | heads × [key, value] | `kv_rank` |
# | `o_proj` | `d_model` | heads × value |
#
# The normed part of `kv_down` is the latent; the rest is one rope key for all heads. RoPE turns pairs `(2i, 2i + 1)`.
#
# - `forward(x)`: causal, from `(batch, seq, d_model)` to the same.
# - `decode(x, latents, rope_keys)`: `x` follows $t$ cached tokens, `(batch, t, kv_rank)` and `(batch, t, rope_dim)`;
#   gives `(out, latents, rope_keys)`, the new ones appended.
#
# Not allowed: `F.scaled_dot_product_attention`.
#
# **Example.** 128 heads of 128 + 64, rank 512: a token has 576 numbers in the cache, not 128 · (128 + 128) = 32,768.
#
# **Builds on** kv_cache, rope, rmsnorm. **Sources:** DeepSeek-AI 2024: DeepSeek-V2,
# [arXiv:2405.04434](https://arxiv.org/abs/2405.04434), section 2.1; Shazeer 2019: Fast transformer decoding, one
# write-head is all you need, [arXiv:1911.02150](https://arxiv.org/abs/1911.02150).
#
# House rules hold: docs/house_rules.md.

# %% [markdown] tags=["contract"]
# <details><summary>Contract: Cache, Any cut, Absorbed, Half precision, Gradients, Errors</summary>
#
# - **Cache.** Latents are cached after the norm, rope keys after the rotation. $t$ may be 0.
# - **Any cut.** However a sequence is cut into calls of `decode`, of one token or more, it gives what `forward` gives.
# - **Absorbed.** `decode` makes no keys and no values of cached tokens. The key rows of `kv_up` multiply the query,
#   its value rows the weighted mean of the latents.
# - **Half precision.** Norm, angles and softmax in float32. Products may be rounded to the dtype of `x`.
# - **Gradients.** Those of `forward` are right; of `decode` none are asked for.
# - **Errors.** An odd `rope_dim`, at construction; positions from `max_seq_len` on, in `forward` and `decode`.
#
# </details>

# %%
import math

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn


# %%
class MultiHeadLatentAttention(nn.Module):
    """Causal self-attention whose keys and values are made from a latent of low rank, beside one rotated key.

    Softmax is computed in float32 at least. Raises ValueError for an odd rope_dim, and for a position from max_seq_len
    on. DeepSeek-AI 2024, arXiv:2405.04434.
    """

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        kv_rank: int,
        nope_dim: int,
        rope_dim: int,
        v_dim: int,
        max_seq_len: int,
        theta: float = 10000.0,
        eps: float = 1e-6,
        *,
        device=None,
        dtype=None,
    ):
        raise NotImplementedError

    def forward(self, x: Float[Tensor, "batch seq d_model"]) -> Float[Tensor, "batch seq d_model"]:
        """Causal self-attention of x, with keys and values of each head."""
        raise NotImplementedError

    def decode(
        self,
        x: Float[Tensor, "batch seq d_model"],
        latents: Float[Tensor, "batch cached kv_rank"],
        rope_keys: Float[Tensor, "batch cached rope_dim"],
    ) -> tuple[
        Float[Tensor, "batch seq d_model"],
        Float[Tensor, "batch length kv_rank"],
        Float[Tensor, "batch length rope_dim"],
    ]:
        """Attention of x to the cached tokens and to itself; the caches with its tokens appended."""
        raise NotImplementedError


# %% tags=["active-ipynb"]
# import sys
#
# sys.path.append("../..")  # the project
# from dojo import check
#
# check("mla")
