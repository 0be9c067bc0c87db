# ---
# jupyter:
#   dojo:
#     title: Grouped-query attention
#     level: 3
#     minutes: 20
#     builds_on: [mha, mqa]
#     sources:
#       - "Ainslie et al. 2023: GQA, training generalized multi-query transformer models, arXiv:2305.13245"
# ---

# %% [markdown]
# # Grouped-query attention
#
# $$\mathrm{head}_h = \mathrm{softmax}\!\left(\frac{Q_h K_{g(h)}^\top}{\sqrt{d}}\right) V_{g(h)}, \qquad
# g(h) = \left\lfloor \frac{h}{H / G} \right\rfloor$$
#
# There are $H$ query heads and $G$ key/value heads, each of which serves a group of $H / G$ neighboring query heads.
# The KV cache is $H / G$ times smaller than in multi-head attention, $G = H$; multi-query attention has $G = 1$.
#
# **Write** `GroupedQueryAttention(d_model, num_heads, num_kv_heads, *, device=None, dtype=None)` with
# `forward(x, mask=None)`, from `(batch, seq, d_model)` to the same shape. `mask` is boolean, True = may attend, and
# broadcasts against `(batch, num_heads, seq, seq)`.
#
# `q_proj` and `o_proj` have weights `(d_model, d_model)`, `k_proj` and `v_proj` `(num_kv_heads * head_dim, d_model)`
# with $d$ = `head_dim` = `d_model / num_heads`; no biases. Each head is a block of neighboring rows.
#
# No operation is forbidden, but the point is to write attention out.
#
# **Example.** `d_model = 4`, `num_heads = 4`, `num_kv_heads = 2`, so `head_dim = 1` and a group has 2 query heads.
# Let `v_proj` be `[[1, 0, 0, 0], [0, 1, 0, 0]]` and `o_proj` the identity. Take a single token $x = (5, 7, 0, 0)$.
# It attends only to itself, with weight 1, so each head gives its value: 5 for group 0 and 7 for group 1.
# The result is `[5, 5, 7, 7]`. It is not `[5, 7, 5, 7]`.

# %% [markdown] tags=["contract"]
# - **Masks.** They have two to four dimensions, and may differ from query head to query head. A masked key has no
#   influence, however large or small the scores are.
# - **Half precision.** Softmax in float32. Scores and weights may be rounded to the dtype of the inputs, as Llama does.
# - **Errors.** `d_model` no multiple of `num_heads`, `num_heads` no multiple of `num_kv_heads`, at construction or at
#   the call.

# %% [markdown] tags=["hint"]
# Write down, for each query head, which key/value head it reads. What changes fastest as `h` grows: the group, or the
# member of the group?

# %% [markdown] tags=["hint"]
# Split queries into `num_heads` heads, keys and values into `num_kv_heads`. Then repeat each key/value head in place,
# `num_heads // num_kv_heads` times, and go on as in multi-head attention.

# %% [markdown] tags=["hint"]
# `k.repeat_interleave(group, dim=-3)` gives 0, 0, 1, 1; `repeat` and `tile` would give 0, 1, 0, 1.
# In half precision: `F.softmax(scores, dim=-1, dtype=torch.float32).to(q.dtype)`.

# %% [markdown] tags=["idea"]
# To write one token, a model reads the keys and values of all tokens before it. They lie in the KV cache, and in a long
# conversation reading them takes longer than computing with them. If each of its 64 heads had keys of its own, Llama 3
# 70B would keep 2.6 MB a token: 21 GB for 8,192 of them, for each user.
#
# Queries say what is looked for, and there should be many. Keys say what there is to find, and several queries can look
# at the same ones. So query heads form groups, and a group shares one key head and one value head, as in the middle of
# the figure. Llama 3 70B has eight of them, and an eighth of that cache, at nearly the same quality. A single one for
# all saves still more, but costs quality. All of it saves memory and traffic, and hardly any FLOPs: every query head
# has scores of its own. Groups are neighbors: with any other assignment all shapes fit, and trained weights give noise.

