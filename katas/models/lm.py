# %% [markdown]
# # Transformer language model
#
# $$x^{(0)} = E[\mathrm{ids}], \qquad
# h = x^{(l)} + \mathrm{attn}_l\big(\mathrm{norm}(x^{(l)})\big), \qquad
# x^{(l+1)} = h + \mathrm{ffn}_l\big(\mathrm{norm}(h)\big)$$
#
# $$\mathrm{logits} = W_{\mathrm{head}}\; \mathrm{norm}\big(x^{(L)}\big)$$
#
# This is the whole model, as in Llama: embedding, a stack of pre-norm blocks, a last norm, and a projection to the
# vocabulary. The logits at a position predict the next token, so they may depend on this and earlier tokens only.
#
# **Write** `TransformerLM(vocab_size, d_model, num_layers, num_heads, d_ff, max_seq_len, num_kv_heads=None,
# theta=10000.0, eps=1e-5, *, device=None, dtype=None)`. `forward(token_ids)` takes integers of shape `(batch, seq)`,
# int32 or int64, and returns logits of shape `(batch, seq, vocab_size)`.
#
# **Parameters**, and no others, stored `(out_features, in_features)`, without biases.
# Here `head_dim = d_model / num_heads`, `kv_dim = num_kv_heads * head_dim`, and `{i}` counts layers from 0.
#
# | name | shape |
# |---|---|
# | `token_embedding.weight` | `(vocab_size, d_model)` |
# | `layers.{i}.attn_norm.weight`, `layers.{i}.ffn_norm.weight` | `(d_model,)` |
# | `layers.{i}.attn.q_proj.weight`, `layers.{i}.attn.o_proj.weight` | `(d_model, d_model)` |
# | `layers.{i}.attn.k_proj.weight`, `layers.{i}.attn.v_proj.weight` | `(kv_dim, d_model)` |
# | `layers.{i}.ffn.w1.weight`, `layers.{i}.ffn.w3.weight` | `(d_ff, d_model)` |
# | `layers.{i}.ffn.w2.weight` | `(d_model, d_ff)` |
# | `final_norm.weight` | `(d_model,)` |
# | `lm_head.weight`, not tied to the embedding | `(vocab_size, d_model)` |
#
# - **Norm**: $x / \sqrt{\mathrm{mean}(x^2) + \varepsilon} \odot w$ over the last dimension, with $\varepsilon$ = `eps`;
#   the weights start as ones.
# - **Attention** is causal: position `t` attends to positions `0 ... t`. Scores are divided by
#   $\sqrt{\text{head\_dim}}$.
#   Head `h` owns the rows `h * head_dim ... (h + 1) * head_dim - 1` of a query, key or value weight.
#   Query head `h` reads key/value head `h // (num_heads // num_kv_heads)`.
#   When `num_kv_heads` is None it is `num_heads`.
# - **RoPE** turns queries and keys of each head, not values. At position $p$ the pair of entries `(2i, 2i + 1)` turns
#   by $\varphi = p \cdot \theta^{-2i/\text{head\_dim}}$:
#   $(a, b) \to (a \cos\varphi - b \sin\varphi,\; a \sin\varphi + b \cos\varphi)$.
#   Positions are `0 ... seq - 1`.
# - **Tables** of cosines and sines are made once, at construction. They never show in `state_dict()`. They work on the
#   device that the model was moved to, and lose no precision when the model is cast to bfloat16 or float16.
# - **Feed-forward**: $W_2(\mathrm{silu}(W_1 x) \odot W_3 x)$.
# - **Dtype.** The logits have the dtype of the parameters. float64 in, float64 out; float32 accuracy is enough. With
#   float16 or bfloat16, norms and softmax are computed in float32. Rotated queries and keys, scores, weights and the
#   gated product may each be rounded. Positions stay exact where half precision cannot represent them: from 257 on in
#   bfloat16, from 2,049 on in float16.
# - **Errors** are `ValueError`s that hold the offending values: `d_model` not a multiple of `num_heads`, `num_heads`
#   not a multiple of `num_kv_heads`, an odd `head_dim` (at construction or at the call), and more than `max_seq_len`
#   tokens in a row.
# - **No loops** but the one over layers.
# - **Not graded:** ids outside the vocabulary, empty batches, and how matrices are initialised.
#
# The stub holds only the model. Write its parts yourself, under any class names, or import your own from other katas.
# Everything in PyTorch is allowed, fused attention included. Tables that are made once, at construction, may be
# computed with anything; the computation on inputs stays in PyTorch.
#
# **Example.** Take `d_model = 2`, a vocabulary of 3, and one head.
# Let every `o_proj` and `w2` be zero, so that the layers change nothing.
# Token 0 has the embedding $(3, 4)$. Its root mean square is $\sqrt{12.5} = 3.536$, so the last norm gives
# $(0.849, 1.131)$. With `lm_head.weight` = `[[1, 0], [0, 1], [1, 1]]` its logits are `[0.849, 1.131, 1.980]`.
#
# **Builds on** rope, rmsnorm, gqa, swiglu, causal_attention, block. **Sources:** Touvron et al. 2023: LLaMA,
# [arXiv:2302.13971](https://arxiv.org/abs/2302.13971); Su et al. 2021: RoFormer,
# [arXiv:2104.09864](https://arxiv.org/abs/2104.09864).
#
# House rules hold: docs/house_rules.md.

# %% tags=["active-ipynb", "example"]
# # The example, in numbers
# import math
#
# x = (3.0, 4.0)  # an embedding, and layers that change nothing
# root = math.sqrt(sum(v * v for v in x) / len(x))
# normal = [v / root for v in x]
# head = ((1, 0), (0, 1), (1, 1))
# print("logits", [round(sum(w * v for w, v in zip(row, normal)), 3) for row in head])

# %%
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn


# %%
class TransformerLM(nn.Module):
    """A Llama: pre-norm blocks of causal grouped-query attention with RoPE, and SwiGLU. The head is not tied.

    Norms, rotation and softmax are computed in float32 at least. Raises ValueError for heads that do not divide, an odd
    head dimension, and more than max_seq_len tokens. Touvron et al. 2023, arXiv:2302.13971.
    """

    def __init__(
        self,
        vocab_size: int,
        d_model: int,
        num_layers: int,
        num_heads: int,
        d_ff: int,
        max_seq_len: int,
        num_kv_heads: int | None = None,
        theta: float = 10000.0,
        eps: float = 1e-5,
        *,
        device=None,
        dtype=None,
    ):
        raise NotImplementedError

    def forward(self, token_ids: Int[Tensor, "batch seq"]) -> Float[Tensor, "batch seq vocab"]:
        """Logits for the token after each position, from this and the earlier tokens."""
        raise NotImplementedError


# %% tags=["active-ipynb"]
# import sys
#
# sys.path.append("../..")  # the project
# from dojo import check
#
# check("lm")
