# ---
# jupyter:
#   dojo:
#     title: Routing tokens to experts
#     level: 3
#     minutes: 25
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

# %% [markdown] tags=["contract"]
# - **Share.** $f$ counts assignments, so that balanced experts give 1 for every k. transformers counts tokens, which
#   gives k.
# - **Groups.** They are of neighbors: of 8 experts in 4 groups, 0 and 1 are the first. A group is as good as the sum of
#   its two best `score + bias`, whatever k is; Megatron takes its best `k / top_groups`. What is outside of the best
#   groups is never chosen, however negative the others are.
# - **Bias.** It chooses and does not weight. It is constant: no gradient flows to it.
# - **Half precision.** Softmax, sigmoid and choice are computed in float32, where small differences still count.
#   Weights are rounded at the end. `bias` may be float32 beside logits in half precision.

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
# `topk` gives the ids, `gather` the scores that belong to them. `unflatten(-1, (num_groups, -1))` makes groups of
# neighbors, and two `topk` in a row their scores and the best of them.

# %% [markdown] tags=["hint"]
# Loads: zeros of length E, `scatter_add` of ones at the ids. Best groups: a boolean table with `scatter(-1, ids,
# True)`; fill the choice outside of them with `-inf`, not with 0.

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
    ### BEGIN SOLUTION
    acc = torch.promote_types(logits.dtype, torch.float32)
    weights, experts = F.softmax(logits, dim=-1, dtype=acc).topk(k, dim=-1)
    if normalize:
        weights = weights / weights.sum(dim=-1, keepdim=True)
    return weights.to(logits.dtype), experts
    ### END SOLUTION


def balance_loss(logits: Float[Tensor, "*batch experts"], experts: Int[Tensor, "*batch k"]) -> Float[Tensor, ""]:
    """E Σ f_e P_e: the share of assignments of each expert, constant, times its mean probability."""
    ### BEGIN SOLUTION
    acc = torch.promote_types(logits.dtype, torch.float32)
    num_experts, ids = logits.shape[-1], experts.flatten()
    probs = F.softmax(logits, dim=-1, dtype=acc).reshape(-1, num_experts)
    loads = torch.zeros(num_experts, dtype=acc, device=ids.device)
    loads = loads.scatter_add(0, ids, torch.ones_like(ids, dtype=acc))
    share = loads / ids.numel()
    return (num_experts * (share * probs.mean(dim=0)).sum()).to(logits.dtype)
    ### END SOLUTION


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
    ### BEGIN SOLUTION
    scores = torch.sigmoid(logits.to(torch.promote_types(logits.dtype, torch.float32)))
    choice = (scores + bias).detach()
    grouped = choice.unflatten(-1, (num_groups, -1))
    group_scores = grouped.topk(2, dim=-1).values.sum(dim=-1)
    best = group_scores.topk(top_groups, dim=-1).indices
    chosen = torch.zeros_like(group_scores, dtype=torch.bool).scatter(-1, best, True)
    choice = grouped.masked_fill(~chosen[..., None], -torch.inf).flatten(-2)
    experts = choice.topk(k, dim=-1).indices
    weights = scores.gather(-1, experts)
    return (weights / weights.sum(dim=-1, keepdim=True)).to(logits.dtype), experts
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
# expert is chosen less, while the weight of those chosen stays that of the router. After each batch the bias moves by a
# fixed rate, `bias + rate * sign(mean load - load)`, outside of the gradient.
#
# Groups stand for nodes: a token that stays within `top_groups` of them crosses fewer links in the all-to-all. What is
# left out gets $-\infty$: with biases below $-1$ every sum is negative, and a 0 would beat them all.
#
# **What it costs.** Little beside the experts: with the 256 of DeepSeek-V3 the logits take 3.7 MFLOPs a token, each
# chosen expert 88. Softmax and `topk` are memory-bound; in float32 the probabilities of 16,384 tokens take 17 MB. What
# costs is an imbalance: the busiest expert sets the latency of the layer.
#
# ## The other formulation
#
# For normalized weights a softmax over the k chosen logits gives the same, for the common divisor cancels. `topk` of
# the logits then comes first, and the softmax over all experts is left to the balance loss.
#
# ## The usual mistakes
#
# - The bias left in the weights, or out of the choice; $f$ counted for tokens, so that the loss is k when balanced.
# - The choice made after rounding to bfloat16: close scores are equal, and training and serving pick other experts.

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
#     load = experts.flatten().bincount(minlength=8) / experts.numel()
#     history.append(load)
#     bias = bias + 0.005 * torch.sign(load.mean() - load)
# plt.plot(torch.stack(history))
# plt.axhline(1 / 8, color="gray", linestyle="--")
# plt.xlabel("batches")
# plt.ylabel("share of the assignments")
# plt.title("The bias evens out what the router prefers, without a gradient")
# plt.show()

# %% [markdown] tags=["solution", "questions"]
# ## What interviewers ask next
#
# ### What is the balance loss if every token goes to the same `k` of `experts` experts with probability 1?
#
# - $f_e = 1/k$ for each of them, and their $P_e$ add up to 1: $E \cdot \frac1k$.
# - Balanced it is 1. So it lies between 1 and $E/k$, and its coefficient, often 0.01, makes it small beside the
#   language model's own loss.
# - Counted by tokens, as transformers does, both are k times as large.
#
# Answer: `experts / k`, within 3 %. Settings: `experts` 8, 64, 256; `k` 1, 2, 8.
#
# Source: Fedus et al. 2021, section 2.2, arXiv:2101.03961.
#
# ### Where does the router's gradient come from, if the choice has none?
#
# - From the weights that multiply the experts' outputs, and from the balance loss.
# - With k = 1 and weights divided by their sum there is none: the weight is constant 1.
# - Without any balancing a router collapses: who is chosen more is trained more, and is chosen more still.
#
# Source: Fedus et al. 2021, section 2.1, arXiv:2101.03961; Shazeer et al. 2017, section 4, arXiv:1701.06538.
#
# ### What does a bias do that a loss does not, and why sigmoids beside it?
#
# - It changes who is chosen and nothing else: no gradient of it disturbs the language model.
# - It reacts a batch later; a small loss within a sequence is kept beside it.
# - Sigmoids do not compete. With 256 experts a softmax makes all scores small, and close to one another.
#
# Source: Wang et al. 2024, section 3, arXiv:2408.15664.
#
# ### How many kB does a token of `d_model` values move to `nodes` other nodes in FP8, and back in bfloat16?
#
# - Once to each node, whatever k is: within the node NVLink hands it on to the experts. That is what groups are for.
# - One byte a value to dispatch, two to combine.
# - DeepSeek-V3: 8 of 256 experts, at most 4 nodes, `d_model` 7,168: 86 kB a token and layer, where 8 nodes would be
#   172.
#
# Answer: `3 * nodes * d_model / 1e3` kB, within 5 %. Settings: `nodes` 1, 4, 8; `d_model` 4096, 7168.
#
# Source: DeepSeek-AI 2024, sections 2.1.2 and 3.2.2, arXiv:2412.19437.
