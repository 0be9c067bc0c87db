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
# A block is attention, which moves information between tokens, and a feed-forward layer, which works on each token.
# Each is added to its own input. The two blocks differ only in where the normalisation stands:
# on the branch (pre), or on the sum (post).
#
# **Write** `PreNormBlock(d_model, num_heads, d_ff, *, device=None, dtype=None)` and `PostNormBlock` with the same
# arguments. Both have `forward(x, mask=None)`, from `(batch, seq, d_model)` to the same shape.
#
# The parts, with exactly these parameters, stored `(out_features, in_features)`, without biases:
#
# - **`attn`**: multi-head self-attention as in the kata **mha**. `attn.q_proj.weight`, `attn.k_proj.weight`,
#   `attn.v_proj.weight`, `attn.o_proj.weight`, each `(d_model, d_model)`. Head `h` owns the rows
#   `h * head_dim ... (h + 1) * head_dim - 1`; the scores are divided by $\sqrt{\text{head\_dim}}$.
# - **`ffn`**: $W_2(\mathrm{silu}(W_1 x) \odot W_3 x)$ as in **swiglu**. `ffn.w1.weight` and `ffn.w3.weight`, each
#   `(d_ff, d_model)`; `ffn.w2.weight`, `(d_model, d_ff)`.
# - **`attn_norm`**, **`ffn_norm`**: $x / \sqrt{\mathrm{mean}(x^2) + \varepsilon} \odot w$ over the last dimension,
#   with $\varepsilon = 10^{-5}$, as in **rmsnorm**. `attn_norm.weight` and `ffn_norm.weight`, each `(d_model,)`, ones.
#
# The stub holds only the two blocks. Write the parts yourself, under any class names, or import your own, for example
# `from mha import MultiHeadAttention`. Only the names of the parameters count.
#
# - **`mask`** is boolean, True = may attend. It is `(seq, seq)`, or has four dimensions and broadcasts against
#   `(batch, num_heads, seq, seq)`. In the robust tier it may also be `(num_heads, seq, seq)`, and there may be queries
#   that attend to nothing: such a query gets exact zeros from the attention, and all gradients stay finite.
# - **Dtype.** The result has the dtype of the parameters. float64 in, float64 out; float32 accuracy is enough. With
#   float16 or bfloat16, norms ($300^2$ is beyond float16) and softmax are computed in float32. Scores, weights, silu
#   and the gated product may each be rounded once more.
# - **Errors.** If `d_model` is not a multiple of `num_heads`: a `ValueError` that holds both, at construction or at
#   the call.
# - **Inputs are not modified**: `x += ...` would change the caller's tensor. They may be non-contiguous or expanded.
#   No loops over heads or batch.
#
# - **Not graded:** masks of one dimension or of another dtype, empty batches, and how matrices are initialised.
#
# No operation of PyTorch is forbidden, and the computation stays in it.
#
# **Example.** Set `attn.o_proj.weight` and `ffn.w2.weight` to zero: both branches are now silent. Take $x = (3, 4)$.
# The pre-norm block returns $(3, 4)$. The post-norm block normalises: $\sqrt{(9 + 16)/2} = 3.536$, and it returns
# $(0.849, 1.131)$.

# %% tags=["active-ipynb", "example"]
# # The example, in numbers
# import math
#
# x = (3.0, 4.0)  # both branches silent
# root = math.sqrt(sum(v * v for v in x) / len(x))
# print("pre-norm adds nothing:", x)
# print("post-norm still normalises:", [round(v / root, 3) for v in x])

# %% [markdown] tags=["hint"]
# Get one block right by reading the formula aloud. What is normalised? What is added to what?

# %% [markdown] tags=["hint"]
# Each block is two lines. In the second line `x` is the result of the first, on both sides of the plus sign.

# %% [markdown] tags=["hint"]
# Pre-norm: `x = x + self.attn(...)`, with the norm inside the brackets of the branch.
# Post-norm: `x = self.attn_norm(...)`, with the whole sum inside the brackets of the norm.
# Pass the mask to the attention by name: it may not be its second argument.

# %%
import math

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn


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


class MultiHeadAttention(nn.Module):
    def __init__(self, d_model: int, num_heads: int, *, device=None, dtype=None):
        if num_heads < 1 or d_model % num_heads != 0:
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
        acc = torch.promote_types(x.dtype, torch.float32)
        q = self.split_heads(self.q_proj(x)).to(acc)
        k = self.split_heads(self.k_proj(x)).to(acc)
        v = self.split_heads(self.v_proj(x)).to(acc)
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
        if mask is not None:
            scores = scores.masked_fill(~mask, torch.finfo(acc).min)
        weights = torch.softmax(scores, dim=-1)
        if mask is not None:
            weights = weights.masked_fill(~mask, 0.0)
        heads = (weights @ v).to(x.dtype)
        return self.o_proj(heads.transpose(-3, -2).flatten(-2))

    def split_heads(self, x: Float[Tensor, "*batch seq d_model"]) -> Float[Tensor, "*batch heads seq head_dim"]:
        return x.unflatten(-1, (self.num_heads, -1)).transpose(-3, -2)


