# %% [markdown]
# # AdamW
#
# $$p \leftarrow p\,(1 - \eta\lambda), \qquad m \leftarrow \beta_1 m + (1 - \beta_1)\, g, \qquad
# v \leftarrow \beta_2 v + (1 - \beta_2)\, g^2$$
#
# $$p \leftarrow p - \eta\, \frac{m / (1 - \beta_1^t)}{\sqrt{v / (1 - \beta_2^t)} + \epsilon}$$
#
# The optimizer of nearly every language model. It divides the mean of the gradients by their size, entry by entry, so
# that all entries move by about $\eta$, the learning rate, whatever the scale of the loss. Weight decay stays out of
# the gradient: that is the W.
#
# **Write** `AdamW(params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01)` with `step()` and `zero_grad()`.
# `params` is as PyTorch's optimizers take it: an iterable of tensors, such as `model.parameters()`, or of dicts with
# `params` and settings of their own. $g$ is a tensor's `.grad`; $m$ and $v$ start with zeros, $t$ with 1.
#
# `torch.optim.Optimizer` may be the base class. Not allowed: anything else of `torch.optim`, and `torch._fused_adamw_`
# and its kin.
#
# **Example.** $p = 1$, $\eta = 0.1$, $\lambda = 0.1$, and twice the gradient 0.5. In the first step $m = 0.05$ and
# $v = 0.00025$, corrected 0.5 and 0.25: a step of $0.1 \cdot 0.5 / 0.5$. So $p = 0.99 - 0.1 = 0.89$, and then
# $0.89 \cdot 0.99 - 0.1 = 0.7811$.
#
# **Sources:** Loshchilov, Hutter 2017: Decoupled weight decay regularization,
# [arXiv:1711.05101](https://arxiv.org/abs/1711.05101); Kingma, Ba 2014: Adam, a method for stochastic optimization,
# [arXiv:1412.6980](https://arxiv.org/abs/1412.6980).
#
# House rules hold: docs/house_rules.md.

# %% [markdown] tags=["contract"]
# <details><summary>Contract: Formula, Groups, No gradient, In place, Half precision, Errors</summary>
#
# - **Formula.** Decay comes first, and `eps` is added to the root of the corrected $v$, as in PyTorch. float64 stays
#   float64.
# - **Groups.** `param_groups` is a list of dicts with `params`, `lr`, `betas`, `eps` and `weight_decay`, read anew at
#   each step: a schedule changes it.
# - **No gradient.** A `.grad` of None leaves its tensor alone: no step, no decay. $t$ counts the steps in which this
#   tensor had one.
# - **In place.** Values are written in the memory where they lie, without a graph or a loop over entries. `.grad` is
#   left as it is; `zero_grad()` sets it to None.
# - **Half precision.** $m$, $v$ and the step are float32; the tensor is rounded once a step, and no float32 copy of it
#   is kept.
# - **Errors.** A negative `lr`, `eps` or `weight_decay`, a beta outside `[0, 1)`, in the constructor or in a dict.
#
# </details>

# %% tags=["active-ipynb", "example"]
# # The example, in numbers
# p, m, v, g = 1.0, 0.0, 0.0, 0.5
# for t in (1, 2):
#     m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
#     corrected = m / (1 - 0.9**t), v / (1 - 0.999**t)
#     p = p * (1 - 0.1 * 0.1) - 0.1 * corrected[0] / (corrected[1] ** 0.5 + 1e-8)
#     print(f"step {t}: m {m:.5f}, v {v:.6f}, corrected {corrected[0]:.3f} and {corrected[1]:.3f}, p {p:.4f}")

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
        raise NotImplementedError

    @torch.no_grad()
    def step(self) -> None:
        """One step for each tensor that has a gradient."""
        raise NotImplementedError


# %% tags=["active-ipynb"]
# import sys
#
# sys.path.append("../..")  # the project
# from dojo import check
#
# check("adamw")
