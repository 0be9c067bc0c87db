# ---
# jupyter:
#   dojo:
#     title: Mixture of experts
#     level: 3
#     minutes: 25
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
# parameters of all experts and costs the FLOPs of $k$.
#
# **Write** `MixtureOfExperts(d_model, d_ff, num_experts, k, *, device=None, dtype=None)` with `forward(x)`, from
# `(..., d_model)` to the same shape. Each expert is a SwiGLU layer, whose output is multiplied by its weight.
#
# Parameters, without biases: `router.weight` is `(num_experts, d_model)`, `w1` and `w3` are
# `(num_experts, d_ff, d_model)`, `w2` is `(num_experts, d_model, d_ff)`. Initialize them as you like.
#
# No operation of PyTorch is forbidden.
#
# **Example.** Two experts with `d_model = d_ff = 1`, `k = 2`, and $x = 2$. With `router.weight` $= (\ln 3 / 2, 0)$ the
# logits are $\ln 3$ and 0: weights 0.75 and 0.25. With all of `w1` and `w3` 1, and `w2` 1 and 10, the experts give
# $2 \cdot \mathrm{silu}(2) = 3.523$ and $35.23$. The result is $0.75 \cdot 3.523 + 0.25 \cdot 35.23 = 11.45$.

# %% [markdown] tags=["contract"]
# - **Weights.** Those of a token sum to 1, as in Mixtral: a softmax over all experts, the k largest divided by their
#   sum. DeepSeek-V2 and Qwen2, the other school, leave them undivided. Gradients reach the router through them.
# - **No drops.** No token is dropped, even where all want the same experts, and none depends on the others.
# - **Half precision.** The router's softmax in float32. Logits, silu and products may stay in the dtype of `x`.
# - **Cost.** Matrix products as of k experts for each token, with a margin of 1.3, besides the router's own: twice as
#   many experts cost the same. A loop over experts is fine, one over tokens is not.

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
from jaxtyping import Float
from torch import Tensor, nn


# %%
class MixtureOfExperts(nn.Module):
    """A SwiGLU layer for each expert, of which every token uses the k that its router weights most.

    Jiang et al. 2024, arXiv:2401.04088, section 2.1.
    """

    def __init__(self, d_model: int, d_ff: int, num_experts: int, k: int, *, device=None, dtype=None):
        ### BEGIN SOLUTION
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
        logits = self.router(tokens)
        probs = F.softmax(logits, dim=-1, dtype=torch.promote_types(logits.dtype, torch.float32))
        weights, experts = probs.topk(self.k, dim=-1)
        weights = (weights / weights.sum(dim=-1, keepdim=True)).to(logits.dtype)
        out = torch.zeros_like(tokens)
        for expert, (w1, w2, w3) in enumerate(zip(self.w1, self.w2, self.w3, strict=True)):
            token, slot = torch.where(experts == expert)
            chosen = tokens[token]
            hidden = F.silu(chosen @ w1.mT) * (chosen @ w3.mT)
            out = out.index_add(0, token, weights[token, slot, None] * (hidden @ w2.mT))
        return out.reshape(x.shape)
        ### END SOLUTION


# %% [markdown] tags=["solution"]
# ## Why it is done this way
#
# Every expert on every token, weighted by a table of zeros, gives the same result with $E/k$ times the FLOPs: right as
# a test, useless as a layer. Grouped by expert, each product has only the tokens that chose it. `index_add` puts the
# rows back where they came from, and adds where a token has several experts.
#
# The weight multiplies the output. On the input it would pass through silu and the product of two projections, which
# are not linear. The choice has no gradient; the weights carry it to the router.
#
# **What it costs.** $6\, n\, k\, d\, d_{\mathrm{ff}}$ FLOPs for $n$ tokens and $2\, n\, d\, E$ for the router, and the
# memory of all experts: Mixtral 8x7B holds 46.7 billion parameters, 93 GB in bfloat16, and computes with 12.9 billion a
# token. An expert sees $n k / E$ rows, so its arithmetic intensity is $E/k$ times lower than a dense layer's: with 2 of
# 8 experts it takes about 1,200 tokens, not 300, until an H100 is compute-bound in bfloat16. Below that decoding waits
# for HBM.
#
# ## The other formulation
#
# `torch.where` waits for the device, once for each expert: how many tokens it has is known there alone. Instead sort
# the $n k$ assignments by expert, and let one grouped product serve all of them: `F.grouped_mm` or MegaBlocks, as
# transformers and torchtitan do. PyTorch's wants rows of a multiple of 16 bytes and knows no float64, so the loop
# stands here. With a fixed capacity for each expert it is one `bmm`, and tokens beyond it are dropped: GShard and
# Switch.
#
# ## The usual mistakes
#
# - `out[token] = ...` instead of adding.
# - A second softmax over the chosen probabilities, or weights undivided where a checkpoint was trained otherwise.
# - The router computed under `no_grad`, which never learns; a capacity, which drops tokens in silence.

# %% [markdown] tags=["solution", "questions"]
# ## What interviewers ask next
#
# ### How many billion parameters do `layers` layers of `experts` experts hold, `d_model` 4,096 and `d_ff` 14,336?
#
# - Three matrices an expert, $3\, d\, d_{\mathrm{ff}}$ parameters, 176 million.
# - Mixtral 8x7B, 32 layers of 8: 45.1 billion, of which a token uses a quarter. Attention and embeddings add 1.6
#   billion.
# - FLOPs are saved, memory is not: all experts must be held, and a batch of any size touches nearly all of them.
#
# Answer: `3 * 4096 * 14336 * experts * layers / 1e9` billion, within 5 %. Settings: `layers` 32, 56; `experts` 8, 16.
#
# Source: Jiang et al. 2024, section 2.1, arXiv:2401.04088.
#
# ### How many of `experts` experts does a batch of `tokens` tokens read in the mean, 2 for each, routed evenly?
#
# - One expert is missed by a token with probability $1 - 2/E$, and by all with that to the power of their number.
# - 8 tokens read 7.2 of 8 experts. In decoding the weights are most of what is read from HBM, so a small batch pays for
#   all experts, and a dense layer of the same FLOPs would read a quarter.
#
# Answer: `experts * (1 - (1 - 2 / experts) ** tokens)` experts, within 5 %. Settings: `experts` 8, 64; `tokens` 1, 8,
# 64.
#
# Source: Rajbhandari et al. 2022, DeepSpeed-MoE, section 5, arXiv:2201.05596.
#
# ### What is a capacity factor?
#
# - Each expert takes at most $c \cdot n k / E$ tokens, so that all products have one shape; the rest is dropped.
# - Too small it loses tokens, too large it pads. Grouped products need none.
#
# Source: Gale et al. 2022, MegaBlocks, arXiv:2211.15841.
#
# ### How would you test it?
#
# - Against all experts on all tokens with a table of weights, in float64.
# - Equal experts give what one gives, whatever the router says.
# - Tokens in another order give the same outputs in that order; one expert for all tokens drops nothing.
#
# Source: transformers, MixtralSparseMoeBlock, https://github.com/huggingface/transformers.
