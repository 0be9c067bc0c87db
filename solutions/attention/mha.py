# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
#   dojo:
#     title: Multi-head attention
#     level: 2
#     minutes: 20
#     builds_on: [softmax, linear, sdpa]
#     sources:
#       - "Vaswani et al. 2017: Attention is all you need, section 3.2.2, arXiv:1706.03762"
# ---

# %% [markdown]
# # Multi-head attention
#
# $$\mathrm{head}_h = \mathrm{softmax}\!\left(\frac{Q_h K_h^\top}{\sqrt{d}}\right) V_h, \qquad
# \mathrm{out} = [\mathrm{head}_0, \dots, \mathrm{head}_{H-1}]\, W_O^\top$$
#
# Each token asks a question, its query. It compares the query with the keys of all tokens,
# and takes a weighted mean of their values.
# Several heads do this side by side, each on its own slice of `head_dim = d_model / num_heads` entries.
#
# **Write** `MultiHeadAttention(d_model, num_heads, *, device=None, dtype=None)` with
# `forward(x, context=None, mask=None)`.
#
# - **Queries** come from `x`, of shape `(batch, q_len, d_model)`.
# - **Keys and values** come from `context`, of shape `(batch, k_len, d_model)`. Without a context they come from `x`.
# - **The result** has shape `(batch, q_len, d_model)`.
# - **Parameters**, and no others: `q_proj.weight`, `k_proj.weight`, `v_proj.weight`, `o_proj.weight`, each
#   `(d_model, d_model)`, stored `(out_features, in_features)`. No biases. `nn.Linear(bias=False)` is allowed.
#   The initialisation is yours.
# - **Heads.** Head `h` owns the rows `h * head_dim ... (h + 1) * head_dim - 1` of the query, key and value weights.
#   Its output stands in the same places when the heads are joined.
# - **Scale.** $d$ in the formula is `head_dim`.
# - **`mask`** is boolean, True = may attend. It broadcasts against `(batch, num_heads, q_len, k_len)`.
#   It has two to four dimensions: `(q_len, k_len)` and `(batch, 1, 1, k_len)` are common.
#   However large or low the scores are, a key behind the mask has no influence.
# - **A query that may attend to nothing** gets exact zeros, and all gradients stay finite.
# - **Dtype.** The result has the dtype of the parameters. With float16 or bfloat16 softmax is computed in float32.
#   Scores and weights may each be rounded to the dtype of the inputs beside it, as Llama does, but scores of float16
#   inputs near 300 must not overflow. float64 in, float64 out; float32 accuracy is enough.
# - **Errors.** If `d_model` is not a multiple of `num_heads`: a `ValueError` that holds both, when the module is built
#   or called.
# - **Inputs are not modified**, and may be non-contiguous or expanded. No loops over heads or batch.
# - **Not graded**: masks of one dimension or of another dtype than bool, inputs of another dtype than the parameters,
#   and `num_heads` below 1.
#
# Not allowed: `nn.MultiheadAttention`, and fused attention such as `F.scaled_dot_product_attention`.
# `torch.softmax` is allowed.
#
# **Example.** `d_model = 2`, `num_heads = 2`, all four weights the identity, and two tokens: $x = ((0, 1), (1, 1))$.
# Each head sees one entry of each token. Head 0 sees 0 and 1.
# Its token 0 has query 0, so both scores are 0, and it takes the mean, $0.5$.
# Its token 1 has scores 0 and 1, weights $0.269$ and $0.731$, and takes $0.731$.
# Head 1 sees only ones. The result is `[[0.5, 1], [0.731, 1]]`.

# %% tags=["active-ipynb", "example"]
# # The example, in numbers
# import math
#
# tokens = ((0, 1), (1, 1))  # the projections change nothing: each head sees one entry of each token
# for head in range(2):
#     seen = [token[head] for token in tokens]
#     for query in seen:
#         exponentials = [math.exp(query * key) for key in seen]
#         weights = [e / sum(exponentials) for e in exponentials]
#         print(f"head {head}, query {query}: {sum(w * v for w, v in zip(weights, seen)):.3f}")

