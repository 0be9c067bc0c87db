# %% [markdown]
# # Transformer language model
#
# $$x^{(0)} = E[\mathrm{ids}], \qquad
# h = x^{(l)} + \mathrm{attn}_l\big(\mathrm{norm}(x^{(l)})\big), \qquad
# x^{(l+1)} = h + \mathrm{ffn}_l\big(\mathrm{norm}(h)\big)$$
#
# $$\mathrm{logits} = W_{\mathrm{head}}\; \mathrm{norm}\big(x^{(L)}\big)$$
#
# The whole of Llama: embedding, pre-norm blocks, a last norm, and a projection to the vocabulary.
#
# **Write** `TransformerLM(vocab_size, d_model, num_layers, num_heads, d_ff, max_seq_len, num_kv_heads=None,
# theta=10000.0, eps=1e-5, *, device=None, dtype=None)`. `forward(token_ids)` takes int32 or int64 `(batch, seq)` and
# returns logits `(batch, seq, vocab_size)`. There are no biases:
#
# ```
# token_embedding.weight, lm_head.weight        (vocab_size, d_model)
# layers.{i}.attn: q_proj.weight, o_proj.weight (d_model, d_model)
#                  k_proj.weight, v_proj.weight (num_kv_heads * head_dim, d_model)
# layers.{i}.ffn:  w1.weight, w3.weight         (d_ff, d_model)
#                  w2.weight                    (d_model, d_ff)
# layers.{i}.attn_norm.weight, ffn_norm.weight, and final_norm.weight   (d_model,)
# ```
#
# Attention is causal and grouped as in **gqa**, with **rope** on queries and keys; the feed-forward layer is that of
# **swiglu**, the norm that of **rmsnorm**. The stub holds only the model: write its parts too, or import your own. No
# operation of PyTorch is forbidden.
#
# **Example.** Take `d_model = 2`, a vocabulary of 3, and one head. Let every `o_proj` and `w2` be zero, so that the
# layers change nothing. Token 0 has the embedding $(3, 4)$. Its root mean square is $\sqrt{12.5} = 3.536$, so the last
# norm gives $(0.849, 1.131)$. With `lm_head.weight` = `[[1, 0], [0, 1], [1, 1]]` its logits are
# `[0.849, 1.131, 1.980]`.
#
# **Builds on** rope, rmsnorm, gqa, swiglu, causal_attention, block. **Sources:** Touvron et al. 2023: LLaMA,
# [arXiv:2302.13971](https://arxiv.org/abs/2302.13971); Su et al. 2021: RoFormer,
# [arXiv:2104.09864](https://arxiv.org/abs/2104.09864).
#
# House rules hold: docs/house_rules.md.

# %% [markdown] tags=["contract"]
# <details><summary>Contract: Causal, Key heads, Positions, Head, Norms, Half precision, Errors</summary>
#
# - **Causal.** Logits at a position depend on this and earlier tokens alone, however low the scores are.
# - **Key heads.** Query head `h` reads key head `h // (num_heads // num_kv_heads)`; `num_kv_heads` None means
#   `num_heads`.
# - **Positions.** They are `0 ... seq - 1`. Of each head the pair `(2i, 2i + 1)` is rotated, by
#   $p \cdot \theta^{-2i/\text{head\_dim}}$. In half precision positions stay exact: bfloat16 counts to 256, float16 to
#   2,048.
# - **Head.** `lm_head` is not tied to the embedding.
# - **Norms.** Their weights start as ones; `eps` reaches all.
# - **Half precision.** Norms and softmax in float32. Rotated queries and keys, scores, weights and the gated product
#   may each be rounded.
# - **Errors.** Heads that do not divide, at construction or at the call; more than `max_seq_len` tokens in a row.
#
# </details>

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

    Norms, rotation and softmax are computed in float32 at least. Raises ValueError for heads that do not divide, and
    for more than max_seq_len tokens. Touvron et al. 2023, arXiv:2302.13971.
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
