# %% [markdown]
# # Routing tokens to experts
#
# $$p = \mathrm{softmax}(x), \qquad w_e = \frac{p_e}{\sum_{c \,\in\, \mathrm{top}_k} p_c}, \qquad
# \mathrm{balance} = E \sum_e f_e P_e$$
#
# In a mixture of experts each token is worked on by $k$ of $E$ experts. The router chooses them by its logits $x$ and
# weights what they give. Two ways keep the experts equally busy: a loss, where $f_e$ is the share of all assignments
# that went to expert $e$ and $P_e$ its mean probability; or a bias that only the choice sees.
#
# **Write four functions.** `logits` has shape `(..., E)`. Chosen `experts` are int64 of shape `(..., k)`, in the order
# of choice, the best first; `weights` have the same shape and the dtype of `logits`.
#
# - **`route(logits, k, normalize=True)`** gives `(weights, experts)`: a softmax over all E experts, of which the k
#   largest are chosen. With `normalize` they are divided by their sum (Mixtral), else left as they are (Switch).
# - **`balance_loss(logits, experts)`** gives $E \sum_e f_e P_e$, a tensor of no dimensions: 1 when all is balanced,
#   for every k. $f$ is constant: gradients flow through $P$ alone.
# - **`biased_route(logits, bias, k, num_groups=1, top_groups=1, scale=1.0)`** gives `(weights, experts)` as DeepSeek-V3
#   does. Scores are sigmoids of the logits. The choice is made by `score + bias`, with `bias` of shape `(E,)`, which
#   may be float32 beside logits in half precision.
# - **Weights of `biased_route`** are the scores **without** the bias, divided by (their sum + 1e-20), times `scale`.
#   `bias` is constant: it gets no gradient.
# - **Groups** are of neighbours: with 8 experts in 4 groups, experts 0 and 1 are the first. Only experts of the
#   `top_groups` best groups may be chosen. A group is as good as the sum of its two best `score + bias`, or as its one
#   expert. What is left out can never be chosen, however negative the others are.
# - **`update_bias(bias, experts, rate)`** gives the new bias, `bias + rate · sign(mean load - load)` for each expert: a
#   load is the number of assignments. `bias` keeps its dtype, and an expert with the mean load its bias.
# - **Of equal experts** the one of lower id is chosen, and of equal groups the first.
# - **float16 and bfloat16** are computed in float32 and rounded at the end. float64 in, float64 out; float32 accuracy
#   is enough.
# - **Inputs are not modified**, and may be non-contiguous or expanded. Gradients flow to `logits`. No loops over tokens
#   or experts.
# - **A `ValueError`** whose message holds the values: `k` below 1, above E, or above the number of experts in the
#   chosen groups; E no multiple of `num_groups`; `num_groups` below 1; `top_groups` outside of `[1, num_groups]`.
# - **Not graded:** gradients of `update_bias`; expert ids out of range.
#
# No operation of PyTorch is forbidden, and the computation stays in it.
#
# **Example.** Probabilities 0.5, 0.3, 0.2 and `k=2`: experts 0 and 1, with weights $0.5/0.8 = 0.625$ and $0.375$. If a
# second token has 0.2, 0.3, 0.5 and goes to experts 2 and 1, then $f = (\tfrac14, \tfrac12, \tfrac14)$,
# $P = (0.35, 0.3, 0.35)$ and the loss is $3 \cdot 0.325 = 0.975$. The loads are 1, 2, 1 with mean $\tfrac43$: with
# `rate=0.1` a bias of zeros becomes $(0.1, -0.1, 0.1)$.
#
# **Builds on** softmax. **Sources:** Fedus et al. 2021: Switch Transformers,
# [arXiv:2101.03961](https://arxiv.org/abs/2101.03961); Wang et al. 2024: Auxiliary-Loss-Free Load Balancing,
# [arXiv:2408.15664](https://arxiv.org/abs/2408.15664); DeepSeek-AI 2024: DeepSeek-V3,
# [arXiv:2412.19437](https://arxiv.org/abs/2412.19437).
#
# House rules hold: docs/house_rules.md.

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
from jaxtyping import Float, Int
from torch import Tensor


# %%
def route(
    logits: Float[Tensor, "*batch experts"], k: int, normalize: bool = True
) -> tuple[Float[Tensor, "*batch k"], Int[Tensor, "*batch k"]]:
    """Weights and ids of the k most probable experts, the most probable first. Weights are made in float32.

    Raises:
        ValueError: k is outside of [1, E].
    """
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
    scale: float = 1.0,
) -> tuple[Float[Tensor, "*batch k"], Int[Tensor, "*batch k"]]:
    """Weights and ids of the k experts with the largest sigmoid + bias within the best groups, the best first.

    Raises:
        ValueError: k, num_groups or top_groups is out of range, or the groups are not of equal size.
    """
    raise NotImplementedError


def update_bias(
    bias: Float[Tensor, "experts"], experts: Int[Tensor, "*batch k"], rate: float
) -> Float[Tensor, "experts"]:
    """The bias moved by rate: up where an expert has less than the mean load, down where it has more."""
    raise NotImplementedError


# %% tags=["active-ipynb"]
# import sys
#
# sys.path.append("../..")  # the project
# from dojo import check
#
# check("router")