# %% tags=["active-ipynb", "figure"]
# """Eight query heads above, key and value heads below, and a line from each query head to the one it reads. Left,
# multi-head: eight below. Middle, grouped: two below, four neighbors each. Right, multi-query: one below for all."""
# import matplotlib.pyplot as plt
#
# figure, axes = plt.subplots(1, 3, figsize=(7.6, 3), sharey=True)
# for axis, size, name in zip(axes, (1, 4, 8), ("multi-head", "grouped", "multi-query"), strict=True):
#     for group, h in enumerate(range(0, 8, size)):
#         style, middle = f"C{group % 2}" + "-:"[group % 2], h + (size - 1) / 2
#         axis.plot([range(h, h + size), [middle] * size], [[1] * size, [0] * size], style, marker="o", markersize=9)
#     axis.set(title=f"{name}\ncache {100 / size:.3g} %", xlabel="query head", xticks=range(8))
#     axis.set(xlim=(-0.5, 7.5), ylim=(-0.3, 1.2))
# axes[0].set_yticks([0, 1], ["key and\nvalue heads", "query heads"])

# %%
import math

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

# %% [markdown] tags=["step"]
# **Whose key head.** Neighboring query heads share one. Which key head does query head `h` read?

# %% tags=["active-ipynb", "step"]
# def key_head(h: int, num_heads: int, num_kv_heads: int) -> int:
#     """The key and value head of query head h; all count from 0."""
#     ### BEGIN SOLUTION
#     return h * num_kv_heads // num_heads
#     ### END SOLUTION

# %% [markdown] tags=["step-cases"]
# key_head(17, 20, 4) = 3
# key_head(17, 20, 4) ≠ 1: `h % num_kv_heads`, the order of tiled key heads; groups are neighbors
# key_head(17, 20, 4) ≠ 4: divided by the number of key heads; a group has num_heads / num_kv_heads members
# key_head(17, 20, 4) ≠ 2: the place within the group; what is asked for is the number of the group

# %% [markdown] tags=["step"]
# **The size of a projection.** What shape has the weight of `k_proj`, as `nn.Linear` stores it?

# %% tags=["active-ipynb", "step"]
# def shape(d_model: int, num_heads: int, num_kv_heads: int) -> tuple[int, int]:
#     """Rows and columns of the weight that makes all keys."""
#     ### BEGIN SOLUTION
#     return num_kv_heads * d_model // num_heads, d_model
#     ### END SOLUTION

# %% [markdown] tags=["step-cases"]
# shape(24, 6, 2) = (8, 24)
# shape(24, 6, 2) ≠ (24, 24): as many keys as queries, as in multi-head attention
# shape(24, 6, 2) ≠ (24, 8): turned round: `nn.Linear` stores (out_features, in_features)
# shape(24, 6, 2) ≠ (12, 24): d_model / num_kv_heads; a key head is as wide as a query head
# shape(24, 6, 2) ≠ (2, 24): one row for each key head, which has d_model / num_heads of them

# %% [markdown] tags=["step"]
# **A key head for each query head.** Every row is a key head. Repeat them so that row `h` is what query head `h` reads.

# %% tags=["active-ipynb", "step"]
# def repeated(keys: Float[Tensor, "kv_heads dim"], group: int) -> Float[Tensor, "heads dim"]:
#     """A row for each query head, where `group` query heads share a row of keys."""
#     ### BEGIN SOLUTION
#     return keys[torch.arange(len(keys) * group) // group]
#     ### END SOLUTION

# %% [markdown] tags=["step-cases"]
# repeated([[1, 2], [3, 4]], 3) = [[1, 2], [1, 2], [1, 2], [3, 4], [3, 4], [3, 4]]
# repeated([[1, 2], [3, 4]], 3) ≠ [[1, 2], [3, 4], [1, 2], [3, 4], [1, 2], [3, 4]]: tiled: neighbors share
# repeated([[1, 2], [3, 4]], 3) ≠ [[1, 1, 1, 2, 2, 2], [3, 3, 3, 4, 4, 4]]: entries, not heads: the wrong axis
# repeated([[1, 2], [3, 4]], 3) ≠ [1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4]: without a `dim` all becomes one row of numbers

