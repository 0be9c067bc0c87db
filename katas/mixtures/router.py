# %% [markdown]
# # Routing tokens to experts
#
# $$p = \mathrm{softmax}(x), \qquad w_e = \frac{p_e}{\sum_{c \,\in\, \mathrm{top}_k} p_c}, \qquad
# \mathrm{balance} = E \sum_e f_e P_e$$
#
# In a mixture of experts $k$ of $E$ experts work on a token, chosen and weighted by its logits $x$. A loss, or a bias
# that only the choice sees, keeps them equally busy.
#
# **Write** three functions. `logits` are `(..., E)`; `weights` and int64 ids `experts` are `(..., k)`, in any order.
#
# - `route(logits, k, normalize=True)` gives `(weights, experts)`: the k largest of a softmax over all experts, with
#   `normalize` divided by their sum.
# - `balance_loss(logits, experts)` gives the scalar: $f_e$, constant, is the share of all assignments that went to
#   expert $e$, $P_e$ its mean probability.
# - `biased_route(logits, bias, k, num_groups=1, top_groups=1)` gives `(weights, experts)` as DeepSeek-V3 does: sigmoids
#   are the scores, `score + bias` chooses within the `top_groups` best groups, and the chosen scores are divided by
#   their sum.
#
# **Example.** Probabilities 0.5, 0.3, 0.2 and `k=2`: experts 0 and 1, with weights $0.5/0.8 = 0.625$ and $0.375$. If a
# second token has 0.2, 0.3, 0.5 and goes to experts 2 and 1, then $f = (\tfrac14, \tfrac12, \tfrac14)$,
# $P = (0.35, 0.3, 0.35)$ and the loss is $3 \cdot 0.325 = 0.975$.
#
# **Builds on** softmax. **Sources:** Fedus et al. 2021: Switch Transformers,
# [arXiv:2101.03961](https://arxiv.org/abs/2101.03961); Wang et al. 2024: Auxiliary-Loss-Free Load Balancing,
# [arXiv:2408.15664](https://arxiv.org/abs/2408.15664); DeepSeek-AI 2024: DeepSeek-V3,
# [arXiv:2412.19437](https://arxiv.org/abs/2412.19437).
#
# House rules hold: docs/house_rules.md.

# %% [markdown] tags=["contract"]
# <details><summary>Contract: Share, Groups, Bias, Half precision</summary>
#
# - **Share.** $f$ counts assignments, so that balanced experts give 1 for every k. transformers counts tokens, which
#   gives k.
# - **Groups.** They are of neighbors: of 8 experts in 4 groups, 0 and 1 are the first. A group is as good as the sum of
#   its two best `score + bias`, whatever k is; Megatron takes its best `k / top_groups`. What is outside of the best
#   groups is never chosen, however negative the others are.
# - **Bias.** It chooses and does not weight. It is constant: no gradient flows to it.
# - **Half precision.** Softmax, sigmoid and choice are computed in float32, where small differences still count.
#   Weights are rounded at the end. `bias` may be float32 beside logits in half precision.
#
# </details>

# %% tags=["active-ipynb", "example"]
# # The example, in numbers
# import torch
#
# probs = torch.tensor([[0.5, 0.3, 0.2], [0.2, 0.3, 0.5]])
# print("weights of token 0:", (probs[0, :2] / probs[0, :2].sum()).tolist())
# f, p = torch.tensor([1, 2, 1]) / 4, probs.mean(0)
# print("f", f.tolist(), "P", p.tolist(), "loss", 3 * (f * p).sum().item())

# %%
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor


# %%
def route(
    logits: Float[Tensor, "*batch experts"], k: int, normalize: bool = True
) -> tuple[Float[Tensor, "*batch k"], Int[Tensor, "*batch k"]]:
    """Weights and ids of the k most probable experts of each token."""
    raise NotImplementedError


def balance_loss(logits: Float[Tensor, "*batch experts"], experts: Int[Tensor, "*batch k"]) -> Float[Tensor, ""]:
    """E Σ f_e P_e: the share of assignments of each expert, constant, times its mean probability."""
    raise NotImplementedError


def biased_route(
    logits: Float[Tensor, "*batch experts"],
    bias: Float[Tensor, "experts"],
    k: int,
    num_groups: int = 1,
    top_groups: int = 1,
) -> tuple[Float[Tensor, "*batch k"], Int[Tensor, "*batch k"]]:
    """Weights and ids of the k experts with the largest sigmoid + bias within the best groups.

    DeepSeek-AI 2024, arXiv:2412.19437, section 2.1.2.
    """
    raise NotImplementedError


# %% tags=["active-ipynb"]
# import sys
#
# sys.path.append("../..")  # the project
# from dojo import check
#
# check("router")
