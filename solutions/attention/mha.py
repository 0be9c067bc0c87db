# ---
# jupyter:
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
# Each token compares its query with the keys of all tokens and takes the weighted mean of their values. Several heads
# do so side by side, each with its own block of $d$ = `head_dim` = `d_model / num_heads` entries.
#
# **Write** `MultiHeadAttention(d_model, num_heads, *, device=None, dtype=None)` with
# `forward(x, context=None, mask=None)`, from `(batch, q_len, d_model)` to the same shape. Keys and values come from
# `context`, `(batch, k_len, d_model)`, or without one from `x`. `mask` is boolean, True = may attend, and broadcasts
# against `(batch, num_heads, q_len, k_len)`.
#
# `q_proj`, `k_proj`, `v_proj` and `o_proj` have weights `(d_model, d_model)` and no biases; `nn.Linear` is allowed.
# Head `h` is the `h`-th block of queries, keys, values and of the joined result.
#
# Not allowed: `nn.MultiheadAttention` and fused attention, such as `F.scaled_dot_product_attention`.
#
# **Example.** `d_model = 2`, `num_heads = 2`, all four weights the identity, and two tokens: $x = ((0, 1), (1, 1))$.
# Each head sees one entry of each token. Head 0 sees 0 and 1.
# Its token 0 has query 0, so both scores are 0, and it takes the mean, $0.5$.
# Its token 1 has scores 0 and 1, weights $0.269$ and $0.731$, and takes $0.731$.
# Head 1 sees only ones. The result is `[[0.5, 1], [0.731, 1]]`.

# %% [markdown] tags=["contract"]
# - **Masks.** They have two to four dimensions, and may differ from head to head. A masked key has no influence,
#   however large or small the scores are.
# - **Masked rows.** For a query that may attend to nothing a head gives exact zeros, and all gradients stay finite.
# - **Half precision.** Softmax in float32. Scores and weights may be rounded to the dtype of the inputs, as Llama does.
# - **Errors.** `d_model` no multiple of `num_heads`, at construction or at the call.

# %% [markdown] tags=["hint"]
# Project first, split into heads afterwards. One projection of width `d_model` serves all heads.

# %% [markdown] tags=["hint"]
# `(batch, seq, d_model)` becomes `(batch, seq, heads, head_dim)`, then `(batch, heads, seq, head_dim)`: every head is a
# batch of ordinary attention. To merge undo **both** steps, in the opposite order.

# %% [markdown] tags=["hint"]
# For rows without a key: fill masked scores with the lowest finite number instead of `-inf`, take the softmax, and then
# set masked weights to 0. In half precision: `F.softmax(scores, dim=-1, dtype=torch.float32).to(q.dtype)`.

# %% [markdown] tags=["idea"]
# A token often looks for several others at once: a verb for its subject and its object. One attention gives it one set
# of weights, and what it finds in two places comes back as one mean. Several heads have a set each. A head works on a
# part of the vectors: of 512 entries each of 8 heads has 64, compares those alone, and brings back 64 entries of the
# values. The results are put side by side, and the last projection mixes them. The products take no more FLOPs than
# those of one head of full width: eight times 64 is 512. There are more scores, though, a table for every head.
#
# What goes wrong is bookkeeping. A head owns some entries of every token, a vertical stripe on the left of the figure.
# Memory holds the numbers token by token. Read straight into heads, they give a head whole tokens, as in the middle.
# Taken by strides, they give it entries of all stripes, as on the right. The shapes fit, and no error is raised.

# %% tags=["active-ipynb", "figure"]
# """Three tables of 4 tokens with 8 entries each, marked by which of 4 heads owns the entry. Left: vertical stripes of
# two entries. Middle, a mistake: each head has a whole token. Right, a mistake: heads take turns along the entries."""
# import matplotlib.pyplot as plt
# import numpy as np
#
# token, entry = np.indices((4, 8))
# owners = {"blocks of the width": entry // 2, "mistake: whole tokens": token, "mistake: taking turns": entry % 4}
# figure, axes = plt.subplots(1, 3, figsize=(7.6, 2.6), sharey=True)
# for axis, (title, owner) in zip(axes, owners.items(), strict=True):
#     for head, marker in enumerate("so^X"):
#         axis.scatter(entry[owner == head], token[owner == head], s=60, marker=marker, label=f"head {head}")
#     axis.set(title=title, xlabel="entry", xticks=range(8), yticks=range(4), xlim=(-0.6, 7.6), ylim=(3.6, -0.6))
# axes[0].set_ylabel("token")
# figure.legend(*axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=4)