# %% [markdown] tags=["experiment"]
# A multi-head model is made a grouped one so: the key and value heads of a group become their mean. How far off is the
# result as `kv_heads` falls? Is one head of each, `[:, 0]` for `.mean(1)`, nearer? Random heads share nothing; trained
# ones are trained on for a while. Further reading: Ainslie et al. 2023, sections 2.1 and 3.3, arXiv:2305.13245.

# %% tags=["active-ipynb", "experiment"]
# full, x = GroupedQueryAttention(64, 8, 8), torch.randn(1, 32, 64)
# for kv_heads in (8, 4, 2, 1):
#     grouped, state = GroupedQueryAttention(64, 8, kv_heads), full.state_dict()
#     for name in ("k_proj.weight", "v_proj.weight"):
#         state[name] = state[name].unflatten(0, (kv_heads, -1, 8)).mean(1).flatten(0, 1)
#     grouped.load_state_dict(state)
#     print(f"{kv_heads} of 8 key heads: {(grouped(x) - full(x)).norm() / full(x).norm():.2f} off")


# %%
### BEGIN SOLUTION
def split_heads(x: Float[Tensor, "*batch seq dim"], num_heads: int) -> Float[Tensor, "*batch heads seq head_dim"]:
    return x.unflatten(-1, (num_heads, -1)).transpose(-3, -2)


### END SOLUTION


