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
#     title: AdamW
#     level: 2
#     minutes: 20
#     builds_on: []
#     sources:
#       - "Loshchilov, Hutter 2017: Decoupled weight decay regularization, arXiv:1711.05101"
#       - "Kingma, Ba 2014: Adam, a method for stochastic optimization, arXiv:1412.6980"
# ---

# %% [markdown]
# # AdamW
#
# $$p \leftarrow p\,(1 - \eta\lambda), \qquad m \leftarrow \beta_1 m + (1 - \beta_1)\, g, \qquad
# v \leftarrow \beta_2 v + (1 - \beta_2)\, g^2$$
#
# $$p \leftarrow p - \eta\, \frac{m / (1 - \beta_1^t)}{\sqrt{v / (1 - \beta_2^t)} + \epsilon}$$
#
# The optimiser of nearly every language model. It divides the mean of the gradients by their size, entry by entry, so
# that all entries move by about $\eta$, the learning rate, whatever the scale of the loss. Weight decay pulls the
# parameters themselves towards 0 and stays out of the gradient: that is the W.
#
# **Write** `AdamW(params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01)` with `step()` and `zero_grad()`.
# `torch.optim.Optimizer` may be the base class, which has `zero_grad` and `param_groups`.
#
# - **`params`** is as torch's optimisers take it: an iterable of tensors, such as `model.parameters()` gives, or of
#   dicts with `params` and settings of their own. What a dict does not set is as in the constructor.
# - **`param_groups`** is a list of dicts with `params`, `lr`, `betas`, `eps` and `weight_decay`. Each step reads them
#   anew, for a schedule changes them in between.
# - **`step()`** is the formula for each tensor, with $g$ its `.grad`; $m$ and $v$ start with zeros. Decay comes first
#   and by the learning rate, and is not in $g$. $\epsilon$ stands outside the root, after the correction.
# - **$t$ counts** the steps in which this tensor had a gradient, from 1. Each tensor has its own.
# - **A `.grad` of None** leaves its tensor as it is: no step, no decay, no count.
# - **In place.** Values are written into the tensors that came, in the memory where they lie, without a graph: they
#   stay the leaves that they were. `.grad` is left as it is.
# - **`zero_grad()`** sets every `.grad` to None.
# - **float16 and bfloat16** tensors have $m$ and $v$ in float32. The step is computed in float32, and the tensor is
#   rounded once. No copy of it is kept in float32. float64 in, float64 out; float32 accuracy is enough.
# - **Gradients and tensors may be non-contiguous**, gradients also expanded. No loops over entries: operations grow
#   with the number of tensors, not with their size.
# - **A `ValueError`** that holds the value: a negative `lr`, `eps` or `weight_decay`, a beta outside of `[0, 1)`, in
#   the constructor and in a dict.
# - **Not graded:** betas changed in the first steps, `eps=0` with a gradient of 0, empty tensors, tensors given twice,
#   closures, `state_dict()`.
#
# Not allowed: anything else of `torch.optim`, and `torch._fused_adamw_` and its kin.
#
# **Example.** $p = 1$, $\eta = 0.1$, $\lambda = 0.1$, and twice the gradient 0.5. In the first step $m = 0.05$ and
# $v = 0.00025$, corrected 0.5 and 0.25: a step of $0.1 \cdot 0.5 / 0.5$. So $p = 0.99 - 0.1 = 0.89$, and then
# $0.89 \cdot 0.99 - 0.1 = 0.7811$.

# %% tags=["active-ipynb", "example"]
# # The example, in numbers
# p, m, v, g = 1.0, 0.0, 0.0, 0.5
# for t in (1, 2):
#     m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
#     corrected = m / (1 - 0.9**t), v / (1 - 0.999**t)
#     p = p * (1 - 0.1 * 0.1) - 0.1 * corrected[0] / (corrected[1] ** 0.5 + 1e-8)
#     print(f"step {t}: m {m:.5f}, v {v:.6f}, corrected {corrected[0]:.3f} and {corrected[1]:.3f}, p {p:.4f}")

# %% [markdown] tags=["hint"]
# What has to be remembered from one step to the next, and for what: for the optimiser, for a group, for a tensor?

