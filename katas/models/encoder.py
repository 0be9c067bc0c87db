# %% [markdown]
# # Transformer encoder
#
# $$x^{(0)} = \mathrm{norm}\big(E[\mathrm{ids}] + P[0 \dots n-1]\big), \qquad
# x^{(l+1)} = \mathrm{layer}_l\big(x^{(l)}\big)$$
#
# This is BERT without its heads: it turns a sentence into one vector for each token, and each vector has seen the whole
# sentence. Positions are learned, one vector for each place. The layers are those of the kata **encoder_layer**.
#
# **Write** `TransformerEncoder(vocab_size, d_model, num_layers, num_heads, d_ff, max_len, dropout=0.0, *, device=None,
# dtype=None)`. `forward(token_ids, padding=None)` takes integers of shape `(batch, seq)`, int32 or int64, and returns
# hidden states of shape `(batch, seq, d_model)`.
#
# **Parameters**, and no others, stored `(out_features, in_features)`. Here `{i}` counts layers from 0.
#
# | name | shape |
# |---|---|
# | `token_embedding.weight` | `(vocab_size, d_model)` |
# | `position_embedding.weight` | `(max_len, d_model)` |
# | `embedding_norm.weight`, `embedding_norm.bias` | `(d_model,)` |
# | `layers.{i}.self_attn.{q_proj, k_proj, v_proj, o_proj}.weight` | `(d_model, d_model)` |
# | `layers.{i}.self_attn.{q_proj, k_proj, v_proj, o_proj}.bias` | `(d_model,)` |
# | `layers.{i}.attn_norm.{weight, bias}`, `layers.{i}.ffn_norm.{weight, bias}` | `(d_model,)` |
# | `layers.{i}.ffn.fc1.weight`, `layers.{i}.ffn.fc1.bias` | `(d_ff, d_model)`, `(d_ff,)` |
# | `layers.{i}.ffn.fc2.weight`, `layers.{i}.ffn.fc2.bias` | `(d_model, d_ff)`, `(d_model,)` |
#
# - **Norms** are LayerNorms over the last dimension, with $\varepsilon = 10^{-12}$; weights start as ones, biases as
#   zeros.
# - **A layer** is $h = \mathrm{norm}_a(x + \mathrm{attn}(x))$ and then $\mathrm{norm}_f(h + \mathrm{ffn}(h))$:
#   post-norm. Attention has heads as in **mha**, scores divided by $\sqrt{\text{head\_dim}}$, and biases on all four
#   projections. The feed-forward layer is $W_2\,\mathrm{gelu}(W_1 x + b_1) + b_2$ with the exact gelu.
# - **Bidirectional**: every token attends to all real tokens.
# - **`padding`** is boolean, of shape `(batch, seq)`, **True = a real token**. No token attends to padding. Padded
#   tokens have a position and are computed like all others, but they never influence a real token. If a row is nothing
#   but padding, the weighted means in it are exact zeros. All gradients stay finite.
# - **Dropout** acts in training mode only. Each entry is set to 0 with probability `dropout`, and the others are
#   divided by `1 - dropout`. It acts on the branches of the feed-forward layers: after gelu, after `fc2`, or both.
#   Whether it acts elsewhere is up to you; the normalised embeddings and the branches of the attention, before they are
#   added, are usual. In evaluation mode nothing is dropped or scaled.
# - **Dtype.** The result has the dtype of the parameters. float64 in, float64 out; float32 accuracy is enough. In
#   float16 and bfloat16, softmax and norms are computed in float32. Scores and weights may each be rounded once more.
# - **Errors** are `ValueError`s that hold the offending values: `d_model` not a multiple of `num_heads` (at
#   construction or at the call), more than `max_len` tokens in a row.
# - **No loops** but the one over layers.
# - **Not graded:** ids outside the vocabulary, empty batches, padding of another dtype, a `dropout` outside 0 to 1, and
#   how matrices are initialised.
#
# The stub holds only the model. Write its parts yourself, or import your own from other katas. No operation of
# PyTorch is forbidden, and the computation stays in it.
#
# **Example.** Let every `o_proj` and `fc2` be zero, weights and biases, `d_model = 2`, and `num_layers = 1`. Token 0
# has the embedding $(1, 2)$ and position 0 the vector $(0, 3)$. Their sum $(1, 5)$ has mean 3 and deviation 2, so the
# first norm gives $(-1, 1)$, and the silent layer normalises that to the same.
#
# **Builds on** encoder_layer, absolute_positions, embedding. **Sources:** Devlin et al. 2018: BERT,
# [arXiv:1810.04805](https://arxiv.org/abs/1810.04805); Vaswani et al. 2017: Attention is all you need,
# [arXiv:1706.03762](https://arxiv.org/abs/1706.03762).
#
# House rules hold: docs/house_rules.md.

# %% tags=["active-ipynb", "example"]
# # The example, in numbers
# token, position = (1.0, 2.0), (0.0, 3.0)
# x = [t + p for t, p in zip(token, position)]
# mean = sum(x) / 2
# deviation = (sum((v - mean) ** 2 for v in x) / 2) ** 0.5
# print("sum", x, "mean", mean, "deviation", deviation, "normalised", [(v - mean) / deviation for v in x])

# %%
import math

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn


# %%
class TransformerEncoder(nn.Module):
    """BERT without its heads: learned positions, post-norm layers, every token sees every real token.

    Scores, softmax and norms are computed in float32 at least. Raises ValueError for heads that do not divide, and for
    more than max_len tokens. Devlin et al. 2018, arXiv:1810.04805.
    """

    def __init__(
        self,
        vocab_size: int,
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
        self, token_ids: Int[Tensor, "batch seq"], padding: Bool[Tensor, "batch seq"] | None = None
    ) -> Float[Tensor, "batch seq d_model"]:
        """One vector for each token. Padding is True where a token is real."""
        raise NotImplementedError


# %% tags=["active-ipynb"]
# import sys
#
# sys.path.append("../..")  # the project
# from dojo import check
#
# check("encoder")