# %% [markdown] tags=["hint"]
# Project first, split into heads afterwards. One projection of width `d_model` serves all heads.

# %% [markdown] tags=["hint"]
# `(batch, seq, d_model)` becomes `(batch, seq, heads, head_dim)`, then `(batch, heads, seq, head_dim)`.
# Now every head is a batch of ordinary attention. On the way back undo **both** steps, in the opposite order.

# %% [markdown] tags=["hint"]
# For dead queries: fill blocked scores with the lowest finite number instead of `-inf`, take the softmax, and then set
# blocked weights to 0. A live row does not notice. A dead row becomes zeros, and no nan ever appears.
# Upcast queries and keys before their product, not after.

# %%
import math

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn


# %%
### BEGIN SOLUTION
def split_heads(x: Float[Tensor, "*batch seq d_model"], num_heads: int) -> Float[Tensor, "*batch heads seq head_dim"]:
    return x.unflatten(-1, (num_heads, -1)).transpose(-3, -2)


def attend(
    q: Float[Tensor, "*batch q_len dim"],
    k: Float[Tensor, "*batch k_len dim"],
    v: Float[Tensor, "*batch k_len dim"],
    mask: Bool[Tensor, "*batch q_len k_len"] | None,
) -> Float[Tensor, "*batch q_len dim"]:
    """Softmax attention, in float32 at least. A query that may attend to nothing gets zeros."""
    acc = torch.promote_types(q.dtype, torch.float32)
    scores = q.to(acc) @ k.to(acc).transpose(-2, -1)
    scores = scores / math.sqrt(q.shape[-1])
    if mask is not None:
        scores = scores.masked_fill(~mask, torch.finfo(acc).min)
    weights = torch.softmax(scores, dim=-1)
    if mask is not None:
        weights = weights.masked_fill(~mask, 0.0)
    return (weights @ v.to(acc)).to(q.dtype)


### END SOLUTION


# %%
class MultiHeadAttention(nn.Module):
    """Attention of x to itself or to a context, in parallel heads.

    Scores, softmax and weighted mean are computed in float32 at least. Raises ValueError if the heads do not divide
    d_model. Vaswani et al. 2017, arXiv:1706.03762, section 3.2.2.
    """

    def __init__(self, d_model: int, num_heads: int, *, device=None, dtype=None):
        ### BEGIN SOLUTION
        if num_heads < 1 or d_model % num_heads != 0:
            raise ValueError(f"d_model {d_model} is not a multiple of num_heads {num_heads}")
        super().__init__()
        self.num_heads = num_heads
        self.q_proj = nn.Linear(d_model, d_model, bias=False, device=device, dtype=dtype)
        self.k_proj = nn.Linear(d_model, d_model, bias=False, device=device, dtype=dtype)
        self.v_proj = nn.Linear(d_model, d_model, bias=False, device=device, dtype=dtype)
        self.o_proj = nn.Linear(d_model, d_model, bias=False, device=device, dtype=dtype)
        ### END SOLUTION

    def forward(
        self,
        x: Float[Tensor, "*batch q_len d_model"],
        context: Float[Tensor, "*batch k_len d_model"] | None = None,
        mask: Bool[Tensor, "*#batch #q_len #k_len"] | None = None,
    ) -> Float[Tensor, "*batch q_len d_model"]:
        """Queries from x; keys and values from the context, or from x. The mask is True where attention is allowed."""
        ### BEGIN SOLUTION
        source = x if context is None else context
        q = split_heads(self.q_proj(x), self.num_heads)
        k = split_heads(self.k_proj(source), self.num_heads)
        v = split_heads(self.v_proj(source), self.num_heads)
        heads = attend(q, k, v, mask)
        merged = heads.transpose(-3, -2).flatten(-2)  # (batch, q_len, d_model)
        return self.o_proj(merged)
        ### END SOLUTION