class SwiGLU(nn.Module):
    """Its input here is normalised, so the product of gate and value stays in the range of float16."""

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
    """x + attn(norm(x)), then x + ffn(norm(x)). Norms and softmax are computed in float32 at least.

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
# The two classes hold the same parts. Everything that differs is in two lines of `forward`.
#
# In a **pre-norm** stack the input runs to the output through plain additions. The gradient does too, at any depth.
# Training is stable without a warm-up. But the sum grows from layer to layer,
# so a stack needs one more norm at its end.
#
# In a **post-norm** stack every layer rescales everything, the residual included. At initialisation the gradients near
# the output are large. Training needs a careful warm-up, and deep stacks may fail to train. The output is always
# normalised. The transformer of 2017 and BERT are post-norm; GPT-2, Llama and nearly all since are pre-norm.
#
# RMSNorm squares before it averages. In float16 a square overflows from 256 on, so the norm is computed in float32.
#
# **What it costs.** $O(n d^2 + n^2 d + n\, d\, d_{\mathrm{ff}})$ time for $n$ tokens. The weights are
# $4 d^2 + 3\, d\, d_{\mathrm{ff}} + 2 d$ numbers, 4 bytes each in float32. The largest tensors are the scores,
# $4 H n^2$ bytes for $H$ heads, unless the attention is fused.
#
# ## The other formulation
#
# A parallel block, `x + attn(norm(x)) + ffn(norm(x))` (GPT-J, PaLM), has one norm and one addition. It is not equal
# to the sequential block, but close in quality, and the first projections of both branches can be one product.
#
# ## The usual mistakes
#
# - `x = norm(x)` and then `x + attn(x)`: the residual is now the normalised input. It is neither of the two blocks.
# - One norm used twice. The parameters share a name and the second is missing.
# - `x + ffn(norm(x))` where `x` is still the input of the block: that is the parallel block.
# - `x += ...`, which overwrites the caller's tensor.
# - The mask passed by position, where the attention expects a context.

# %% tags=["active-ipynb", "solution"]
# # 24 blocks at initialisation: the size of a token on its way forward, and of the gradient on its way back
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
# backward.set(title="norm of the gradient on its way back", xlabel="block", yscale="log")
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
# ### What happens to the size of the residual in a deep pre-norm stack?
#
# - With branches of about unit size it grows like the root of their number: 7 after 24 blocks.
# - Later branches change it less and less, so depth is used less well.
# - GPT-2 scales the output projections at the start by one over the root of the number of branches.
# - The stack needs a norm at its end, or the head sees that size.
#
# Source: Radford et al. 2019, Language models are unsupervised multitask learners, section 2.3,
# https://cdn.openai.com/better-language-models/language_models_are_unsupervised_multitask_learners.pdf.
#
# ### Sequential or parallel branches?
#
# - Parallel: `x + attn(norm(x)) + ffn(norm(x))`, with one norm. The first projections of both become one product.
# - Split over devices it needs one sum forwards instead of two. PaLM trained about 15 percent faster.
# - The feed-forward layer no longer sees what this block's attention fetched. Large models lost nothing by it.
#
# Source: Chowdhery et al. 2022, section 2, arXiv:2204.02311.
#
# ### What breaks in half precision?
#
# - A stream in bfloat16 near 64 moves in steps of 0.5. Small contributions of late blocks are rounded away.
# - So some keep the sum in float32 and only the inputs of the branches in bfloat16. That doubles its traffic.
# - The norm squares: from 256 on the square is beyond float16.
# - A sum that passes 65,504 in float16 is lost for good. bfloat16 has no such end.
#
# Source: Kalamkar et al. 2019, arXiv:1905.12322.
#
# ### How much memory do the activations take, and what do you recompute?
#
# - About $s b h\,(34 + 5\, a s / h)$ bytes a layer in half precision: length $s$, batch $b$, width $h$, $a$ heads.
# - For GPT-3 at length 2,048 that is 0.9 GB a sequence and layer, and 2.0 GB more for scores, their softmax and
#   dropout.
# - Fused attention removes the second term. Recomputing whole blocks leaves $2 s b h$ and costs one more forward pass.
#
# Source: Korthikanti et al. 2022, section 4.1, arXiv:2205.05198.
#
# ### What would a profiler show for a block?
#
# - In training: seven large products, the attention kernel, and norms, rotation, gate and additions as thin kernels
#   limited by bandwidth.
# - These thin ones are a few thousandths of the operations and can be more than a third of the time. Fusing them is
#   most of what a compiler gains.
# - In decoding: the reading of weights and cache, and gaps between launches at small batches.
#
# Source: Ivanov et al. 2020, arXiv:2007.00072.
#
# ### How would you test it?
#
# - Branches set to zero: pre-norm is the identity, post-norm normalises.
# - A masked token changed: other tokens must not move. The input must hold what it held.
# - Two norms with different weights: one used twice is then seen.
# - Gradients at the input of 24 blocks: of much the same size at every depth for pre-norm.
#
# Source: Xiong et al. 2020, section 3, arXiv:2002.04745.