# %%
import math

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

# %% [markdown] tags=["step"]
# **What a head sees.** Head `h`, from 0, owns the `h`-th block of entries of every token. Give its part of `x`.

# %% tags=["active-ipynb", "step"]
# def part(x: Float[Tensor, "seq d_model"], num_heads: int, h: int) -> Float[Tensor, "seq head_dim"]:
#     """The entries of every token that head h owns."""
#     ### BEGIN SOLUTION
#     return x.chunk(num_heads, dim=-1)[h]
#     ### END SOLUTION

# %% [markdown] tags=["step-cases"]
# part([[1, 2, 3, 4, 5, 6], [7, 8, 9, 0, 1, 2]], 3, 1) = [[3, 4], [9, 0]]
# part([[1, 2, 3, 4, 5, 6], [7, 8, 9, 0, 1, 2]], 3, 1) ≠ [[5, 6], [7, 8]]: a reshape cuts the sequence; split the width
# part([[1, 2, 3, 4, 5, 6], [7, 8, 9, 0, 1, 2]], 3, 1) ≠ [[2, 5], [8, 1]]: every third entry; a head owns neighbors
# part([[1, 2, 3, 4, 5, 6], [7, 8, 9, 0, 1, 2]], 3, 1) ≠ [[4, 5, 6], [0, 1, 2]]: a head is d_model / num_heads wide
# part([[1, 2, 3, 4, 5, 6], [7, 8, 9, 0, 1, 2]], 3, 1) ≠ [[7, 8], [9, 0], [1, 2]]: token h: its axis is still in front

# %% [markdown] tags=["step"]
# **Side by side.** Put the results of all heads next to each other, so that each token has one row again.

# %% tags=["active-ipynb", "step"]
# def joined(results: Float[Tensor, "heads seq head_dim"]) -> Float[Tensor, "seq d_model"]:
#     """For each token what head 0 found, then head 1, and so on."""
#     ### BEGIN SOLUTION
#     return torch.cat(list(results), dim=-1)
#     ### END SOLUTION

# %% [markdown] tags=["step-cases"]
# joined([[[1, 2], [3, 4]], [[5, 6], [7, 8]]]) = [[1, 2, 5, 6], [3, 4, 7, 8]]
# joined([[[1, 2], [3, 4]], [[5, 6], [7, 8]]]) ≠ [[1, 2, 3, 4], [5, 6, 7, 8]]: a reshape mixes tokens: swap axes first
# joined([[[1, 2], [3, 4]], [[5, 6], [7, 8]]]) ≠ [[1, 5, 2, 6], [3, 7, 4, 8]]: by turns: a head's entries stay together
# joined([[[1, 2], [3, 4]], [[5, 6], [7, 8]]]) ≠ [[6, 8], [10, 12]]: added; they stand side by side

# %% [markdown] tags=["step"]
# **The scale.** By which factor are the scores of a head multiplied?

# %% tags=["active-ipynb", "step"]
# def scale(d_model: int, num_heads: int) -> float:
#     """The factor of a head's scores."""
#     ### BEGIN SOLUTION
#     return (num_heads / d_model) ** 0.5
#     ### END SOLUTION

# %% [markdown] tags=["step-cases"]
# scale(72, 8) = 0.33333
# scale(72, 8) ≠ 0.117851: the root of d_model; a score is a sum over one head's entries
# scale(72, 8) ≠ 0.11111: the width of a head, without the root

# %% [markdown] tags=["experiment"]
# The query wants two things: its first half fits key 0, its second half key 1. Two heads bring both. What does one head
# bring, and why? Then try 4. Last, make `sharp` 1: how sure is a head? Further reading: Vaswani et al. 2017, section
# 3.2.2, arXiv:1706.03762; Michel et al. 2019, section 3, arXiv:1905.10650.

# %% tags=["active-ipynb", "experiment"]
# num_heads, sharp = 2, 9.0
# module = MultiHeadAttention(4, num_heads)
# for weight in module.parameters():
#     weight.data = torch.eye(4)
# wanted, found = torch.tensor([[[sharp, 0, sharp, 0]]]), torch.tensor([[[1.0, 0, 0, 1], [0, 1, 1, 0]]])
# print(module(wanted, found))


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
    """Softmax attention. A query that may attend to nothing gets zeros."""
    acc = torch.promote_types(q.dtype, torch.float32)
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
    if mask is not None:
        scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    weights = F.softmax(scores, dim=-1, dtype=acc).to(q.dtype)
    if mask is not None:
        weights = weights.masked_fill(~mask, 0.0)
    return weights @ v