# %% [markdown] tags=["solution"]
# ## Why it is done this way
#
# **Split the width, then swap two axes.** After `transpose` the heads are one more batch dimension, and one `matmul`
# serves them all. `unflatten(-1, (num_heads, -1))` gives head `h` a contiguous block of columns,
# the rows of the weight that the contract names.
#
# **Why divide by the root of `head_dim`.** If the entries of $q$ and $k$ are independent with variance 1,
# then $q \cdot k$ has variance `head_dim`. Unscaled, the softmax is nearly one-hot at the start and passes no gradient.
#
# **Dead queries.** With `-inf` a row that may attend to nothing is 0/0 in the softmax: nan, forward and backward.
# The lowest finite number keeps all of it finite. Then the blocked weights are set to 0. In a live row
# they were 0 already; in a dead row they were uniform, and now the output is 0.
# Gradients of blocked scores are cut in the same places.
#
# **Half precision.** $300 \cdot 300 = 90{,}000$ is already beyond 65,504, the largest float16.
# So $q$ and $k$ are upcast before their product. Fused kernels do the same in their accumulators.
#
# ## The other formulation
#
# `torch.einsum("bqhd,bkhd->bhqk", q, k)` needs no transpose and says what happens to each axis.
# Many code bases also keep one `(3 * d_model, d_model)` weight for self-attention: one large product instead of three.
# The result is the same.
#
# ## The usual mistakes
#
# - `heads.reshape(batch, q_len, d_model)` without swapping the axes back. The shape is right, and the tokens are mixed.
# - Splitting straight into `(batch, heads, seq, head_dim)`, which cuts the sequence instead of the width.
# - The scale $\sqrt{d_{\mathrm{model}}}$, or none. The result looks plausible, only too flat or too sharp.
# - Softmax over the queries (`dim=-2`). The columns sum to 1, the rows do not.
# - The mask inverted, or added as 0 and 1 to the scores.
# - `masked_fill(..., -1e9)` in float16, where it becomes `-inf`.
# - With a context: the values taken from `x`, or the mask built for `(q_len, q_len)`.

# %% tags=["active-ipynb", "solution"]
# # Who attends to whom, head by head: where the values are the unit vectors, a head's result is its weights
# import matplotlib.pyplot as plt
#
# torch.manual_seed(0)
# module, x = MultiHeadAttention(32, 4), 4 * torch.randn(1, 10, 32)
# q, k = (split_heads(proj(x), 4) for proj in (module.q_proj, module.k_proj))
# weights = attend(q, k, torch.eye(10).expand(1, 4, 10, 10), torch.ones(10, 10).tril().bool()).detach()
# figure, axes = plt.subplots(1, 4, figsize=(13, 3.4), sharey=True, layout="constrained")
# for head, axis in enumerate(axes):
#     shown = axis.imshow(weights[0, head], vmin=0, vmax=1)
#     axis.set(title=f"head {head}", xlabel="key", ylabel="query" if head == 0 else "")
# figure.colorbar(shown, ax=axes, label="weight")
# plt.show()

# %% [markdown] tags=["solution", "questions"]
# ## What interviewers ask next
#
# - **Why many heads, if the cost is the same?** One head gives one weighted mean for each token. Several heads can look
#   at several places at once.
# - **What is the cost?** $4 n d^2$ multiplications for the projections and $2 n^2 d$ for the attention itself.
#   The second is larger when $n > 2d$.
# - **What does FlashAttention change?** Not the result. It never stores the $n \times n$ scores: it walks over tiles of
#   keys with an online softmax. Memory becomes linear in $n$.
# - **What is cached in decoding?** Keys and values of earlier tokens: $2 n d$ numbers for each layer.
#   See the katas mqa and gqa for fewer.
# - **Is attention aware of order?** No. Permute the tokens and the outputs permute with them. Positions must be added.