# %% [markdown] tags=["hint"]
# `super().__init__(params, defaults)` with a dict of the four settings makes `self.param_groups`, and `self.state[p]`
# is a dict for each tensor, empty at first. A step writes into leaves: what has to be off while it does?

# %% [markdown] tags=["hint"]
# Under `torch.no_grad()`, for each tensor with a gradient: `g = p.grad.to(wide)`, where `wide` is float32, or float64
# for float64; then `m`, `v` and the new value in `wide`, and `p.copy_(new)`, which rounds.

# %%
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor


# %%
class AdamW(torch.optim.Optimizer):
    """Adam with weight decay that stays out of the gradient: Loshchilov, Hutter 2017, arXiv:1711.05101.

    Raises ValueError for negative lr, eps or weight_decay, and for betas outside [0, 1).
    """

    def __init__(
        self,
        params: Iterable[Tensor] | Iterable[dict[str, Any]],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.01,
    ):
        ### BEGIN SOLUTION
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay})
        for group in self.param_groups:
            for name in ("lr", "eps", "weight_decay"):
                if group[name] < 0:
                    raise ValueError(f"{name} {group[name]} is negative")
            if not all(0 <= beta < 1 for beta in group["betas"]):
                raise ValueError(f"betas {group['betas']} are not both in [0, 1)")
        ### END SOLUTION

    @torch.no_grad()
    def step(self) -> None:
        """One step for each tensor that has a gradient."""
        ### BEGIN SOLUTION
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    self.move(p, group["lr"], *group["betas"], group["eps"], group["weight_decay"])
        ### END SOLUTION

    ### BEGIN SOLUTION
    def move(self, p: Tensor, lr: float, beta1: float, beta2: float, eps: float, weight_decay: float) -> None:
        """The step of one tensor."""
        wide = torch.promote_types(p.dtype, torch.float32)
        g, state = p.grad.to(wide), self.state[p]
        if not state:
            state.update(t=0, m=torch.zeros_like(g), v=torch.zeros_like(g))
        state["t"] += 1
        t = state["t"]
        state["m"] = beta1 * state["m"] + (1 - beta1) * g
        state["v"] = beta2 * state["v"] + (1 - beta2) * g.square()
        m_hat = state["m"] / (1 - beta1**t)
        v_hat = state["v"] / (1 - beta2**t)
        decayed = p.to(wide) * (1 - lr * weight_decay)
        p.copy_(decayed - lr * m_hat / (v_hat.sqrt() + eps))

    ### END SOLUTION


# %% [markdown] tags=["solution"]
# ## Why it is done this way
#
# **Why the correction.** $m$ and $v$ start with zeros and are too small at first: after one step $m = (1 - \beta_1) g$.
# The sum of the weights so far is $1 - \beta^t$, and dividing by it makes a true mean of what was seen. Without it the
# first step would be $0.1 / \sqrt{0.001} = 3.2$ times as long.
#
# **Why decay stays out of the gradient.** In $g$, a pull of $\lambda p$ would be divided by $\sqrt v$ as well: entries
# with large gradients would hardly decay. Beside it, all decay alike.
#
# **Why float32 moments.** Next to $v$ in bfloat16, with 8 bits, a change of a thousandth of it is rounded away:
# with $\beta_2 = 0.999$ it can stand still. float16 loses $g^2$ below $6 \cdot 10^{-8}$, gradients of $2 \cdot
# 10^{-4}$.
#
# **What it costs.** $O(P)$ time for $P$ parameters, and $8 P$ bytes of state in float32. With float32 parameters and
# gradients a model takes $16 P$ bytes in training, before any activation: 112 GB for 7 billion. A step reads and writes
# all of it and computes next to nothing, so it is bound by memory.
#
# ## The other formulation
#
# In place it takes no more memory than the state: `m.lerp_(g, 1 - beta1)`,
# `v.mul_(beta2).addcmul_(g, g, value=1 - beta2)`, `p.addcdiv_(m, v.sqrt() / correction + eps, value=-lr / ...)`. For
# many small tensors `torch._foreach_*` starts a kernel for all of them at once.
#
# ## The usual mistakes
#
# - `g = g + weight_decay * p`: that is Adam with L2.
# - One counter for all tensors: what had no gradient at first is then not corrected.
# - `eps` under the root: $\sqrt{10^{-8}} = 10^{-4}$, ten thousand times as much.
# - `p = p - ...`, which gives the name to another tensor and leaves the parameter alone.
# - `lr` copied at construction: the schedule then changes nothing.
# - `load_state_dict` of torch's base class casts the state to the dtype of the parameter: float32 moments of bfloat16
#   tensors need a version of their own.

