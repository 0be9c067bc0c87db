# ---
# jupyter:
#   dojo:
#     title: Pre-norm and post-norm blocks
#     level: 3
#     minutes: 25
#     builds_on: [mha, swiglu, rmsnorm]
#     sources:
#       - "Xiong et al. 2020: On layer normalization in the transformer architecture, arXiv:2002.04745"
#       - "Zhang, Sennrich 2019: Root mean square layer normalization, arXiv:1910.07467"
# ---

# %% [markdown]
# # Pre-norm and post-norm blocks
#
# $$\text{pre:}\quad h = x + \mathrm{attn}(\mathrm{norm}_a(x)), \qquad y = h + \mathrm{ffn}(\mathrm{norm}_f(h))$$
#
# $$\text{post:}\quad h = \mathrm{norm}_a(x + \mathrm{attn}(x)), \qquad y = \mathrm{norm}_f(h + \mathrm{ffn}(h))$$
#
# The two differ only in where the norm stands: on the branch, which leaves the residual stream alone, or on the sum.
#
# **Write** `PreNormBlock(d_model, num_heads, d_ff, *, device=None, dtype=None)`, and `PostNormBlock` with the same
# arguments. Both have `forward(x, mask=None)`, from `(batch, seq, d_model)` to the same shape.
#
# The attention is that of **mha**, the feed-forward layer that of **swiglu**, the norms are those of **rmsnorm**, with
# $\varepsilon = 10^{-5}$. There are no biases:
#
# ```
# attn.{q_proj, k_proj, v_proj, o_proj}.weight   (d_model, d_model)
# ffn.{w1, w3}.weight, ffn.w2.weight             (d_ff, d_model), (d_model, d_ff)
# attn_norm.weight, ffn_norm.weight              (d_model,)
# ```
#
# The stub holds only the blocks: write their parts too, or import your own. No operation is forbidden.
#
# **Example.** Set `attn.o_proj.weight` and `ffn.w2.weight` to zero: both branches are silent. Take $x = (3, 4)$. The
# pre-norm block returns $(3, 4)$. The post-norm block normalizes: $\sqrt{(9 + 16)/2} = 3.536$, and it returns
# $(0.849, 1.131)$.

# %% [markdown] tags=["contract"]
# - **Mask.** Boolean, True = may attend. It broadcasts against `(batch, num_heads, seq, seq)` and has two to four
#   dimensions. A masked key has no influence, however large or low the scores are.
# - **Norms.** Their weights start as ones.
# - **Half precision.** Norms and softmax in float32: $300^2$ is beyond float16. Scores, weights and the gated product
#   may each be rounded.
# - **Errors.** `d_model` no multiple of `num_heads`, at construction or at the call.

# %% tags=["active-ipynb", "example"]
# # The example, in numbers
# import math
#
# x = (3.0, 4.0)  # both branches silent
# root = math.sqrt(sum(v * v for v in x) / len(x))
# print("pre-norm adds nothing:", x)
# print("post-norm still normalizes:", [round(v / root, 3) for v in x])

# %% [markdown] tags=["hint"]
# Get one block right by reading the formula aloud. What is normalized? What is added to what?

# %% [markdown] tags=["hint"]
# Each block is two lines. In the second line `x` is the result of the first, on both sides of the plus sign.

# %% [markdown] tags=["hint"]
# Pre-norm: `x = x + self.attn(...)`, with the norm inside the brackets of the branch.
# Post-norm: `x = self.attn_norm(...)`, with the whole sum inside the brackets of the norm.
# Pass the mask to the attention by name: it may not be its second argument.

# %% [markdown] tags=["idea"]
# Blocks share one vector for each token, the residual stream. A block writes to it twice: attention adds what it found
# in other tokens, the feed-forward layer what it made of that. A branch wants inputs of one size, whatever has been
# added before, so there is a norm. Where it stands decides what becomes of the stream.
#
# Pre-norm lets the branch read a normalized copy. The stream itself is only added to: what was written early is still
# there at the end, and gradients come back through plain additions. But it grows, so a model ends in one more norm.
#
# Post-norm normalizes the sum. The stream keeps its size, and what was there before shrinks. If a branch adds as much
# as there is, it shrinks by $\sqrt 2$: 24 blocks, 48 branches, leave $6 \cdot 10^{-8}$ of the input, where pre-norm
# leaves one seventh. That is one reason why deep post-norm stacks are hard to train.

