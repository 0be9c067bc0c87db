# %% [markdown]
# # Decoder layer with cross-attention
#
# $$h_1 = \mathrm{norm}_s\big(x + \mathrm{attn}_s(x)\big), \quad
# h_2 = \mathrm{norm}_c\big(h_1 + \mathrm{attn}_c(h_1, \mathrm{memory})\big), \quad
# y = \mathrm{norm}_f\big(h_2 + \mathrm{ffn}(h_2)\big)$$
#
# It writes one text while it reads another: causal self-attention, then cross-attention (queries from `x`, keys and
# values from `memory`), then a feed-forward layer.
#
# **Write** `DecoderLayer(d_model, num_heads, d_ff, dropout=0.0, eps=1e-12, *, device=None, dtype=None)` with
# `forward(x, memory, memory_padding=None)`: `x` `(batch, seq, d_model)` to the same shape, `memory`
# `(batch, mem_len, d_model)`, `memory_padding` boolean `(batch, mem_len)`, True = a real token.
#
# Attention as in **mha** with biases, feed-forward as in **gelu_ffn**, LayerNorms:
#
# ```
# self_attn, cross_attn: q_proj, k_proj, v_proj, o_proj   weight (d_model, d_model), bias (d_model,)
# ffn.fc1, ffn.fc2                                        weight (d_ff, d_model) and (d_model, d_ff), bias
# self_attn_norm, cross_attn_norm, ffn_norm               weight, bias (d_model,)
# ```
#
# The stub holds only the layer: write its parts too, or import your own. No operation of PyTorch is forbidden.
#
# **Example.** Let the two `o_proj` and `ffn.fc2` be zero, weights and biases: all branches are silent. Then
# $x = (1, 3)$ has mean 2 and deviation 1, becomes $(-1, 1)$ in the first norm, and stays so in the other two.
#
# **Builds on** encoder_layer, causal_mask, mha. **Sources:** Vaswani et al. 2017: Attention is all you need, section
# 3.1, [arXiv:1706.03762](https://arxiv.org/abs/1706.03762).
#
# House rules hold: docs/house_rules.md.

# %% [markdown] tags=["contract"]
# <details><summary>Contract: Causal, Padding, Masked rows, Dropout, Norms, Half precision, Errors</summary>
#
# - **Causal.** Token `t` attends to tokens `0 ... t` of `x`, of any number of them, and to all of the memory.
# - **Padding.** Nothing attends to padding of the memory, however loud it is or low the scores are.
# - **Masked rows.** Where a row of the memory is nothing but padding, the weighted mean of the cross-attention is exact
#   zeros, which `o_proj` turns into its bias. Gradients stay finite.
# - **Dropout.** In training mode alone, each entry on its own: 0 with probability `dropout`, else divided by `1 -
#   dropout`. It acts on the feed-forward branch: after gelu, after `fc2`, or both; elsewhere it is up to you.
# - **Norms.** They start as ones and zeros; `eps` reaches all three.
# - **Half precision.** Softmax and norms in float32. Scores and weights may each be rounded.
# - **Errors.** `d_model` no multiple of `num_heads`, at construction or at the call.
#
# </details>

# %% tags=["active-ipynb", "example"]
# # The example, in numbers
# x = (1.0, 3.0)  # all three branches silent
# for step in ("self-attention", "cross-attention", "feed-forward"):
#     mean = sum(x) / 2
#     deviation = (sum((v - mean) ** 2 for v in x) / 2) ** 0.5
#     x = tuple((v - mean) / deviation for v in x)
#     print("after the norm of the", step, x)

# %%
import math

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn


# %%
class DecoderLayer(nn.Module):
    """Causal self-attention, cross-attention on a memory, feed-forward: each added, then normalized.

    Softmax and norms are computed in float32 at least. Raises ValueError if the heads do not divide d_model.
    Vaswani et al. 2017, arXiv:1706.03762, section 3.1.
    """

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        d_ff: int,
        dropout: float = 0.0,
        eps: float = 1e-12,
        *,
        device=None,
        dtype=None,
    ):
        raise NotImplementedError

    def forward(
        self,
        x: Float[Tensor, "batch seq d_model"],
        memory: Float[Tensor, "batch mem_len d_model"],
        memory_padding: Bool[Tensor, "batch mem_len"] | None = None,
    ) -> Float[Tensor, "batch seq d_model"]:
        """The layer applied to x, reading the memory. The padding is True where a token of the memory is real."""
        raise NotImplementedError


# %% tags=["active-ipynb"]
# import sys
#
# sys.path.append("../..")  # the project
# from dojo import check
#
# check("decoder_layer")
