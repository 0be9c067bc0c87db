# %% [markdown]
# # Transformer encoder
#
# $$x^{(0)} = \mathrm{norm}\big(E[\mathrm{ids}] + P[0 \dots n-1]\big), \qquad
# x^{(l+1)} = \mathrm{layer}_l\big(x^{(l)}\big)$$
#
# BERT without its heads: a vector for each token that has seen the whole sentence. Positions are learned.
#
# **Write** `TransformerEncoder(vocab_size, d_model, num_layers, num_heads, d_ff, max_len, dropout=0.0, *, device=None,
# dtype=None)`. `forward(token_ids, padding=None)` takes int32 or int64 `(batch, seq)` and boolean padding of the same
# shape, True = a real token, and returns hidden states `(batch, seq, d_model)`.
#
# ```
# token_embedding.weight (vocab_size, d_model)     position_embedding.weight (max_len, d_model)
# embedding_norm.{weight, bias} (d_model,)         layers.{i}: self_attn, ffn, attn_norm, ffn_norm
# ```
#
# A layer is that of **encoder_layer**; all norms are LayerNorms with $\varepsilon = 10^{-12}$. The stub holds only the
# model: write its parts too, or import your own. No operation of PyTorch is forbidden.
#
# **Example.** Let every `o_proj` and `fc2` be zero, weights and biases, `d_model = 2`, and `num_layers = 1`. Token 0
# has the embedding $(1, 2)$ and position 0 the vector $(0, 3)$. Their sum $(1, 5)$ has mean 3 and deviation 2, so the
# first norm gives $(-1, 1)$, and the silent layer normalizes that to the same.
#
# **Builds on** encoder_layer, absolute_positions, embedding. **Sources:** Devlin et al. 2018: BERT,
# [arXiv:1810.04805](https://arxiv.org/abs/1810.04805); Vaswani et al. 2017: Attention is all you need,
# [arXiv:1706.03762](https://arxiv.org/abs/1706.03762).
#
# House rules hold: docs/house_rules.md.

# %% [markdown] tags=["contract"]
# <details><summary>Contract: Padding, Masked rows, Dropout, Norms, Half precision, Errors</summary>
#
# - **Padding.** No token attends to padding in any layer, however low the scores are. Padded tokens have a position and
#   are computed like all others.
# - **Masked rows.** In a row of nothing but padding the weighted means are exact zeros. Gradients stay finite.
# - **Dropout.** In training mode alone, each entry on its own: 0 with probability `dropout`, else divided by `1 -
#   dropout`. It acts on the feed-forward branches: after gelu, after `fc2`, or both; elsewhere it is up to you.
# - **Norms.** They start as ones and zeros.
# - **Half precision.** Softmax and norms in float32. Scores and weights may each be rounded.
# - **Errors.** `d_model` no multiple of `num_heads`, at construction or at the call; more than `max_len` tokens in a
#   row.
#
# </details>

# %% tags=["active-ipynb", "example"]
# # The example, in numbers
# token, position = (1.0, 2.0), (0.0, 3.0)
# x = [t + p for t, p in zip(token, position)]
# mean = sum(x) / 2
# deviation = (sum((v - mean) ** 2 for v in x) / 2) ** 0.5
# print("sum", x, "mean", mean, "deviation", deviation, "normalized", [(v - mean) / deviation for v in x])

# %%
import math

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn


# %%
class TransformerEncoder(nn.Module):
    """BERT without its heads: learned positions, post-norm layers, every token sees every real token.

    Softmax and norms are computed in float32 at least. Raises ValueError for heads that do not divide, and for
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
