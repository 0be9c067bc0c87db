# %% [markdown]
# # Causal self-attention with RoPE
#
# $$\mathrm{head}_h = \mathrm{softmax}\!\left(\frac{R(Q_h)\, R(K_g)^\top}{\sqrt{d}} + M\right) V_g, \qquad
# M_{ij} = \begin{cases} 0 & j \le i \\ -\infty & j > i \end{cases}$$
#
# The attention of a language model. Tokens see themselves and what came before. Queries and keys are rotated by their
# positions, so that scores depend on distances; values are not.
#
# **Write**
# `CausalSelfAttention(d_model, num_heads, max_seq_len, theta=10000.0, num_kv_heads=None, *, device=None, dtype=None)`
# with `forward(x, positions=None)`, from `(batch, seq, d_model)` to the same shape. `positions` are integers below
# `max_seq_len`, by default `0 ... seq - 1`.
#
# Parameters, heads and groups are those of **gqa**: `q_proj`, `k_proj`, `v_proj`, `o_proj` without biases. None for
# `num_kv_heads` means `num_heads`. In each head of queries and keys the pair of entries `(2i, 2i + 1)` at position $p$
# is rotated by $p \cdot \theta^{-2i/d}$, as in **rope**, with $d$ = `head_dim`.
#
# No operation is forbidden.
#
# **Example.** `d_model = 2`, one head, all four weights the identity, $x = ((1, 0), (1, 0))$. Token 0 sees only itself
# and gives $(1, 0)$. Token 1 is rotated by 1 radian and scores $\cos 1 / \sqrt 2 = 0.382$ with token 0 and
# $1 / \sqrt 2 = 0.707$ with itself. But all values are $(1, 0)$, so it gives $(1, 0)$ as well.
# For $x = ((1, 0), (0, 1))$ the rotated query of token 1 is $(-\sin 1, \cos 1)$. Its scores are $-0.595$ and $0.707$,
# its weights $0.214$ and $0.786$, and the result is $(0.214, 0.786)$.
#
# **Builds on** rope, causal_mask, gqa. **Sources:** Vaswani et al. 2017: Attention is all you need,
# [arXiv:1706.03762](https://arxiv.org/abs/1706.03762); Su et al. 2021: RoFormer,
# [arXiv:2104.09864](https://arxiv.org/abs/2104.09864), section 3.4; Ainslie et al. 2023: GQA,
# [arXiv:2305.13245](https://arxiv.org/abs/2305.13245).
#
# House rules hold: docs/house_rules.md.

# %% [markdown] tags=["contract"]
# <details><summary>Contract: Causality, Positions, Half precision, Errors</summary>
#
# - **Causality.** Token `i` attends to tokens `0 ... i` of the sequence, whatever their positions and however large or
#   small the scores are.
# - **Positions.** int32 or int64, of shape `(seq,)`, or `(batch, seq)` where each entry has its own. They say only how
#   far to rotate.
# - **Half precision.** Softmax in float32. Queries, keys, scores and weights may each be rounded.
# - **Errors.** `d_model` no multiple of `num_heads`, `num_heads` no multiple of `num_kv_heads`, at construction or at
#   the call.
#
# </details>

# %% tags=["active-ipynb", "example"]
# # The example, in numbers
# import math
#
# query = (-math.sin(1), math.cos(1))  # token 1 is (0, 1), rotated by 1 radian
# keys = ((1.0, 0.0), query)  # token 0 stands at position 0 and is not rotated
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

    Softmax is computed in float32. Raises ValueError for heads that do not divide. Su et al. 2021, arXiv:2104.09864;
    Ainslie et al. 2023, arXiv:2305.13245.
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