# %% tags=["active-ipynb", "figure"]
# """Left: the norm stands on the branch in pre-norm, on the stream after the plus in post-norm. Right, on a logarithmic
# axis: over 48 branches the input's share of the stream falls from 1 to 0.14 in pre-norm, to 6e-8 in post-norm."""
# import matplotlib.pyplot as plt
# import numpy as np
#
# left, right = plt.figure(figsize=(7.6, 3.4)).subplots(1, 2, width_ratios=(6, 5))
# for at, name, norm in ((0, "pre-norm\n▲", (0.5, 0.8)), (1.2, "post-norm\n▲", (0, 2.5))):
#     lines = [("C0-", [0, 0], [0, 3.1]), ("C1--", [0, 0.5, 0.5, 0], [0.3, 0.3, 1.9, 1.9])]
#     for sign, x, y in (*lines, ("C1s", 0.5, 1.4), ("C0P", 0, 1.9), ("C2D", *norm)):
#         left.plot(np.add(at, x), y, sign, markersize=12)
#     left.text(at, 3, name, ha="center")
# left.legend(("stream", "branch", "its layer", "plus", "norm"), loc="center left", bbox_to_anchor=(1, 0.5))
# left.axis("off")
# n = np.arange(49)
# right.semilogy(n, (1 + n) ** -0.5, "C0-", n, 0.5 ** (n / 2), "C1--")
# right.set(xlabel="branches, two a block", ylabel="the input's share of the stream")
# right.legend(("pre-norm", "post-norm"))

# %%
import math

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

# %% [markdown] tags=["step"]
# **One branch, both ways.** Its layer is `weight @ ...`. Norms have neither weight nor epsilon.

# %% tags=["active-ipynb", "step"]
# def stream(x: Float[Tensor, "d"], weight: Float[Tensor, "d d"], pre: bool) -> Float[Tensor, "d"]:
#     """The stream after one branch, pre-norm or else post-norm."""
#     ### BEGIN SOLUTION
#     return x + weight @ F.rms_norm(x, x.shape) if pre else F.rms_norm(x + weight @ x, x.shape)
#     ### END SOLUTION

# %% [markdown] tags=["step-cases"]
# stream([1.0, 7.0], [[0.0, 5.0], [10.0, 0.0]], True) = [8, 9]
# stream([1.0, 7.0], [[0.0, 5.0], [10.0, 0.0]], True) ≠ [1.2788, 0.60388]: that is post-norm
# stream([1.0, 7.0], [[0.0, 5.0], [10.0, 0.0]], True) ≠ [7.2, 3.4]: the branch is added to the norm; it is added to x
# stream([1.0, 7.0], [[0.0, 5.0], [10.0, 0.0]], True) ≠ [7, 2]: the branch alone; it is added to x
# stream([1.0, 7.0], [[0.0, 5.0], [10.0, 0.0]], True) ≠ [2.3598, 7.38851]: the norm stands after the layer, not before
#     it
# stream([1.0, 7.0], [[0.0, 5.0], [10.0, 0.0]], False) = [1.2788, 0.60388]
# stream([1.0, 7.0], [[0.0, 5.0], [10.0, 0.0]], False) ≠ [8, 9]: that is pre-norm
# stream([1.0, 7.0], [[0.0, 5.0], [10.0, 0.0]], False) ≠ [2.3598, 7.38851]: the branch is normalized; normalize the sum
# stream([1.0, 7.0], [[0.0, 5.0], [10.0, 0.0]], False) ≠ [1.35980, 0.38851]: the residual is missing in the sum
# stream([1.0, 7.0], [[0.0, 5.0], [10.0, 0.0]], False) ≠ [1, -1]: LayerNorm, which subtracts the mean; RMSNorm does not

