# %% [markdown]
# # Encoder layer
#
# $$h = \mathrm{norm}_a\big(x + \mathrm{attn}(x)\big), \qquad y = \mathrm{norm}_f\big(h + \mathrm{ffn}(h)\big)$$
#
# The layer of BERT and of the encoder of 2017. Every token may attend to every other. It must not attend to padding,
# the filler that makes all rows of a batch equally long.
#
# **Write** `EncoderLayer(d_model, num_heads, d_ff, dropout=0.0, eps=1e-12, *, device=None, dtype=None)` with
# `forward(x, padding=None)`, from `(batch, seq, d_model)` to the same shape.
#
# The parts, with exactly these parameters, stored `(out_features, in_features)`:
#
# - **`self_attn`**: multi-head self-attention as in the kata **mha**, but **with biases**. `self_attn.q_proj`,
#   `self_attn.k_proj`, `self_attn.v_proj` and `self_attn.o_proj`, each with a `weight` `(d_model, d_model)` and a
#   `bias` `(d_model,)`. Head `h` owns the rows `h * head_dim ... (h + 1) * head_dim - 1`; the scores are divided by
#   $\sqrt{\text{head\_dim}}$.
# - **`ffn`**: $W_2\,\mathrm{gelu}(W_1 x + b_1) + b_2$ with the exact gelu, as in **gelu_ffn**. `ffn.fc1.weight`
#   `(d_ff, d_model)`, `ffn.fc1.bias` `(d_ff,)`, `ffn.fc2.weight` `(d_model, d_ff)`, `ffn.fc2.bias` `(d_model,)`.
# - **`attn_norm`**, **`ffn_norm`**: LayerNorm over the last dimension with $\varepsilon$ = `eps`, each with a
#   `weight` and a `bias` of shape `(d_model,)` that start as ones and zeros.
#
# - **`padding`** is boolean, of shape `(batch, seq)`, **True = a real token**. No token attends to padding. Padded
#   tokens themselves are computed like all others. If a row is nothing but padding, its tokens attend to nothing: the
#   weighted mean is exact zeros, which `o_proj` then turns into its bias. All gradients stay finite.
# - **Dropout** acts in training mode only. Each entry is set to 0 with probability `dropout`, and the others are
#   divided by `1 - dropout`. It acts on the feed-forward branch: after gelu, after `fc2`, or both. Whether it acts
#   elsewhere is up to you; the branch of the attention, before it is added, is usual. In evaluation mode nothing is
#   dropped or scaled.
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
# **Example.** Let `self_attn.o_proj` and `ffn.fc2` be zero, weights and biases: both branches are silent. Then
# $x = (1, 3)$ has mean 2 and deviation 1, and the layer gives $(-1, 1)$: post-norm normalises even what it does not
# change.
#
# **Builds on** mha, gelu_ffn, layernorm. **Sources:** Vaswani et al. 2017: Attention is all you need, section 3.1,
# [arXiv:1706.03762](https://arxiv.org/abs/1706.03762); Devlin et al. 2018: BERT,
# [arXiv:1810.04805](https://arxiv.org/abs/1810.04805).
#
# House rules hold: docs/house_rules.md.

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

    Scores, softmax and norms are computed in float32 at least. Raises ValueError if the heads do not divide d_model.
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
