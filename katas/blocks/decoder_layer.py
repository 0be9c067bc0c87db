# %% [markdown]
# # Decoder layer with cross-attention
#
# $$h_1 = \mathrm{norm}_s\big(x + \mathrm{attn}_s(x)\big), \qquad
# h_2 = \mathrm{norm}_c\big(h_1 + \mathrm{attn}_c(h_1, \mathrm{memory})\big), \qquad
# y = \mathrm{norm}_f\big(h_2 + \mathrm{ffn}(h_2)\big)$$
#
# This layer writes one text while it reads another. First it attends to what has been written so far (causal
# self-attention), then to the source (cross-attention: queries from `x`, keys and values from `memory`). A feed-forward
# layer follows.
#
# **Write** `DecoderLayer(d_model, num_heads, d_ff, dropout=0.0, eps=1e-12, *, device=None, dtype=None)` with
# `forward(x, memory, memory_padding=None)`: `x` is `(batch, seq, d_model)`, `memory` `(batch, mem_len, d_model)`, and
# the result `(batch, seq, d_model)`.
#
# The parts, with exactly these parameters, stored `(out_features, in_features)`:
#
# - **`self_attn`**, **`cross_attn`**: multi-head attention as in the kata **mha**, but **with biases**. Each has
#   `q_proj`, `k_proj`, `v_proj` and `o_proj`, each with a `weight` `(d_model, d_model)` and a `bias` `(d_model,)`.
#   Head `h` owns the rows `h * head_dim ... (h + 1) * head_dim - 1`; the scores are divided by
#   $\sqrt{\text{head\_dim}}$.
# - **`ffn`**: $W_2\,\mathrm{gelu}(W_1 x + b_1) + b_2$ with the exact gelu, as in **gelu_ffn**. `ffn.fc1.weight`
#   `(d_ff, d_model)`, `ffn.fc1.bias` `(d_ff,)`, `ffn.fc2.weight` `(d_model, d_ff)`, `ffn.fc2.bias` `(d_model,)`.
# - **`self_attn_norm`**, **`cross_attn_norm`**, **`ffn_norm`**: LayerNorm over the last dimension with
#   $\varepsilon$ = `eps`, each with a `weight` and a `bias` of shape `(d_model,)` that start as ones and zeros.
#
# - **Causal**: token `t` attends to tokens `0 ... t` of `x`. It may look at all of the memory.
# - **`memory_padding`** is boolean, of shape `(batch, mem_len)`, **True = a real token**. Nothing attends to padding.
#   If a row of the memory is nothing but padding, the weighted mean of the cross-attention is exact zeros, which
#   `o_proj` then turns into its bias. All gradients stay finite.
# - **Dropout** acts in training mode only. Each entry is set to 0 with probability `dropout`, and the others are
#   divided by `1 - dropout`. It acts on the feed-forward branch: after gelu, after `fc2`, or both. Whether it acts
#   elsewhere is up to you; the branches of the attentions, before they are added, are usual. In evaluation mode nothing
#   is dropped.
# - **Dtype.** The result has the dtype of the parameters. float64 in, float64 out; float32 accuracy is enough. In
#   float16 and bfloat16, softmax and norms are computed in float32. Scores and weights may each be rounded once more.
# - **Errors.** If `d_model` is not a multiple of `num_heads`: a `ValueError` that holds both, at construction or at
#   the call.
# - **Inputs are not modified**, and may be non-contiguous or expanded. No loops over heads or batch.
# - **Not graded:** empty batches, padding of another dtype, a `dropout` outside 0 to 1, and how matrices are
#   initialised.
#
# The stub holds only the layer. Write the parts yourself, or import your own from other katas.
# No operation of PyTorch is forbidden, and the computation stays in it.
#
# **Example.** Let the two `o_proj` and `ffn.fc2` be zero, weights and biases: all branches are silent. Then
# $x = (1, 3)$ has mean 2 and deviation 1, becomes $(-1, 1)$ in the first norm, and stays so in the other two.
#
# **Builds on** encoder_layer, causal_mask, mha. **Sources:** Vaswani et al. 2017: Attention is all you need, section
# 3.1, [arXiv:1706.03762](https://arxiv.org/abs/1706.03762).
#
# House rules hold: docs/house_rules.md.

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
    """Causal self-attention, cross-attention on a memory, feed-forward: each added, then normalised.

    Scores, softmax and norms are computed in float32 at least. Raises ValueError if the heads do not divide d_model.
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
