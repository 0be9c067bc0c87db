# %% [markdown]
# # Encoder layer
#
# $$h = \mathrm{norm}_a\big(x + \mathrm{attn}(x)\big), \qquad y = \mathrm{norm}_f\big(h + \mathrm{ffn}(h)\big)$$
#
# The layer of BERT and of the encoder of 2017: post-norm, every token attends to every real one.
#
# **Write** `EncoderLayer(d_model, num_heads, d_ff, dropout=0.0, eps=1e-12, *, device=None, dtype=None)` with
# `forward(x, padding=None)`, from `(batch, seq, d_model)` to the same shape. `padding` is boolean `(batch, seq)`,
# True = a real token.
#
# Attention is that of **mha** with biases, the feed-forward layer that of **gelu_ffn**, both norms are LayerNorms:
#
# ```
# self_attn.{q_proj, k_proj, v_proj, o_proj}   weight (d_model, d_model), bias (d_model,)
# ffn.fc1, ffn.fc2                             weight (d_ff, d_model) and (d_model, d_ff), bias
# attn_norm, ffn_norm                          weight, bias (d_model,)
# ```
#
# The stub holds only the layer: write its parts too, or import your own. No operation of PyTorch is forbidden.
#
# **Example.** Let `self_attn.o_proj` and `ffn.fc2` be zero, weights and biases: both branches are silent. Then
# $x = (1, 3)$ has mean 2 and deviation 1, and the layer gives $(-1, 1)$: post-norm normalizes even what it does not
# change.
#
# **Builds on** mha, gelu_ffn, layernorm. **Sources:** Vaswani et al. 2017: Attention is all you need, section 3.1,
# [arXiv:1706.03762](https://arxiv.org/abs/1706.03762); Devlin et al. 2018: BERT,
# [arXiv:1810.04805](https://arxiv.org/abs/1810.04805).
#
# House rules hold: docs/house_rules.md.

# %% [markdown] tags=["contract"]
# <details><summary>Contract: Padding, Masked rows, Dropout, Norms, Half precision, Errors</summary>
#
# - **Padding.** No token attends to padding, however loud it is or low the scores are. Padded tokens themselves are
#   computed like all others.
# - **Masked rows.** In a row of nothing but padding the weighted mean is exact zeros, which `o_proj` turns into its
#   bias. Gradients stay finite.
# - **Dropout.** In training mode alone, each entry on its own: 0 with probability `dropout`, else divided by `1 -
#   dropout`. It acts on the feed-forward branch: after gelu, after `fc2`, or both; elsewhere it is up to you.
# - **Norms.** They start as ones and zeros; `eps` reaches both.
# - **Half precision.** Softmax and norms in float32. Scores and weights may each be rounded.
# - **Errors.** `d_model` no multiple of `num_heads`, at construction or at the call.
#
# </details>

# %% tags=["active-ipynb", "example"]
# # The example, in numbers
# x = (1.0, 3.0)  # both branches silent: what is left is norm(norm(x))
# for step in ("attention", "feed-forward"):
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
class EncoderLayer(nn.Module):
    """norm(x + attn(x)), then norm(x + ffn(x)): post-norm with LayerNorm and GELU, biases everywhere.

    Softmax and norms are computed in float32 at least. Raises ValueError if the heads do not divide d_model.
    Vaswani et al. 2017, arXiv:1706.03762; Devlin et al. 2018, arXiv:1810.04805.
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
        self, x: Float[Tensor, "batch seq d_model"], padding: Bool[Tensor, "batch seq"] | None = None
    ) -> Float[Tensor, "batch seq d_model"]:
        """The layer applied to x. Padding is True where a token is real."""
        raise NotImplementedError


# %% tags=["active-ipynb"]
# import sys
#
# sys.path.append("../..")  # the project
# from dojo import check
#
# check("encoder_layer")