# %%
class GroupedQueryAttention(nn.Module):
    """Self-attention in which each key/value head serves a group of neighboring query heads.

    Softmax is computed in float32 at least. Raises ValueError if num_heads does not divide d_model, or num_kv_heads
    does not divide num_heads. Ainslie et al. 2023, arXiv:2305.13245.
    """

    def __init__(self, d_model: int, num_heads: int, num_kv_heads: int, *, device=None, dtype=None):
        ### BEGIN SOLUTION
        if d_model % num_heads != 0:
            raise ValueError(f"d_model {d_model} is not a multiple of num_heads {num_heads}")
        if num_heads % num_kv_heads != 0:
            raise ValueError(f"num_heads {num_heads} is not a multiple of num_kv_heads {num_kv_heads}")
        super().__init__()
        self.num_heads = num_heads
        self.num_kv_heads = num_kv_heads
        kv_dim = num_kv_heads * (d_model // num_heads)
        self.q_proj = nn.Linear(d_model, d_model, bias=False, device=device, dtype=dtype)
        self.k_proj = nn.Linear(d_model, kv_dim, bias=False, device=device, dtype=dtype)
        self.v_proj = nn.Linear(d_model, kv_dim, bias=False, device=device, dtype=dtype)
        self.o_proj = nn.Linear(d_model, d_model, bias=False, device=device, dtype=dtype)
        ### END SOLUTION

    def forward(
        self, x: Float[Tensor, "*batch seq d_model"], mask: Bool[Tensor, "*#batch #seq #seq"] | None = None
    ) -> Float[Tensor, "*batch seq d_model"]:
        """Self-attention of x. The mask is True where attention is allowed."""
        ### BEGIN SOLUTION
        group = self.num_heads // self.num_kv_heads
        q = split_heads(self.q_proj(x), self.num_heads)
        k = split_heads(self.k_proj(x), self.num_kv_heads).repeat_interleave(group, dim=-3)
        v = split_heads(self.v_proj(x), self.num_kv_heads).repeat_interleave(group, dim=-3)

        acc = torch.promote_types(q.dtype, torch.float32)
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
        if mask is not None:
            scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
        weights = F.softmax(scores, dim=-1, dtype=acc).to(q.dtype)
        heads = weights @ v
        merged = heads.transpose(-3, -2).flatten(-2)  # (batch, seq, d_model)
        return self.o_proj(merged)
        ### END SOLUTION


# %% [markdown] tags=["solution"]
# ## Why it is done this way
#
# $h = g \cdot (H/G) + r$: the group changes slowly, the member $r$ fast. `repeat_interleave` repeats each head in
# place, and what follows is multi-head attention. Llama and Hugging Face call it `repeat_kv`.
#
# **What it costs.** Scores and weighted means take $4 n^2 d_{\mathrm{model}}$ FLOPs as before: Llama 3 8B, width 4,096
# with 32 query and 8 key heads, has 0.34 + 0.27 TFLOPs a layer at 4,096 tokens, 0.63 ms at 989 TFLOPS. What shrinks is
# the cache, $4\, G\, \text{head\_dim}$ bytes a token and layer in bfloat16: in the 80 layers of Llama 3 70B 0.33 MB a
# token, where 64 key/value heads would take 2.6 MB. Decoding is memory-bound: it reads all of it for every token. Each
# number read serves $H/G$ queries, so the arithmetic intensity rises from 1 FLOP a byte to $H/G$.
#
# ## The other formulation
#
# The repeat copies keys and values $H/G$ times, and in decoding that copy costs what the groups save. Without it: view
# queries as `(batch, kv_heads, group, seq, head_dim)` and give keys an axis of size 1; only the mask wants plain heads.
# `matmul` may still copy as it broadcasts. To rule that out, fold the group into the query axis,
# `(batch, kv_heads, group * seq, head_dim)`. `F.scaled_dot_product_attention(..., enable_gqa=True)` leaves it to the
# kernel.
#
# ## The usual mistakes
#
# - `repeat` or `tile` instead of `repeat_interleave`: head `h` reads `h % num_kv_heads`. All shapes fit, with one or
#   with all key/value heads even the values are right, and a trained checkpoint gives noise.
# - In the broadcast form, a mask that differs between heads applied to scores of shape
#   `(batch, kv_heads, group, seq, seq)`: it meets the wrong axes, sometimes without an error.
# - `num_kv_heads or num_heads` for a default. It hides a 0.

# %% [markdown] tags=["solution", "questions"]
# ## What interviewers ask next
#
# ### How many kB does the cache take for a token, `layers` layers with `kv_heads` key heads of 128 in bfloat16?
#
# - A key and a value for each key head and layer, two bytes a number. The query heads do not enter.
# - Llama 3 70B: 80 layers and 8 heads, 328 kB a token, 2.7 GB at 8,192 tokens. With 64 heads it would be 21 GB, and few
#   sequences would fit beside the weights.
#
# Answer: `4 * layers * kv_heads * 128 / 1e3` kB, within 5 %. Settings: `layers` 32, 80, 126; `kv_heads` 1, 8, 64.
#
# Source: Grattafiori et al. 2024, section 3.2, arXiv:2407.21783.
#
# ### In decoding, how many µs does a layer read its cache on an H100: batch `batch`, `tokens` each, `kv_heads` of 128?
#
# - $4\, G\, \text{head\_dim}$ bytes a token and sequence, at 3.35 TB/s in bfloat16.
# - Unlike the weights the cache is not shared by the batch: a larger batch does not raise its arithmetic intensity.
#   More query heads to a key head do.
# - At a batch of 32 and 8,192 tokens it is 0.32 ms with 8 heads and 1.3 ms with 32, in each layer and for each token.
#
# Answer: `4 * kv_heads * 128 * batch * tokens / 3.35e12 * 1e6` µs, within 5 %. Settings: `batch` 8, 32; `tokens` 2048,
# 8192; `kv_heads` 1, 8, 32.
#
# Source: Pope et al. 2022, section 3.3, arXiv:2211.05102.
#
# ### Are there fewer FLOPs?
#
# - Only in the key and value projections: $4 n d \cdot G\, \text{head\_dim}$ instead of $4 n d^2$.
# - Scores and weighted means cost the same, $4 n^2 d$. So training and prefill, which are compute-bound, gain little.
# - Throughput and latency of decoding gain, and more sequences fit into memory.
#
# Source: Ainslie et al. 2023, arXiv:2305.13245.
#
# ### Multi-head, grouped or multi-query: which would you choose when, and why are eight key heads so common?
#
# - Multi-head where nothing is decoded step by step: encoders, small models. Grouped for a language model that is
#   served: eight groups come close to multi-head in quality and to multi-query in speed.
# - Split over 8 GPUs each holds one key head and no copies. With more GPUs than key heads the cache is copied, and
#   stops shrinking.
# - The returns diminish: from 64 to 8 heads the cache falls by 88 percent, from 8 to 1 by another 11.
#
# Source: Ainslie et al. 2023, section 2.2, arXiv:2305.13245.
