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
#     title: Routing tokens to experts
#     level: 3
#     minutes: 30
#     builds_on: [softmax]
#     sources:
#       - "Fedus et al. 2021: Switch Transformers, arXiv:2101.03961"
#       - "Wang et al. 2024: Auxiliary-Loss-Free Load Balancing, arXiv:2408.15664"
#       - "DeepSeek-AI 2024: DeepSeek-V3, arXiv:2412.19437"
# ---

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

# %% tags=["active-ipynb", "example"]
# # The example, in numbers
# import torch
#
# probs = torch.tensor([[0.5, 0.3, 0.2], [0.2, 0.3, 0.5]])
# print("weights of token 0:", (probs[0, :2] / probs[0, :2].sum()).tolist())
# f, p = torch.tensor([1, 2, 1]) / 4, probs.mean(0)
# print("f", f.tolist(), "P", p.tolist(), "loss", 3 * (f * p).sum().item())

# %% [markdown] tags=["hint"]
# Separate three things: what the experts are chosen by, what they are weighted by, and what is counted.

# %% [markdown] tags=["hint"]
# A sort with `descending=True, stable=True` breaks ties as asked, `topk` breaks them as it likes. `unflatten` makes
# groups of neighbours; a mask of groups becomes one of experts by `repeat_interleave`.

# %% [markdown] tags=["hint"]
# Loads: `experts.flatten().bincount(minlength=E)`. Group scores: the two best of
# `choice.unflatten(-1, (num_groups, -1))`, summed. Fill the choice outside of the best groups with `-inf`, not with 0.

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
    ### BEGIN SOLUTION
    if not 1 <= k <= logits.shape[-1]:
        raise ValueError(f"k={k} is outside of [1, {logits.shape[-1]}], the number of experts")
    probs = torch.softmax(logits.to(torch.promote_types(logits.dtype, torch.float32)), dim=-1)
    experts = best(logits, k)
    weights = probs.gather(-1, experts)
    if normalize:
        weights = weights / weights.sum(dim=-1, keepdim=True)
    return weights.to(logits.dtype), experts
    ### END SOLUTION


def balance_loss(logits: Float[Tensor, "*batch experts"], experts: Int[Tensor, "*batch k"]) -> Float[Tensor, ""]:
    """E Σ f_e P_e: the share of assignments of each expert, constant, times its mean probability."""
    ### BEGIN SOLUTION
    num_experts = logits.shape[-1]
    chances = torch.softmax(logits.to(torch.promote_types(logits.dtype, torch.float32)), dim=-1)
    share = loads(experts, num_experts).to(chances.dtype) / experts.numel()
    mean = chances.reshape(-1, num_experts).mean(dim=0)
    return (num_experts * (share * mean).sum()).to(logits.dtype)
    ### END SOLUTION


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
    ### BEGIN SOLUTION
    num_experts = logits.shape[-1]
    if num_groups < 1 or num_experts % num_groups != 0:
        raise ValueError(f"{num_experts} experts do not make num_groups={num_groups} groups of equal size")
    if not 1 <= top_groups <= num_groups:
        raise ValueError(f"top_groups={top_groups} is outside of [1, {num_groups}]")
    size = num_experts // num_groups
    if not 1 <= k <= size * top_groups:
        raise ValueError(f"k={k} is outside of [1, {size * top_groups}], the number of experts in the chosen groups")
    scores = torch.sigmoid(logits.to(torch.promote_types(logits.dtype, torch.float32)))
    choice = (scores + bias).detach()
    grouped = choice.unflatten(-1, (num_groups, size))
    group_scores = grouped.topk(min(2, size), dim=-1).values.sum(dim=-1)
    open_groups = torch.zeros_like(group_scores, dtype=torch.bool).scatter(-1, best(group_scores, top_groups), True)
    choice = choice.masked_fill(~open_groups.repeat_interleave(size, dim=-1), -torch.inf)
    experts = best(choice, k)
    gated = scores.gather(-1, experts)
    gated = gated / (gated.sum(dim=-1, keepdim=True) + 1e-20) * scale
    return gated.to(logits.dtype), experts
    ### END SOLUTION


def update_bias(
    bias: Float[Tensor, "experts"], experts: Int[Tensor, "*batch k"], rate: float
) -> Float[Tensor, "experts"]:
    """The bias moved by rate: up where an expert has less than the mean load, down where it has more."""
    ### BEGIN SOLUTION
    load = loads(experts, len(bias)).to(torch.promote_types(bias.dtype, torch.float32))
    return (bias + rate * torch.sign(load.mean() - load)).to(bias.dtype)
    ### END SOLUTION


# %%
### BEGIN SOLUTION
def best(x: Float[Tensor, "*batch n"], k: int) -> Int[Tensor, "*batch k"]:
    """Where the k largest of each row stand, the largest first; of equals the lower index."""
    return x.argsort(dim=-1, descending=True, stable=True)[..., :k]