# %% [markdown] tags=["step"]
# **Two branches in a row.** Without norms: attention gives `a` times what it reads, the feed-forward layer `f` times.

# %% tags=["active-ipynb", "step"]
# def chained(x: float, a: float, f: float) -> float:
#     """The stream after both branches."""
#     ### BEGIN SOLUTION
#     return x + a * x + f * (x + a * x)
#     ### END SOLUTION

# %% [markdown] tags=["step-cases"]
# chained(1.0, 2.0, 5.0) = 18
# chained(1.0, 2.0, 5.0) ≠ 8: both read x, as in GPT-J; here the second reads the stream after the first
# chained(1.0, 2.0, 5.0) ≠ 13: the second reads only what attention gave; it reads the stream
# chained(1.0, 2.0, 5.0) ≠ 15: no residual around the feed-forward layer
# chained(1.0, 2.0, 5.0) ≠ 16: the second result is added to x; it is added to the stream

# %% [markdown] tags=["experiment"]
# The lines give size and cosine with the input. Try `scale` 0.01 and 100: what do pre-norm branches do to a stream far
# smaller or larger than themselves, and why does post-norm hardly care? Then change `depth`. Further reading: Xiong et
# al. 2020, arXiv:2002.04745, section 3.

# %% tags=["active-ipynb", "experiment"]
# scale, depth = 1.0, 24
# x = scale * torch.randn(1, 16, 64)
# for kind in (PreNormBlock, PostNormBlock):
#     y = nn.Sequential(*[kind(64, 4, 128) for _ in range(depth)])(x)
#     print(kind.__name__, y.square().mean().sqrt().item(), F.cosine_similarity(x, y, dim=-1).mean().item())


