# %% [markdown]
# # Encoder-decoder
#
# $$m = \mathrm{encoder}\big(\sqrt{d}\, E_{\mathrm{src}}[\mathrm{src}] + S\big), \qquad
# \mathrm{logits} = W_{\mathrm{head}}\; \mathrm{decoder}\big(\sqrt{d}\, E_{\mathrm{tgt}}[\mathrm{tgt}] + S,\; m\big)$$
#
# $$S_{p, 2i} = \sin(p / 10000^{2i/d}), \qquad S_{p, 2i+1} = \cos(p / 10000^{2i/d})$$
#
# The transformer as it was invented, for translation.
#
# **Write** `Seq2SeqTransformer(src_vocab, tgt_vocab, d_model, num_layers, num_heads, d_ff, max_len, dropout=0.0, *,
# device=None, dtype=None)`. `forward(src_ids, tgt_ids, src_padding=None)` takes int32 or int64 `(batch, src_len)` and
# `(batch, tgt_len)` and boolean padding of the source, True = a real token, and returns logits
# `(batch, tgt_len, tgt_vocab)`.
#
# ```
# src_embedding.weight (src_vocab, d_model)     encoder_layers.{i}: self_attn, ffn, attn_norm, ffn_norm
# tgt_embedding.weight (tgt_vocab, d_model)     decoder_layers.{i}: self_attn, cross_attn, ffn, and a norm for each
# lm_head.weight (tgt_vocab, d_model)           not tied, no bias
# ```
#
# Layers are those of **encoder_layer** and **decoder_layer** with $\varepsilon = 10^{-12}$; no norm ends a stack. The
# stub holds only the model: write its parts too, or import your own. No operation of PyTorch is forbidden.
#
# **Example.** `d_model = 4`. A token with the embedding $(1, 1, 1, 1)$ at position 0 enters its stack as
# $\sqrt 4 \cdot (1, 1, 1, 1) + (0, 1, 0, 1) = (2, 3, 2, 3)$. If `o_proj` and `fc2` are zero everywhere, every layer
# only normalizes: $(-1, 1, -1, 1)$. With `lm_head.weight` = `[[0, 1, 0, 1]]` its logit is 2.
#
# **Builds on** encoder_layer, decoder_layer, absolute_positions. **Sources:** Vaswani et al. 2017: Attention is all you
# need, [arXiv:1706.03762](https://arxiv.org/abs/1706.03762).
#
# House rules hold: docs/house_rules.md.

# %% [markdown] tags=["contract"]
# <details><summary>Contract: Causal, Padding, Masked rows, Positions, Dropout, Norms, Half precision, Errors</summary>
#
# - **Causal.** No target token sees a later one.
# - **Padding.** Nothing attends to padding of the source, neither in the encoder nor from the decoder.
# - **Masked rows.** Where a row of the source is nothing but padding, the weighted means over it are exact zeros.
#   Gradients stay finite.
# - **Positions.** Exact to float32 at any place up to `max_len`; the table is not in the state dict.
# - **Dropout.** In training mode alone, each entry on its own: 0 with probability `dropout`, else divided by `1 -
#   dropout`. It acts on the feed-forward branches: after gelu, after `fc2`, or both; elsewhere it is up to you.
# - **Norms.** They start as ones and zeros.
# - **Half precision.** Softmax and norms in float32. Scores and weights may each be rounded.
# - **Errors.** `d_model` no multiple of `num_heads`, at construction or at the call; more than `max_len` tokens in a
#   row of the source or of the target.
#
# </details>

# %% tags=["active-ipynb", "example"]
# # The example, in numbers
# import math
#
# d_model, embedding, position = 4, (1, 1, 1, 1), (0, 1, 0, 1)
# x = [math.sqrt(d_model) * e + p for e, p in zip(embedding, position)]
# mean = sum(x) / d_model
# deviation = (sum((v - mean) ** 2 for v in x) / d_model) ** 0.5
# normal = [(v - mean) / deviation for v in x]
# print("enters as", x, "is normalized to", normal, "logit", sum(w * v for w, v in zip((0, 1, 0, 1), normal)))

# %%
import math

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn


# %%
class Seq2SeqTransformer(nn.Module):
    """The encoder-decoder of 2017: sinusoidal positions, post-norm layers, logits for the next target token.

    Softmax and norms are computed in float32 at least. Raises ValueError for heads that do not divide, and for more
    than max_len tokens. Vaswani et al. 2017, arXiv:1706.03762.
    """

    def __init__(
        self,
        src_vocab: int,
        tgt_vocab: int,
        d_model: int,
        num_layers: int,
        num_heads: int,
        d_ff: int,
        max_len: int,
        dropout: float = 0.0,
        *,
        device=None,
        dtype=None,
    ):
        raise NotImplementedError

    def forward(
        self,
        src_ids: Int[Tensor, "batch src_len"],
        tgt_ids: Int[Tensor, "batch tgt_len"],
        src_padding: Bool[Tensor, "batch src_len"] | None = None,
    ) -> Float[Tensor, "batch tgt_len tgt_vocab"]:
        """Logits for the token after each target position. The padding is True where a source token is real."""
        raise NotImplementedError


# %% tags=["active-ipynb"]
# import sys
#
# sys.path.append("../..")  # the project
# from dojo import check
#
# check("seq2seq")
