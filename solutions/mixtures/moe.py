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
#     title: Mixture of experts
#     level: 3
#     minutes: 30
#     builds_on: [router, swiglu]
#     sources:
#       - "Jiang et al. 2024: Mixtral of Experts, arXiv:2401.04088"
#       - "Shazeer et al. 2017: Outrageously Large Neural Networks, arXiv:1701.06538"
# ---

# %% [markdown]
# # Mixture of experts
#
# $$y = \sum_{e \,\in\, \mathrm{top}_k(W_r x)} g_e \;
# W_2^{(e)} \big( \mathrm{silu}(W_1^{(e)} x) \odot W_3^{(e)} x \big),
# \qquad g = \mathrm{softmax}\big((W_r x)_{\mathrm{top}_k}\big)$$
#
# A feed-forward layer with many sets of weights, the experts, of which each token uses $k$. The model has the
# parameters of all experts and costs the work of $k$.
#
# **Write** `MixtureOfExperts(d_model, d_ff, num_experts, k, *, device=None, dtype=None)` with `forward(x)`.
#
# - **`x`** has shape `(..., d_model)`, with any number of leading dimensions, also none. The result has the same.
# - **Parameters**, and no others: `router.weight` of shape `(num_experts, d_model)`, `w1` and `w3` of shape
#   `(num_experts, d_ff, d_model)`, `w2` of shape `(num_experts, d_model, d_ff)`. No bias. Initialise them as you like.
# - **The router** is that of the kata before: a softmax over all experts, the `k` largest, divided by their sum.
#   Gradients flow through its weights.
# - **Each expert** is a SwiGLU layer; silu acts on `w1 x`. Its output is multiplied by its weight, and the outputs of
#   the k experts of a token are added up.
# - **No token is dropped**, even where all tokens want the same experts. What a token gets does not depend on the
#   others, nor on its place among them.
# - **An expert without tokens** gets a gradient of 0.
# - **Dtype.** The result has the dtype of the parameters. With float16 or bfloat16 the softmax is computed in float32;
#   router logits may have the dtype of `x` or be float32, silu and products that of `x`. float64 in, float64 out;
#   float32 accuracy is enough.
# - **The input is not modified**, and may be non-contiguous or expanded.
# - **Cost.** The matrix products are those of k experts for each token, with a margin of 1.3, besides the router's own:
#   twice as many experts cost the same. A loop over experts is fine, one over tokens is not.
# - **A `ValueError`** whose message holds the values, when the module is built: `k` outside of `[1, num_experts]`.
# - **Not graded:** tokens whose k-th and next logits lie closer than a quarter.
#
# No operation of PyTorch is forbidden, and the computation stays in it.
#
# **Example.** Two experts with `d_model = d_ff = 1`, `k = 2`, and $x = 2$. With `router.weight` $= (\ln 3 / 2, 0)$ the
# logits are $\ln 3$ and 0: weights 0.75 and 0.25. With all of `w1` and `w3` 1, and `w2` 1 and 10, the experts give
# $2 \cdot \mathrm{silu}(2) = 3.523$ and $35.23$. The result is $0.75 \cdot 3.523 + 0.25 \cdot 35.23 = 11.45$.

# %% tags=["active-ipynb", "example"]
# # The example, in numbers
# import math
#
# x, logits, w2 = 2.0, (math.log(3), 0.0), (1.0, 10.0)
# weights = [math.exp(each) / sum(map(math.exp, logits)) for each in logits]
# outputs = [each * x / (1 + math.exp(-x)) * x for each in w2]
# print("weights", weights, "outputs", outputs)
# print("result", sum(weight * output for weight, output in zip(weights, outputs)))

# %% [markdown] tags=["hint"]
# Turn the question around: not which experts a token has, but which tokens an expert has. Then each expert is one
# matrix product over its tokens.

# %% [markdown] tags=["hint"]
# Flatten the leading dimensions first. `torch.where(experts == e)` gives two index tensors: the tokens that chose e,
# and in which of their k slots.

