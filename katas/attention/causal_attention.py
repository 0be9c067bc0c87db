# %% [markdown]
# # Causal self-attention with RoPE
#
# $$\mathrm{head}_h = \mathrm{softmax}\!\left(\frac{R(Q_h)\, R(K_g)^\top}{\sqrt{d}} + M\right) V_g, \qquad
# M_{ij} = \begin{cases} 0 & j \le i \\ -\infty & j > i \end{cases}$$
#
# This is the attention of a language model. Tokens see themselves and what came before them, never what comes after.
# Queries and keys are rotated by their positions, so that scores depend on distances. Values are not rotated.
#
# **Write**
# `CausalSelfAttention(d_model, num_heads, max_seq_len, theta=10000.0, num_kv_heads=None, *, device=None, dtype=None)`
# with `forward(x, positions=None)`, from `(batch, seq, d_model)` to the same shape.
#
# - **Parameters**, and no others, without biases: `q_proj.weight` and `o_proj.weight`, each `(d_model, d_model)`;
#   `k_proj.weight` and `v_proj.weight`, each `(num_kv_heads * head_dim, d_model)`.
#   Here `head_dim = d_model / num_heads`, and `num_kv_heads` is `num_heads` when it is None.
# - **Heads** as in **gqa**: head `h` owns the rows `h * head_dim ... (h + 1) * head_dim - 1` of a projection,
#   and query head `h` reads key/value head `h // (num_heads // num_kv_heads)`. Scores are divided by
#   $\sqrt{\text{head\_dim}}$.
# - **RoPE** as in **rope**, on each head of the queries and keys: at position $p$ the pair of entries `(2i, 2i + 1)`
#   turns by $\varphi = p \cdot \theta^{-2i/\text{head\_dim}}$:
#   $(a, b) \to (a \cos\varphi - b \sin\varphi,\; a \sin\varphi + b \cos\varphi)$.
# - **`positions`** are integers, int32 or int64, of shape `(seq,)` or `(batch, seq)`. By default they are
#   `0 ... seq - 1`. They only say how far to rotate. **Who attends to whom** depends on the order in the sequence
#   alone: token `i` attends to tokens `0 ... i`, whatever their positions.
# - **Tables** of cosines and sines are made once, at construction, with anything, NumPy included; the computation on
#   inputs stays in PyTorch. They never show in `state_dict()`. They work on the device that the module was moved to,
#   and lose no precision when it is cast to bfloat16 or float16.
# - **Dtype.** The result has the dtype of the parameters. With float16 or bfloat16 softmax and rotation are computed in
#   float32, at far positions too. Queries, keys, scores and weights may each be rounded to the dtype of the inputs, as
#   Llama does. float64 in, float64 out; float32 accuracy is enough.
# - **Errors** are `ValueError`s that hold the offending values. When the module is built or called: `d_model` not a
#   multiple of `num_heads`, `num_heads` not a multiple of `num_kv_heads`, an odd `head_dim`. At the call: a position
#   outside `[0, max_seq_len)`. The default positions of a sequence that is too long are outside too.
# - **Inputs are not modified**, and may be non-contiguous or expanded. No loops over heads, batch or positions.
# - **Not graded**: inputs of another dtype than the parameters, and heads below 1.
#
# No operation is forbidden.
#
# **Example.** `d_model = 2`, one head, all four weights the identity, $x = ((1, 0), (1, 0))$. Token 0 sees only itself
# and gives $(1, 0)$. Token 1 is turned by 1 radian and scores $\cos 1 / \sqrt 2 = 0.382$ with token 0 and
# $1 / \sqrt 2 = 0.707$ with itself. But all values are $(1, 0)$, so it gives $(1, 0)$ as well.
# For $x = ((1, 0), (0, 1))$ the query of token 1, turned, is $(-\sin 1, \cos 1)$. Its scores are $-0.595$ and $0.707$,
# its weights $0.214$ and $0.786$, and the result is $(0.214, 0.786)$.
#
# **Builds on** rope, causal_mask, gqa. **Sources:** Vaswani et al. 2017: Attention is all you need,
# [arXiv:1706.03762](https://arxiv.org/abs/1706.03762); Su et al. 2021: RoFormer,
# [arXiv:2104.09864](https://arxiv.org/abs/2104.09864), section 3.4; Ainslie et al. 2023: GQA,
# [arXiv:2305.13245](https://arxiv.org/abs/2305.13245).
#
# House rules hold: docs/house_rules.md.

# %% tags=["active-ipynb", "example"]
# # The example, in numbers
# import math
#
# query = (-math.sin(1), math.cos(1))  # token 1 is (0, 1), turned by 1 radian
# keys = ((1.0, 0.0), query)  # token 0 stands at position 0 and is not turned
# scores = [sum(q * k for q, k in zip(query, key)) / math.sqrt(2) for key in keys]
# exponentials = [math.exp(score) for score in scores]
# print("scores", [round(s, 3) for s in scores], "weights", [round(e / sum(exponentials), 3) for e in exponentials])

# %%
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn


# %%
class CausalSelfAttention(nn.Module):
    """Each token attends to itself and to what came before; queries and keys are rotated by position.

    Rotation and softmax are computed in float32 at least. Raises ValueError for heads that do not divide, an odd head
    dimension, and a position outside [0, max_seq_len). Su et al. 2021, arXiv:2104.09864; Ainslie et al. 2023,
    arXiv:2305.13245.
    """

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        max_seq_len: int,
        theta: float = 10000.0,
        num_kv_heads: int | None = None,
        *,
        device=None,
        dtype=None,
    ):
        raise NotImplementedError

    def forward(
        self, x: Float[Tensor, "batch seq d_model"], positions: Int[Tensor, "*#batch seq"] | None = None
    ) -> Float[Tensor, "batch seq d_model"]:
        """Attention of x to itself. One row of positions serves the whole batch, or each entry has its own."""
        raise NotImplementedError


# %% tags=["active-ipynb"]
# import sys
#
# sys.path.append("../..")  # the project
# from dojo import check
#
# check("causal_attention")
