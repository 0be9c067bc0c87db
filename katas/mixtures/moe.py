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
#
# **Builds on** router, swiglu. **Sources:** Jiang et al. 2024: Mixtral of Experts,
# [arXiv:2401.04088](https://arxiv.org/abs/2401.04088); Shazeer et al. 2017: Outrageously Large Neural Networks,
# [arXiv:1701.06538](https://arxiv.org/abs/1701.06538).
#
# House rules hold: docs/house_rules.md.

# %% [markdown] tags=["contract"]
# <details><summary>Contract: Weights, No drops, Half precision, Cost</summary>
#
# - **Weights.** Those of a token sum to 1, as in Mixtral: a softmax over all experts, the k largest divided by their
#   sum. DeepSeek-V2 and Qwen2, the other school, leave them undivided. Gradients reach the router through them.
# - **No drops.** No token is dropped, even where all want the same experts, and none depends on the others.
# - **Half precision.** The router's softmax in float32. Logits, silu and products may stay in the dtype of `x`.
# - **Cost.** Matrix products as of k experts for each token, with a margin of 1.3, besides the router's own: twice as
#   many experts cost the same. A loop over experts is fine, one over tokens is not.
#
# </details>

# %% tags=["active-ipynb", "example"]
# # The example, in numbers
# import math
#
# x, logits, w2 = 2.0, (math.log(3), 0.0), (1.0, 10.0)
# weights = [math.exp(each) / sum(map(math.exp, logits)) for each in logits]
# outputs = [each * x / (1 + math.exp(-x)) * x for each in w2]
# print("weights", weights, "outputs", outputs)
# print("result", sum(weight * output for weight, output in zip(weights, outputs)))

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
        raise NotImplementedError

    def forward(self, x: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch d_model"]:
        """The weighted outputs of k experts, for each token alone."""
        raise NotImplementedError


# %% tags=["active-ipynb"]
# import sys
#
# sys.path.append("../..")  # the project
# from dojo import check
#
# check("moe")