### END SOLUTION


# %%
class MultiHeadAttention(nn.Module):
    """Attention of x to itself or to a context, in parallel heads.

    Softmax is computed in float32 at least. Raises ValueError if the heads do not divide d_model. Vaswani et al. 2017,
    arXiv:1706.03762, section 3.2.2.
    """

    def __init__(self, d_model: int, num_heads: int, *, device=None, dtype=None):
        ### BEGIN SOLUTION
        if d_model % num_heads != 0:
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
# **Split the width, then swap two axes.** After the transpose the heads are one more batch dimension, and one `matmul`
# serves them all. Heads one by one in a loop give the same numbers with `num_heads` times the kernel launches.
# Splitting is a view; merging copies, since the output projection wants contiguous rows.
#
# **The scale** is the root of `head_dim`, the deviation of one head's scores at the start, and not that of `d_model`.
#
# **What it costs.** $8 n d_{\mathrm{model}}^2 + 4 n^2 d_{\mathrm{model}}$ FLOPs for $n$ tokens. In Llama 2 7B, width
# 4,096 and 32 heads, that is 0.55 + 0.27 TFLOPs at 4,096 tokens: 0.83 ms at an H100's 989 TFLOPS. The weights take 134
# MB in bfloat16; scores written to HBM take $2 H n^2$ bytes, 1.07 GB, which is why kernels are fused. The KV cache
# takes $4\, d_{\mathrm{model}}$ bytes a token, 16 kB in each of 32 layers.
#
# ## The other formulation
#
# `torch.einsum("bqhd,bkhd->bhqk", q, k)` needs no transpose. Many code bases keep one `(3 * d_model, d_model)` weight
# for self-attention: one large product that reads the input once.
#
# ## The usual mistakes
#
# - `heads.reshape(batch, q_len, d_model)` without swapping the axes back: the shape is right, and tokens are mixed.
# - Splitting straight into `(batch, heads, seq, head_dim)`, which cuts the sequence instead of the width.
# - The scale $\sqrt{d_{\mathrm{model}}}$, or none. The result looks plausible, only too flat or too sharp.
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
# ### How many GB does the KV cache take in bfloat16, `layers` layers of width `d` after `tokens` tokens?
#
# - A key and a value of width $d$ for each token and layer, two bytes a number. Queries are used once and not cached.
# - Llama 2 7B, 32 layers of 4,096: 0.5 MB a token, 2.1 GB at 4,096 tokens, beside 13.5 GB of weights.
# - For cross-attention it is filled once, since the context does not change.
#
# Answer: `4 * layers * d * tokens / 1e9` GB, within 5 %. Settings: `layers` 32, 40; `d` 4096, 5120; `tokens` 4096,
# 16384.
#
# Source: Kwon et al. 2023, section 2, arXiv:2309.06180.
#
# ### How many ms does the layer take at least at 989 TFLOPS, for `n` tokens of width `d` and no causal mask?
#
# - Four projections: $8 n d^2$ FLOPs. Scores and weighted means: $4 n^2 d$. They are equal at $n = 2d$.
# - The number of heads does not enter. It enters the memory if not fused: $H n^2$ scores.
# - Real kernels reach half to three quarters of the peak.
#
# Answer: `(8 * n * d**2 + 4 * n**2 * d) / 989e12 * 1e3` ms, within 10 %. Settings: `n` 2048, 8192, 32768; `d` 4096,
# 8192.
#
# Source: Vaswani et al. 2017, section 4, arXiv:1706.03762.
#
# ### How is the layer split over several GPUs?
#
# - By heads: each GPU has the rows of its heads in the query, key and value weights, and runs their attention alone.
# - `o_proj` is split by columns, so each GPU has a partial sum, and one all-reduce adds them up. The backward has one
#   too, for the gradient of the input.
# - The KV cache is split along. The number of heads has to divide by the number of GPUs.
#
# Source: Shoeybi et al. 2019, section 3, arXiv:1909.08053.
#
# ### What do you watch for when weights go to or from `nn.MultiheadAttention`?
#
# - `in_proj_weight` is the three weights one above the other, queries first. Its biases exist by default.
# - Boolean masks are inverted: True is blocked in `attn_mask`, and padding in `key_padding_mask`.
# - `batch_first=False` is the default. It returns the weights too, averaged over heads, and is faster without them.
# - Where it returns the weights, a row that is all masked gives nan; without them, zeros.
#
# Source: PyTorch documentation of `nn.MultiheadAttention`,
# https://docs.pytorch.org/docs/stable/generated/torch.nn.MultiheadAttention.html.