# %%
### BEGIN SOLUTION
class RMSNorm(nn.Module):
    def __init__(self, d_model: int, eps: float = 1e-5, *, device=None, dtype=None):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(d_model, device=device, dtype=dtype))

    def forward(self, x: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch d_model"]:
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        mean_square = wide.square().mean(dim=-1, keepdim=True)
        return (wide * torch.rsqrt(mean_square + self.eps) * self.weight).to(x.dtype)


def split_heads(x: Float[Tensor, "*batch seq d_model"], num_heads: int) -> Float[Tensor, "*batch heads seq head_dim"]:
    return x.unflatten(-1, (num_heads, -1)).transpose(-3, -2)


class MultiHeadAttention(nn.Module):
    def __init__(self, d_model: int, num_heads: int, *, device=None, dtype=None):
        if d_model % num_heads != 0:
            raise ValueError(f"d_model {d_model} is not a multiple of num_heads {num_heads}")
        super().__init__()
        self.num_heads = num_heads
        self.q_proj = nn.Linear(d_model, d_model, bias=False, device=device, dtype=dtype)
        self.k_proj = nn.Linear(d_model, d_model, bias=False, device=device, dtype=dtype)
        self.v_proj = nn.Linear(d_model, d_model, bias=False, device=device, dtype=dtype)
        self.o_proj = nn.Linear(d_model, d_model, bias=False, device=device, dtype=dtype)

    def forward(
        self, x: Float[Tensor, "*batch seq d_model"], mask: Bool[Tensor, "*#batch #seq #seq"] | None = None
    ) -> Float[Tensor, "*batch seq d_model"]:
        q = split_heads(self.q_proj(x), self.num_heads)
        k = split_heads(self.k_proj(x), self.num_heads)
        v = split_heads(self.v_proj(x), self.num_heads)
        acc = torch.promote_types(q.dtype, torch.float32)
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
        if mask is not None:
            scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
        weights = F.softmax(scores, dim=-1, dtype=acc).to(q.dtype)
        heads = weights @ v
        merged = heads.transpose(-3, -2).flatten(-2)
        return self.o_proj(merged)


class SwiGLU(nn.Module):
    def __init__(self, d_model: int, d_ff: int, *, device=None, dtype=None):
        super().__init__()
        self.w1 = nn.Linear(d_model, d_ff, bias=False, device=device, dtype=dtype)
        self.w2 = nn.Linear(d_ff, d_model, bias=False, device=device, dtype=dtype)
        self.w3 = nn.Linear(d_model, d_ff, bias=False, device=device, dtype=dtype)

    def forward(self, x: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch d_model"]:
        return self.w2(F.silu(self.w1(x)) * self.w3(x))


### END SOLUTION


# %%
class PreNormBlock(nn.Module):
    """x + attn(norm(x)), then x + ffn(norm(x)). Norms and attention are computed in float32 at least.

    Raises ValueError if the heads do not divide d_model. Xiong et al. 2020, arXiv:2002.04745, table 1.
    """

    def __init__(self, d_model: int, num_heads: int, d_ff: int, *, device=None, dtype=None):
        ### BEGIN SOLUTION
        super().__init__()
        self.attn_norm = RMSNorm(d_model, device=device, dtype=dtype)
        self.attn = MultiHeadAttention(d_model, num_heads, device=device, dtype=dtype)
        self.ffn_norm = RMSNorm(d_model, device=device, dtype=dtype)
        self.ffn = SwiGLU(d_model, d_ff, device=device, dtype=dtype)
        ### END SOLUTION

    def forward(
        self, x: Float[Tensor, "*batch seq d_model"], mask: Bool[Tensor, "*#batch #seq #seq"] | None = None
    ) -> Float[Tensor, "*batch seq d_model"]:
        """The block applied to x. The mask is True where attention is allowed."""
        ### BEGIN SOLUTION
        x = x + self.attn(self.attn_norm(x), mask=mask)
        x = x + self.ffn(self.ffn_norm(x))
        return x
        ### END SOLUTION


# %%
class PostNormBlock(nn.Module):
    """norm(x + attn(x)), then norm(x + ffn(x)). Same parts, dtypes and errors as the pre-norm block."""

    def __init__(self, d_model: int, num_heads: int, d_ff: int, *, device=None, dtype=None):
        ### BEGIN SOLUTION
        super().__init__()
        self.attn = MultiHeadAttention(d_model, num_heads, device=device, dtype=dtype)
        self.attn_norm = RMSNorm(d_model, device=device, dtype=dtype)
        self.ffn = SwiGLU(d_model, d_ff, device=device, dtype=dtype)
        self.ffn_norm = RMSNorm(d_model, device=device, dtype=dtype)
        ### END SOLUTION

    def forward(
        self, x: Float[Tensor, "*batch seq d_model"], mask: Bool[Tensor, "*#batch #seq #seq"] | None = None
    ) -> Float[Tensor, "*batch seq d_model"]:
        """The block applied to x. The mask is True where attention is allowed."""
        ### BEGIN SOLUTION
        x = self.attn_norm(x + self.attn(x, mask=mask))
        x = self.ffn_norm(x + self.ffn(x))
        return x
        ### END SOLUTION


# %% [markdown] tags=["solution"]
# ## Why it is done this way
#
# The two classes hold the same parts. All that differs is two lines of `forward`.
#
# **Pre-norm.** The input runs to the output through plain additions, and so does the gradient, at any depth. Training
# is stable without warm-up. But the residual stream grows from layer to layer, so a stack needs one more norm at its
# end.
#
# **Post-norm.** Every layer rescales the stream too. At initialization the gradients near the output are large:
# training needs a careful warm-up, and deep stacks may diverge. The transformer of 2017 and BERT are post-norm; GPT-2,
# Llama and nearly all since are pre-norm.
#
# **What it costs.** $4 d^2 + 3\, d\, d_{\mathrm{ff}}$ weights: 202 million in Llama 2 7B, 405 MB in bfloat16. 4,096
# tokens take 1.66 TFLOPs in the matrices and 0.27 in the attention, 1.95 ms on an H100: compute-bound. A norm or an
# addition does about one FLOP a byte: the stream has 34 MB, so a norm moves 67 MB in 20 µs and an addition 101 MB in
# 30 µs, unless a compiler fuses the two. To decode a token the weights are read once, 0.12 ms: memory-bound.
#
# The attention is written out, as in **mha**. `F.scaled_dot_product_attention(q, k, v, attn_mask=mask)` does the same
# without storing the scores, and is what one would merge.
#
# ## The other formulation
#
# A parallel block, `x + attn(norm(x)) + ffn(norm(x))` (GPT-J, PaLM), has one norm and one addition. It is not equal
# to the sequential block, but close in quality, and the first projections of both branches can be one GEMM.
#
# ## The usual mistakes
#
# - `x = norm(x)` and then `x + attn(x)`: the residual is now the normalized input. It is neither of the two blocks.
# - One norm used twice. The parameters share a name and the second is missing.
# - `x + ffn(norm(x))` where `x` is still the input of the block: that is the parallel block.
# - `x += ...`, which overwrites the caller's tensor.
# - The mask passed by position, where the attention expects a context.

# %% tags=["active-ipynb", "solution"]
# # 24 blocks at initialization: the size of the residual stream, and of the gradient that reaches it
# import matplotlib.pyplot as plt
#
# figure, (forward, backward) = plt.subplots(1, 2, figsize=(11, 3.8), layout="constrained")
# for name, kind in (("pre-norm", PreNormBlock), ("post-norm", PostNormBlock)):
#     torch.manual_seed(0)
#     states = [torch.randn(2, 16, 32, requires_grad=True)]
#     for block in [kind(32, 4, 64) for _ in range(24)]:
#         for weight in block.parameters():
#             if weight.dim() == 2:
#                 nn.init.xavier_normal_(weight)
#         states.append(block(states[-1]))
#     gradients = torch.autograd.grad(states[-1], states, torch.randn(2, 16, 32))
#     forward.plot([state.detach().square().mean().sqrt() for state in states], label=name)
#     backward.plot([gradient.norm() for gradient in gradients], label=name)
# forward.set(title="root mean square of the residual stream", xlabel="block", ylim=0)
# backward.set(title="norm of the gradient, backward", xlabel="block", yscale="log")
# forward.legend()
# plt.show()

# %% [markdown] tags=["solution", "questions"]
# ## What interviewers ask next
#
# ### Why is there a residual at all?
#
# - Each branch only has to learn a correction, and a branch of zeros is the identity.
# - The gradient has a path of slope 1 to every layer.
# - Any layer can read what any earlier one wrote, as long as nobody overwrites it.
#
# Source: He et al. 2016, arXiv:1603.05027.
#
# ### Pre-norm or post-norm: which would you choose?
#
# - Pre-norm for nearly everything: it trains without a long warm-up and at any depth.
# - Post-norm can end at a slightly better loss, but needs warm-up and care. Deep stacks want scaled residuals as well.
# - Never across a checkpoint: the weights fit both blocks and make sense in one.
# - Norms on input and output of each branch, as in Gemma 2, bound both.
#
# Source: Xiong et al. 2020, arXiv:2002.04745; Gemma Team 2024, section 2, arXiv:2408.00118.
#
# ### Branches give independent vectors of root mean square 1: how large is the stream after `blocks` pre-norm blocks?
#
# - Variances add: the input and two branches a block, so $\sqrt{1 + 2L}$.
# - Later branches change it less and less, so depth is used less well.
# - GPT-2 scales the output projections at the start by one over the root of the number of branches.
# - The stack needs a norm at its end, or the head sees that size.
#
# Answer: `sqrt(1 + 2 * blocks)`, within 5 %. Settings: `blocks` 24, 32, 80.
#
# Source: Radford et al. 2019, Language models are unsupervised multitask learners, section 2.3,
# https://cdn.openai.com/better-language-models/language_models_are_unsupervised_multitask_learners.pdf.
#
# ### The stream is kept in bfloat16: how far apart are its numbers near `size`?
#
# - bfloat16 has 8 significant bits, so between $2^k$ and $2^{k+1}$ it moves in steps of $2^{k-7}$.
# - Small contributions of late blocks are rounded away. So some keep the sum in float32, which doubles its traffic.
# - float16 has steps an eighth as large, but ends at 65,504, and the norm's square at 256.
#
# Answer: `2**(ceil(log2(size)) - 8)`, within 5 %. Settings: `size` 20, 100, 300.
#
# Source: Kalamkar et al. 2019, arXiv:1905.12322.
