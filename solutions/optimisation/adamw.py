# ---
# jupyter:
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

# %% [markdown] tags=["contract"]
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

# %% tags=["active-ipynb", "example"]
# # The example, in numbers
# p, m, v, g = 1.0, 0.0, 0.0, 0.5
# for t in (1, 2):
#     m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
#     corrected = m / (1 - 0.9**t), v / (1 - 0.999**t)
#     p = p * (1 - 0.1 * 0.1) - 0.1 * corrected[0] / (corrected[1] ** 0.5 + 1e-8)
#     print(f"step {t}: m {m:.5f}, v {v:.6f}, corrected {corrected[0]:.3f} and {corrected[1]:.3f}, p {p:.4f}")

# %% [markdown] tags=["hint"]
# What has to be remembered from one step to the next, and for what: for the optimizer, for a group, for a tensor?

# %% [markdown] tags=["hint"]
# `super().__init__(params, defaults)` with a dict of the four settings makes `self.param_groups`, and `self.state[p]`
# is a dict for each tensor, empty at first. A step writes into leaves: what has to be off while it does?

# %% [markdown] tags=["hint"]
# Under `torch.no_grad()`, for each tensor with a gradient: `exp_avg.lerp_(grad, 1 - beta1)`,
# `exp_avg_sq.mul_(beta2).addcmul_(grad, grad, value=1 - beta2)`, then `p.mul_(...)` and `p.addcdiv_(...)`. Half
# precision goes through `p.to(torch.float32)` and back by `p.copy_`.

# %% [markdown] tags=["idea"]
# Gradients differ. One weight may have gradients a million times those of another, and a step along them moves the one
# far too much, or the other not at all. No learning rate fits both.
#
# So each weight gets a scale of its own: two running means, of its gradients and of their squares. The first says where
# to, the root of the second how large gradients are here. A step is their ratio, and the scale is gone. In the figure
# gradients of 1,000 and of 0.001 move a weight alike, by one learning rate a step. Where signs disagree the mean is
# small, and so is the step. Both means start at 0 and are too small at first; that is put right.
#
# Weights are also to shrink a little, all by the same share. As a part of the gradient this pull would lose its scale,
# and weights with large gradients would hardly shrink: AdamW keeps it apart. The price: 8 bytes a weight for the means.

# %% tags=["active-ipynb", "figure"]
# """Distance against steps by gradient descent and by Adam. Gradients of 1,000 and 0.001 are a million times apart on
# the left and on one line on the right. There gradients that change their sign end at a tenth of that."""
# import matplotlib.pyplot as plt
# import numpy as np
#
# t, both = np.arange(1.0, 101), plt.figure(figsize=(7.6, 3.2)).subplots(1, 2, sharey=True)
# for g, style, name in ((1e3, "-", "1,000"), (0.1 - (-1) ** t, ":", "1.1 and -0.9"), (1e-3, "--", "0.001")):
#     mean, square = (np.cumsum(g**k * beta**-t) / np.cumsum(beta**-t) for k, beta in ((1, 0.9), (2, 0.999)))
#     for axes, step, title in zip(both, (g + 0 * t, mean / square**0.5), ("gradient descent", "Adam"), strict=True):
#         axes.loglog(t, np.cumsum(step), style, label=f"gradients {name}")
#         axes.set(title=title, xlabel="steps", ylabel="distance / learning rate")
# both[0].figure.legend(*both[0].get_legend_handles_labels(), loc="outside upper center", ncols=3)

# %%
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

# %% [markdown] tags=["step"]
# **A running mean.** It starts at 0 and takes in the gradients one by one, each with the weight `1 - beta`.

# %% tags=["active-ipynb", "step"]
# def running_mean(gradients: list[float], beta: float) -> float:
#     """The running mean after the last gradient, uncorrected."""
#     ### BEGIN SOLUTION
#     return sum((1 - beta) * beta**age * g for age, g in enumerate(reversed(gradients)))
#     ### END SOLUTION

