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
#
# **Sources:** Loshchilov, Hutter 2017: Decoupled weight decay regularization,
# [arXiv:1711.05101](https://arxiv.org/abs/1711.05101); Kingma, Ba 2014: Adam, a method for stochastic optimization,
# [arXiv:1412.6980](https://arxiv.org/abs/1412.6980).
#
# House rules hold: docs/house_rules.md.

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