def loads(experts: Int[Tensor, "*batch k"], num_experts: int) -> Int[Tensor, "experts"]:
    """How many assignments went to each expert."""
    ids = experts.flatten().long()
    return torch.zeros(num_experts, dtype=torch.int64, device=ids.device).scatter_add(0, ids, torch.ones_like(ids))


### END SOLUTION


# %% [markdown] tags=["solution"]
# ## Why it is done this way
#
# The choice has no gradient: which experts are best is a step function. Only the weights carry a gradient to the
# router, and with `k=1` and `normalize` they are constant 1 and the router never learns. That is why Switch, with one
# expert a token, leaves the probability as it is.
#
# $\sum_e f_e P_e$ is smallest when both are uniform. $f$ counts and has no gradient; $P$ has one, and pushes down the
# probability of experts that are busy.
#
# A loss that fights the language model's own costs quality. DeepSeek's bias changes the choice alone: an overloaded
# expert is chosen less, while the weight of those chosen stays that of the router. It moves by a fixed rate, outside of
# the gradient.
#
# Groups stand for machines: a token that stays within `top_groups` of them is sent over fewer links.
#
# What is left out gets $-\infty$: with biases below $-1$ every sum is negative, and a 0 would beat them all.
#
# **What it costs.** $O(E \log E)$ time a token for the sort, nothing beside the experts' own work. Probabilities,
# choice and order take $4 E$ to $8 E$ bytes a token: with 256 experts and 16,384 tokens 34 MB for the order.
#
# ## The other formulation
#
# For normalised weights the softmax over all experts is not needed: a softmax over the k chosen logits gives the same,
# for the common divisor cancels. `topk` is faster than a sort where ties do not matter.
#
# ## The usual mistakes
#
# - The bias left in the weights, or left out of the choice.
# - A gradient through $f$, or $f$ counted for tokens instead of assignments: then the loss is k when balanced.
# - Groups taken as every fourth expert instead of neighbours.
# - The bias moved by the size of the difference, or the wrong way.

# %% tags=["active-ipynb", "solution"]
# # Biases find the balance: loads of 8 experts whose router prefers some of them
# import torch
# from matplotlib import pyplot as plt
#
# generator = torch.Generator().manual_seed(1)
# preference, bias, history = torch.linspace(-1, 1, 8), torch.zeros(8), []
# for _ in range(150):
#     logits = preference + torch.randn(512, 8, generator=generator)
#     _, experts = biased_route(logits, bias, 2)
#     history.append(experts.flatten().bincount(minlength=8) / experts.numel())
#     bias = update_bias(bias, experts, 0.005)
# plt.plot(torch.stack(history))
# plt.axhline(1 / 8, color="black", linestyle="--")
# plt.xlabel("batches")
# plt.ylabel("share of the assignments")
# plt.title("The bias evens out what the router prefers, without a gradient")
# plt.show()

# %% [markdown] tags=["solution", "questions"]
# ## What interviewers ask next
#
# ### Why does a router collapse without balancing?
#
# - An expert that is chosen more is trained more, becomes better, and is chosen more still.
# - Experts that are never chosen get no gradient, and their memory is wasted.
#
# Source: Shazeer et al. 2017, section 4, arXiv:1701.06538.
#
# ### Where does the router's gradient come from, if the choice has none?
#
# - From the weights that multiply the experts' outputs, and from the balance loss.
# - With k = 1 and weights divided by their sum there is none: the weight is constant 1.
#
# Source: Fedus et al. 2021, section 2.1, arXiv:2101.03961.
#
# ### Why is the router computed in float32?
#
# - The softmax exponentiates: an error of a logit becomes a relative error of a weight.
# - In bfloat16 close logits become equal, and the choice flips between training and serving.
#
# Source: Fedus et al. 2021, section 2.4, arXiv:2101.03961.
#
# ### What does a bias do that a loss does not?
#
# - It changes who is chosen and nothing else: no gradient of it disturbs the language model.
# - It reacts with a delay of a batch; a small loss within a sequence is kept beside it.
#
# Source: Wang et al. 2024, section 3, arXiv:2408.15664.
#
# ### Why sigmoids instead of a softmax?
#
# - Scores do not compete: with 256 experts a softmax makes all of them small, and close to one another.
# - The chosen ones are divided by their sum afterwards.
#
# Source: DeepSeek-AI 2024, section 2.1.2, arXiv:2412.19437.
#
# ### What is gained by choosing groups first?
#
# - A group lives on one machine: a token is sent to at most `top_groups` machines, whatever k is.
# - Traffic between machines is the bottleneck of expert parallelism, more than the products.
#
# Source: DeepSeek-AI 2024, section 2.1.2, arXiv:2412.19437.
#
# ### What is expert choice?
#
# - Experts choose tokens, a fixed number each: the load is balanced by construction.
# - A token may be chosen by none, and the choice looks at later tokens, so it cannot generate as it was trained.
#
# Source: Zhou et al. 2022, arXiv:2202.09368.