# %% [markdown] tags=["step-cases"]
# running_mean([1.0, 3.0], 0.9) = 0.39
# running_mean([1.0, 3.0], 0.9) ≠ 2.79: the weights are exchanged; the old mean keeps `beta`
# running_mean([1.0, 3.0], 0.9) ≠ 3.9: gradients in full; a new one has the weight 1 - beta
# running_mean([1.0, 3.0], 0.9) ≠ 1.2: it starts with the first gradient, and not at 0

# %% [markdown] tags=["step"]
# **The correction.** After `t` gradients, how large is the mean if what the start at 0 took away is put right?

# %% tags=["active-ipynb", "step"]
# def corrected(mean: float, beta: float, t: int) -> float:
#     """The mean, divided by the weights that all gradients so far have together."""
#     ### BEGIN SOLUTION
#     return mean / (1 - beta**t)
#     ### END SOLUTION

# %% [markdown] tags=["step-cases"]
# corrected(0.542, 0.9, 3) = 2
# corrected(0.542, 0.9, 3) ≠ 5.42: by 1 - beta, as if it were the first step
# corrected(0.542, 0.9, 3) ≠ 2.85263: one step too few; the first one has t = 1
# corrected(0.542, 0.9, 3) ≠ 1.57604: one step too many; the first one has t = 1
# corrected(0.542, 0.9, 3) ≠ 0.74348: by beta^t, what is left of the start, and not by what is not

# %% [markdown] tags=["step"]
# **Decay and step.** `step` is what Adam adds to a weight. Decay is to pull at the weight as it was before.

# %% tags=["active-ipynb", "step"]
# def updated(weight: float, step: float, lr: float, decay: float) -> float:
#     """The weight after one step."""
#     ### BEGIN SOLUTION
#     return weight * (1 - lr * decay) + step
#     ### END SOLUTION

# %% [markdown] tags=["step-cases"]
# updated(2.0, -0.3, 0.1, 0.5) = 1.6
# updated(2.0, -0.3, 0.1, 0.5) ≠ 1.615: decay after the step shrinks the step too
# updated(2.0, -0.3, 0.1, 0.5) ≠ 0.7: without the learning rate; a weight shrinks by lr * decay of itself
# updated(2.0, -0.3, 0.1, 0.5) ≠ 1.7: no decay
# updated(2.0, -0.3, 0.1, 0.5) ≠ 1.65: the same pull whatever the weight is; it shrinks by a share of itself

# %% [markdown] tags=["experiment"]
# A valley, 1,000 times as steep across as along: who comes near 0, 0? Make both `lr` 0.0021, then 0.2: who breaks out?
# Read on: Kingma, Ba 2014, sections 2 and 3, arXiv:1412.6980; Loshchilov, Hutter 2017, section 2, arXiv:1711.05101.

