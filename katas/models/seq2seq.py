# %% [markdown]
# # Encoder-decoder
#
# $$m = \mathrm{encoder}\big(\sqrt{d}\, E_{\mathrm{src}}[\mathrm{src}] + S\big), \qquad
# \mathrm{logits} = W_{\mathrm{head}}\; \mathrm{decoder}\big(\sqrt{d}\, E_{\mathrm{tgt}}[\mathrm{tgt}] + S,\; m\big)$$
#
# The transformer as it was invented, for translation. The encoder reads the source in both directions. The decoder
# writes the target from left to right and looks at the source in every layer. $S$ are sinusoidal positions.
#
# **Write** `Seq2SeqTransformer(src_vocab, tgt_vocab, d_model, num_layers, num_heads, d_ff, max_len, dropout=0.0, *,
# device=None, dtype=None)`. `forward(src_ids, tgt_ids, src_padding=None)` takes integers of shape `(batch, src_len)`
# and `(batch, tgt_len)`, int32 or int64, and returns logits of shape `(batch, tgt_len, tgt_vocab)`.
#
# **Parameters**, and no others, stored `(out_features, in_features)`. Here `{i}` counts from 0 to `num_layers - 1`.
#
# | name | shape |
# |---|---|
# | `src_embedding.weight` | `(src_vocab, d_model)` |
# | `tgt_embedding.weight` | `(tgt_vocab, d_model)` |
# | `encoder_layers.{i}.…` | as in the kata **encoder_layer** |
# | `decoder_layers.{i}.…` | as in the kata **decoder_layer** |
# | `lm_head.weight`, not tied, no bias | `(tgt_vocab, d_model)` |
#
# - **Encoder layers** have the parts `self_attn`, `ffn`, `attn_norm`, `ffn_norm`; **decoder layers** `self_attn`,
#   `cross_attn`, `ffn`, `self_attn_norm`, `cross_attn_norm`, `ffn_norm`. An attention has `q_proj`, `k_proj`,
#   `v_proj` and `o_proj`, `(d_model, d_model)` with biases; a feed-forward layer `fc1` `(d_ff, d_model)` and `fc2`
#   `(d_model, d_ff)` with biases and the exact gelu between them; a norm is a LayerNorm with $\varepsilon =
#   10^{-12}$, `weight` and `bias`, ones and zeros at the start. All layers are post-norm:
#   $\mathrm{norm}(x + \mathrm{branch}(x))$. There is no further norm at the end of a stack.
# - **Attention** is as in **mha**: head `h` owns the rows `h * head_dim ...`, scores are divided by
#   $\sqrt{\text{head\_dim}}$. The decoder's self-attention is causal; cross-attention sees the whole memory.
# - **Positions**: $S_{p, 2i} = \sin(p / 10000^{2i/d})$ and $S_{p, 2i+1} = \cos(p / 10000^{2i/d})$, added to the
#   embeddings, which are **multiplied by $\sqrt{d}$** before. The table is no parameter, never shows in
#   `state_dict()`, works on the device that the model was moved to, and loses no precision when the model is cast.
# - **`src_padding`** is boolean, of shape `(batch, src_len)`, **True = a real token**. Nothing attends to padding of
#   the source, neither in the encoder nor from the decoder. If a row of the source is nothing but padding, the weighted
#   means over it are exact zeros. All gradients stay finite.
# - **Dropout** acts in training mode only. Each entry is set to 0 with probability `dropout`, and the others are
#   divided by `1 - dropout`. It acts on the branches of the feed-forward layers: after gelu, after `fc2`, or both.
#   Whether it acts elsewhere is up to you; the sums of embeddings and positions, and the branches of the attentions
#   before they are added, are usual. In evaluation mode nothing is dropped or scaled.
# - **Dtype.** The logits have the dtype of the parameters. float64 in, float64 out; float32 accuracy is enough. In
#   float16 and bfloat16, softmax and norms are computed in float32. Scores and weights may each be rounded once more.
# - **Errors** are `ValueError`s that hold the offending values: `d_model` not a multiple of `num_heads` or an odd
#   `d_model` (at construction or at the call), more than `max_len` tokens in a row of the source or of the target.
# - **No loops** but those over layers.
# - **Not graded:** ids outside the vocabularies, empty batches, padding of another dtype, a `dropout` outside 0 to 1,
#   and how matrices are initialised.
#
# The stub holds only the model. Write its parts yourself, or import your own from other katas. No operation of PyTorch
# is forbidden. Tables that are made once, at construction, may be computed with anything; the computation on inputs
# stays in PyTorch.
#
# **Example.** `d_model = 4`. A token with the embedding $(1, 1, 1, 1)$ at position 0 enters its stack as
# $\sqrt 4 \cdot (1, 1, 1, 1) + (0, 1, 0, 1) = (2, 3, 2, 3)$. If `o_proj` and `fc2` are zero everywhere, every layer
# only normalises: $(-1, 1, -1, 1)$. With `lm_head.weight` = `[[0, 1, 0, 1]]` its logit is 2.
#
# **Builds on** encoder_layer, decoder_layer, absolute_positions. **Sources:** Vaswani et al. 2017: Attention is all you
# need, [arXiv:1706.03762](https://arxiv.org/abs/1706.03762).
#
# House rules hold: docs/house_rules.md.

# %% tags=["active-ipynb", "example"]
# # The example, in numbers
# import math
#
# d_model, embedding, position = 4, (1, 1, 1, 1), (0, 1, 0, 1)
# x = [math.sqrt(d_model) * e + p for e, p in zip(embedding, position)]
# mean = sum(x) / d_model
# deviation = (sum((v - mean) ** 2 for v in x) / d_model) ** 0.5
# normal = [(v - mean) / deviation for v in x]
# print("enters as", x, "is normalised to", normal, "logit", sum(w * v for w, v in zip((0, 1, 0, 1), normal)))

# %%
import math

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn


# %%
class Seq2SeqTransformer(nn.Module):
    """The encoder-decoder of 2017: sinusoidal positions, post-norm layers, logits for the next target token.

    Scores, softmax and norms are computed in float32 at least. Raises ValueError for heads that do not divide, an odd
    d_model, and more than max_len tokens. Vaswani et al. 2017, arXiv:1706.03762.
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
