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
#
# **Builds on** router, swiglu. **Sources:** Jiang et al. 2024: Mixtral of Experts,
# [arXiv:2401.04088](https://arxiv.org/abs/2401.04088); Shazeer et al. 2017: Outrageously Large Neural Networks,
# [arXiv:1701.06538](https://arxiv.org/abs/1701.06538).
#
# House rules hold: docs/house_rules.md.

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
from jaxtyping import Float, Int
from torch import Tensor, nn


# %%
class MixtureOfExperts(nn.Module):
    """A SwiGLU layer for each expert, of which every token uses the k that its router weights most.

    Jiang et al. 2024, arXiv:2401.04088, section 2.1.
    """

    def __init__(self, d_model: int, d_ff: int, num_experts: int, k: int, *, device=None, dtype=None):
        """Raises ValueError if k is outside of [1, num_experts]."""
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