# %% tags=["active-ipynb", "solution"]
# # Two entries whose gradients differ by a factor of 100: AdamW moves both alike, plain descent does not
# import torch
# from matplotlib import pyplot as plt
#
# slopes = torch.tensor([1.0, 100.0])
# p, q = torch.nn.Parameter(torch.ones(2)), torch.ones(2)
# optimiser, path, plain = AdamW([p], lr=0.02, weight_decay=0.0), [], []
# for _ in range(100):
#     p.grad = slopes * p.detach()
#     optimiser.step()
#     q = q - 0.01 * slopes * q
#     path.append(p.detach().clone())
#     plain.append(q)
# plt.plot(torch.stack(path), label=["AdamW, slope 1", "AdamW, slope 100"])
# plt.plot(torch.stack(plain), linestyle=":", label=["descent, slope 1", "descent, slope 100"])
# plt.xlabel("step")
# plt.legend()
# plt.show()

# %% [markdown] tags=["solution", "questions"]
# ## What interviewers ask next
#
# ### What is the difference between Adam with L2 and AdamW?
#
# - L2 adds $\lambda p$ to the gradient, where it is divided by $\sqrt v$ like the rest.
# - Decoupled decay shrinks every entry by $\eta\lambda$, whatever its gradients. With plain descent the two are the
#   same.
#
# Source: Loshchilov, Hutter 2017, section 2, arXiv:1711.05101.
#
# ### How large is the first step?
#
# - $m$ and $v$ are corrected to $g$ and $g^2$, so each entry moves by $\eta$ in the direction of the sign.
# - That is why training starts with a warmup: signs of one batch are mostly noise.
#
# Source: Kingma, Ba 2014, section 2.1, arXiv:1412.6980.
#
# ### Why is β₂ 0.95 in many language models and not 0.999?
#
# - It averages over 20 steps instead of 1,000, and forgets a spike of the gradient, or a change of its size, sooner.
# - LLaMA was trained with betas of 0.9 and 0.95 and a decay of 0.1.
#
# Source: Touvron et al. 2023, section 2.3, arXiv:2302.13971.
#
# ### How much memory does it take with mixed precision, and how is that spread?
#
# - Weights and gradients in 16 bits, 2 + 2 bytes, and 12 of float32: a copy of the weight, $m$ and $v$. 16 a parameter.
# - ZeRO cuts the 12 over the devices first, then gradients, then weights.
#
# Source: Rajbhandari et al. 2019, arXiv:1910.02054.
#
# ### What goes wrong if weights in bfloat16 have no copy in float32?
#
# - A step below 1/512 of a weight is rounded away: late in training, with a small learning rate, most of them.
# - Stochastic rounding moves by a whole unit with the right probability, and loses nothing on average.
#
# Source: Zamirai et al. 2020, revisiting bfloat16 training, arXiv:2010.06192.
#
# ### Which parameters get no weight decay?
#
# - Usually norms and biases, often embeddings too: pulling a gain to 0 is not what is meant.
# - Two groups do it: matrices with decay, all of one dimension without.
#
# Source: Karpathy, nanoGPT, https://github.com/karpathy/nanoGPT.
#
# ### What role does ε play, and when does it matter?
#
# - It bounds the step where gradients are tiny. At $10^{-8}$ it matters for entries with gradients of that size.
# - Large models have such entries, and a spike begins when $v$ has become small: some lower it, or clip the update.
#
# Source: Wortsman et al. 2023, small-scale proxies for large-scale instabilities, arXiv:2309.14322.
#
# ### Does decay depend on the learning rate?
#
# - Here, as in PyTorch, by $\eta\lambda$: halving the rate halves the decay. The paper's own form has no $\eta$ in it,
#   but a schedule in common.
# - The parameters forget over about $1 / (\eta\lambda)$ steps, which is the number to keep when the rate is changed.
#
# Source: Wang, Aitchison 2024, how to set AdamW's weight decay, arXiv:2405.13698.
