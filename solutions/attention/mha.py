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
#   Initialise them as you like.
# - **Heads.** Head `h` owns the rows `h * head_dim ... (h + 1) * head_dim - 1` of the query, key and value weights.
#   Its output stands in the same places when the heads are joined.
# - **Scale.** $d$ in the formula is `head_dim`.
# - **`mask`** is boolean, True = may attend. It broadcasts against `(batch, num_heads, q_len, k_len)`. It has two to
#   four dimensions: `(q_len, k_len)` and `(batch, 1, 1, k_len)` are common. A masked key has no influence, however
#   large or small the scores are.
# - **A query that may attend to nothing** gets exact zeros, and all gradients stay finite.
# - **Dtype.** The result has the dtype of the parameters. With float16 or bfloat16 softmax is computed in float32. The
#   scores before it and the weights after it may be rounded to the dtype of the inputs, as Llama does. float64 in,
#   float64 out; float32 accuracy is enough.
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
# With half precision, softmax is computed in float32.

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
# **Half precision.** Softmax needs float32: its sum over many weights would be rounded again and again. The products
# may stay in half precision, as Llama's do. Here $q$ and $k$ are upcast before theirs, as in the accumulators of fused
# kernels: $300 \cdot 300 = 90{,}000$ is beyond 65,504, the largest float16.
#
# **What it costs.** $O(n d^2 + n^2 d)$ time for $n$ tokens. The scores take $4 H n^2$ bytes in float32 for $H$ heads,
# 2.1 GB for 32 heads and 4,096 tokens, and the weights as many. The parameters take $16\, d^2$ bytes in float32.
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
# ### Why several heads, if the cost is the same?
#
# - One head gives one weighted mean for each token. Several look at several places at once.
# - Each head has its own $\text{head\_dim} = d/H$ entries, so the work stays that of one wide head.
# - In trained models many heads can be cut with little loss, but not all of them, and not early in training.
#
# Source: Vaswani et al. 2017, section 3.2.2, arXiv:1706.03762; Michel, Levy, Neubig 2019, arXiv:1905.10650.
#
# ### Is attention aware of order?
#
# - No. Permute the tokens, and the outputs permute with them.
# - That is a test as well: without a mask it must hold to rounding.
# - Positions come in through the input, a rotation of queries and keys, a bias, or the causal mask.
#
# Source: Vaswani et al. 2017, section 3.5, arXiv:1706.03762.
#
# ### What does it cost, and when does the quadratic part win?
#
# - Projections: $8 n d^2$ operations. Scores and weighted means: $4 n^2 d$. They are equal at $n = 2d$.
# - Counted with a feed-forward layer of $16 n d^2$ they are equal at $n = 6d$.
# - The number of heads does not enter. It enters the memory: $H n^2$ scores, 2.1 GB in float32 for 32 heads and 4,096
#   tokens.
#
# Source: Vaswani et al. 2017, section 4, arXiv:1706.03762.
#
# ### How would you choose the number of heads?
#
# - Mostly by width: 64 or 128 entries a head, which suits the matrix units.
# - The scores of a head have rank at most `head_dim`. Very narrow heads cannot tell many keys apart.
# - More heads mean more score memory if not fused, and more numbers in the cache only if `head_dim` stays.
# - The number should divide by the devices that share the layer.
#
# Source: Bhojanapalli et al. 2020, arXiv:2002.07028.
#
# ### What is cached in decoding, and how much is it?
#
# - Keys and values of all earlier tokens, after the projection: $2 d$ numbers for each token and layer.
# - Llama 2 7B: 32 layers of width 4,096 in bfloat16 make 0.5 MB for a token and 2.1 GB for 4,096 tokens.
# - Queries are not cached: each is used once.
# - For cross-attention the cache is filled once, since the context does not change.
#
# Source: Kwon et al. 2023, section 2, arXiv:2309.06180.
#
# ### What does FlashAttention change?
#
# - Not the result. It walks over tiles of keys with an online softmax and never stores the $n \times n$ scores.
# - Memory becomes linear in $n$. The arithmetic stays quadratic and even grows a little in the backward pass.
# - The gain is in bytes moved between the large memory and the fast one.
# - It changes the order of the sums, so results differ in the last digits.
#
# Source: Dao et al. 2022, section 3.1, arXiv:2205.14135.
#
# ### What would a profiler show around the attention itself?
#
# - Three projections are three products. One matrix of `(3 * d_model, d_model)` is one larger product that reads the
#   input once.
# - Splitting heads is a view. The transpose costs nothing until someone needs contiguous memory: look for copy kernels.
# - Merging heads is where that copy usually is, right before the output projection.
# - At short lengths many small kernels leave gaps. There launches are the limit, and a captured graph helps.
#
# Source: PyTorch documentation of `torch.profiler`, https://docs.pytorch.org/docs/stable/profiler.html.
#
# ### Could the query and key matrices be merged into one?
#
# - On paper yes: the scores depend on $W_Q^\top W_K$ alone, as the output depends on $W_O W_V$.
# - The merged matrix is $d \times d$ for each head but of rank `head_dim`: more weights, more work, and a key of width
#   $d$ to cache.
# - A rotation between the two forbids it.
# - It explains why queries and keys may be rotated together without any effect, which is how checkpoints are permuted.
#
# Source: Elhage et al. 2021, A mathematical framework for transformer circuits,
# https://transformer-circuits.pub/2021/framework/index.html.