# %% [markdown] tags=["hint"]
# For each expert: `token, slot = torch.where(experts == e)`, the SwiGLU of `tokens[token]`, times
# `weights[token, slot, None]`, and `out = out.index_add(0, token, ...)`.

# %%
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn


# %%
class MixtureOfExperts(nn.Module):
    """A SwiGLU layer for each expert, of which every token uses the k that its router weights most.

    Jiang et al. 2024, arXiv:2401.04088, section 2.1.
    """

    def __init__(self, d_model: int, d_ff: int, num_experts: int, k: int, *, device=None, dtype=None):
        """Raises ValueError if k is outside of [1, num_experts]."""
        ### BEGIN SOLUTION
        if not 1 <= k <= num_experts:
            raise ValueError(f"k={k} is outside of [1, {num_experts}], the number of experts")
        super().__init__()
        self.k = k
        self.router = nn.Linear(d_model, num_experts, bias=False, device=device, dtype=dtype)
        self.w1 = nn.Parameter(torch.empty(num_experts, d_ff, d_model, device=device, dtype=dtype))
        self.w3 = nn.Parameter(torch.empty(num_experts, d_ff, d_model, device=device, dtype=dtype))
        self.w2 = nn.Parameter(torch.empty(num_experts, d_model, d_ff, device=device, dtype=dtype))
        for weight in (self.w1, self.w2, self.w3):
            nn.init.normal_(weight, std=weight.shape[-1] ** -0.5)
        ### END SOLUTION

    def forward(self, x: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch d_model"]:
        """The weighted outputs of k experts, for each token alone."""
        ### BEGIN SOLUTION
        tokens = x.reshape(-1, x.shape[-1])
        weights, experts = route(self.router(tokens), self.k)
        out = torch.zeros_like(tokens)
        for expert, (w1, w2, w3) in enumerate(zip(self.w1, self.w2, self.w3, strict=True)):
            token, slot = torch.where(experts == expert)
            chosen = tokens[token]
            hidden = F.silu(chosen @ w1.mT) * (chosen @ w3.mT)
            out = out.index_add(0, token, weights[token, slot, None] * (hidden @ w2.mT))
        return out.reshape(x.shape)
        ### END SOLUTION


# %%
### BEGIN SOLUTION
def route(logits: Float[Tensor, "tokens experts"], k: int) -> tuple[Float[Tensor, "tokens k"], Int[Tensor, "tokens k"]]:
    """Weights that sum to 1 and ids of the k most probable experts of each token."""
    probs = torch.softmax(logits.to(torch.promote_types(logits.dtype, torch.float32)), dim=-1)
    weights, experts = probs.topk(k, dim=-1)
    return (weights / weights.sum(dim=-1, keepdim=True)).to(logits.dtype), experts


### END SOLUTION


# %% [markdown] tags=["solution"]
# ## Why it is done this way
#
# Every expert on every token, weighted by a table of zeros, gives the same result with $E/k$ times the work: right as a
# test, useless as a layer. Grouped by expert, each product has only the tokens that chose it.
#
# `index_add` puts the rows back where they came from, whatever their order, and adds where a token has several experts.
# An assignment `out[token] = ...` would keep the last one.
#
# The weight multiplies the output. On the input it would pass through silu and the product of two projections, which
# are not linear.
#
# The choice has no gradient; the weights carry it to the router. An expert that no token chose is a product over zero
# rows: its gradient is 0, which an optimiser with momentum takes for a step all the same.
#
# **What it costs.** $O(n\, k\, d\, d_{\mathrm{ff}})$ time for $n$ tokens, $6\, n\, k\, d\, d_{\mathrm{ff}}$ operations,
# and $2\, n\, d\, E$ for the router. The weights take $12\, E\, d\, d_{\mathrm{ff}}$ bytes in float32: Mixtral 8x7B has
# 47 billion parameters and computes with 13 billion a token. Gathered rows and hidden layers take
# $4\, n\, k\, (2 d + 4 d_{\mathrm{ff}})$ bytes.
#
# ## The other formulation
#
# Sort the $n k$ assignments by expert; the rows of each expert then lie together, and one grouped product
# (`torch._grouped_mm`, MegaBlocks) serves all experts without a loop. With a fixed capacity for each expert the product
# is one `bmm`, and tokens beyond the capacity are dropped: the way of GShard and Switch.
#
# ## The usual mistakes
#
# - `out[token] = ...` instead of adding.
# - The weight of slot 0 for both slots.
# - Weights that do not sum to 1, or a second softmax over the chosen probabilities.
# - The router computed under `no_grad`: it never learns.
# - A capacity: tokens of a popular expert are dropped in silence.

# %% tags=["active-ipynb", "solution"]
# # More experts, the same work: products a token, measured and counted
# import torch
# from matplotlib import pyplot as plt
# from torch.utils.flop_counter import FlopCounterMode
#
# counts, tokens = [2, 4, 8, 16, 32], torch.randn(256, 32)
# held, done = [], []
# for count in counts:
#     layer = MixtureOfExperts(32, 64, count, 2)
#     with FlopCounterMode(display=False) as counter:
#         layer(tokens)
#     held.append(sum(p.numel() for p in layer.parameters()))
#     done.append(counter.get_total_flops() / 256)
# plt.loglog(counts, held, "o-", label="parameters")
# plt.loglog(counts, done, "s-", label="operations a token")
# plt.xlabel("experts, of which each token uses 2")
# plt.title("Experts add parameters, not work")
# plt.legend()
# plt.show()

# %% [markdown] tags=["solution", "questions"]
# ## What interviewers ask next
#
# ### What does a mixture of experts save, and what not?
#
# - Work: a token passes k of E experts. Mixtral computes with 13 of its 47 billion parameters.
# - Not memory: all experts must be held, and a batch of any size touches nearly all of them.
#
# Source: Jiang et al. 2024, section 1, arXiv:2401.04088.
#
# ### Do experts become specialists of topics?
#
# - Mostly not: assignments follow tokens and syntax more than subjects.
# - Consecutive tokens often get the same experts, in the deeper layers above all.
#
# Source: Jiang et al. 2024, section 5, arXiv:2401.04088.
#
# ### Why do small batches decode slowly?
#
# - A product with one token a time waits for the weights: 8 tokens with 2 of 8 experts read nearly all experts.
# - A dense layer of the same work would read its weights once for all 8.
#
# Source: Rajbhandari et al. 2022, DeepSpeed-MoE, section 5, arXiv:2201.05596.
#
# ### What is a capacity factor?
#
# - Each expert takes at most $c \cdot n k / E$ tokens, so that all products have one shape; the rest is dropped.
# - Too small it loses tokens, too large it pads. Grouped products need no capacity.
#
# Source: Gale et al. 2022, MegaBlocks, arXiv:2211.15841.
#
# ### How are experts spread over devices?
#
# - Each device holds some experts. Tokens travel by an all-to-all to their experts and by a second one back.
# - The slowest device sets the pace: balance is a matter of speed, not only of quality.
#
# Source: Lepikhin et al. 2020, GShard, arXiv:2006.16668.
#
# ### What are shared experts for?
#
# - Every token passes them: they hold what all tokens need, and the routed ones need not learn it again.
# - Many small experts instead of few large ones give more combinations for the same work.
#
# Source: Dai et al. 2024, DeepSeekMoE, arXiv:2401.06066.
#
# ### How would you test it?
#
# - Against all experts on all tokens with a table of weights, in float64.
# - Equal experts give what one gives, whatever the router says.
# - Tokens in another order give the same outputs in that order; one expert for all tokens drops nothing.
#
# Source: transformers, MixtralSparseMoeBlock, https://github.com/huggingface/transformers.