# %% tags=["active-ipynb", "experiment"]
# steep = torch.tensor([1000.0, 1.0])
# for make, settings in ((torch.optim.SGD, {"lr": 0.0019}), (AdamW, {"lr": 0.02, "weight_decay": 0.0})):
#     optimizer = make([weights := torch.ones(2, requires_grad=True)], **settings)
#     for _ in range(200):
#         weights.grad = steep * weights.detach()
#         optimizer.step()
#     print(f"{make.__name__}: {weights.tolist()}")


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
            lr, (beta1, beta2) = group["lr"], group["betas"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                acc = torch.promote_types(p.dtype, torch.float32)
                grad, state = p.grad.to(acc), self.state[p]
                if not state:
                    state["step"] = 0
                    state["exp_avg"] = torch.zeros_like(p, dtype=acc)
                    state["exp_avg_sq"] = torch.zeros_like(p, dtype=acc)
                exp_avg, exp_avg_sq = state["exp_avg"], state["exp_avg_sq"]
                state["step"] += 1
                correction1 = 1 - beta1 ** state["step"]
                correction2 = 1 - beta2 ** state["step"]
                exp_avg.lerp_(grad, 1 - beta1)
                exp_avg_sq.mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
                denom = (exp_avg_sq / correction2).sqrt_().add_(group["eps"])
                new = p.to(acc)  # p itself, unless it is half precision
                new.mul_(1 - lr * group["weight_decay"])
                new.addcdiv_(exp_avg, denom, value=-lr / correction1)
                p.copy_(new)
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
# **Why float32 moments.** In bfloat16, with 8 bits, a change of a thousandth is rounded away: with $\beta_2 = 0.999$ a
# $v$ that is too large never shrinks. float16 loses $g^2$ below $3 \cdot 10^{-8}$, gradients of $1.7 \cdot 10^{-4}$.
#
# **What it costs.** $8 P$ bytes of state in float32 for $P$ parameters; with weights and gradients $16 P$, 112 GB for 7
# billion, before any activation. A step is memory-bound, at about half a FLOP a byte: reading $p, g, m, v$ and writing
# $p, m, v$ once is 28 bytes a parameter, 59 ms on an H100 for 7 billion. The eight kernels above move 80. Each works in
# place, and the one temporary of a parameter's size is `denom`; half precision adds a float32 gradient and tensor.
#
# ## The other formulation: foreach
#
# Collect the tensors of a group that are at the same step, and start one kernel for all of them:
# `torch._foreach_lerp_(exp_avgs, grads, 1 - beta1)`, `torch._foreach_mul_(exp_avg_sqs, beta2)`,
# `torch._foreach_addcmul_(...)` and so on. Many small tensors are launch-bound, and this is PyTorch's default on a GPU;
# temporaries then have the size of the whole model. `fused=True` is one kernel that reads everything once.
#
# **Another school**, the original Adam and CS336's: with $\alpha_t = \eta \sqrt{1 - \beta_2^t} / (1 - \beta_1^t)$, step
# by $\alpha_t\, m / (\sqrt v + \epsilon)$ and decay afterwards. Then $\epsilon$ weighs 32 times as much in the first
# step, $1 / \sqrt{1 - \beta_2}$, and the update decays too: by $\eta\lambda$, which is next to nothing.
#
# ## The usual mistakes
#
# - `grad = grad + weight_decay * p`: that is Adam with L2.
# - One counter for all tensors: what had no gradient at first is then not corrected.
# - `eps` under the root: $\sqrt{10^{-8}} = 10^{-4}$, ten thousand times as much.
# - `p = p - ...`, which gives the name to another tensor and leaves the parameter alone.
# - `load_state_dict` of the base class casts the state to the dtype of the parameter: float32 moments of bfloat16
#   tensors need a version of their own.

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
# ### Without the bias correction, how many times as long is the first step, with betas of `beta1` and `beta2`?
#
# - Corrected, $m$ and $v$ are $g$ and $g^2$, so each entry moves by $\eta$ in the direction of the sign. Signs of one
#   batch are mostly noise: hence the warmup.
# - Uncorrected they are $(1 - \beta_1) g$ and $(1 - \beta_2) g^2$, and the second is under a root.
#
# Answer: `(1 - beta1) / sqrt(1 - beta2)` times, within 5 %. Settings: `beta1` 0.8, 0.9; `beta2` 0.95, 0.999.
#
# Source: Kingma, Ba 2014, section 3, arXiv:1412.6980.
#
# ### How many GB does each of `gpus` GPUs hold under ZeRO-1, for `billions` billion parameters in mixed precision?
#
# - 2 bytes for the weight, 2 for the gradient, and 12 of float32: a copy of the weight, $m$ and $v$.
# - ZeRO-1 shards the 12 over the data-parallel ranks. ZeRO-2 shards gradients too, ZeRO-3 and FSDP all 16.
# - On one GPU 7 billion parameters take 112 GB, more than an H100 has, and on each of 64 GPUs 29 GB.
#
# Answer: `(4 + 12 / gpus) * billions` GB, within 5 %. Settings: `gpus` 1, 8, 64; `billions` 7, 13, 70.
#
# Source: Rajbhandari et al. 2019, section 5, arXiv:1910.02054.
#
# ### Which parameters get no weight decay?
#
# - Usually norms and biases, often embeddings too: pulling a gain to 0 is not what is meant.
# - Two groups do it: matrices with decay, all of one dimension without.
#
# Source: Karpathy, nanoGPT, https://github.com/karpathy/nanoGPT.
