# %% [markdown]
# # Mixed precision
#
# $$\nabla L = \frac{1}{s}\, \nabla (s L), \qquad
# s \leftarrow \begin{cases} b\, s & \text{a gradient was inf or nan} \\ g\, s & \text{after } n \text{ good steps} \\
# s & \text{otherwise} \end{cases}$$
#
# Small gradients underflow to 0 in a float16 backward. Dynamic loss scaling keeps them: the loss is multiplied by $s$,
# the float32 gradients of the parameters are divided by it, and a step that overflowed is skipped.
#
# **Write** `LossScaler(init_scale=65536.0, growth_factor=2.0, backoff_factor=0.5, growth_interval=2000)` with
#
# - `scale(loss)`: the float32 loss times the scale; `get_scale()`: a float;
# - `unscale_(optimizer)`: divides the gradients of its parameters by the scale, and notes whether all are finite;
# - `step(optimizer)`: unscales unless that was done, and calls `optimizer.step()` if all are finite;
# - `update()`: changes the scale, once a step.
#
# **Write** `train_step(loss, optimizer, scaler, max_norm)`: backward, clipping by global norm, step, update, gradients
# cleared.
#
# Not allowed: `torch.amp.GradScaler`.
#
# **Example.** Scale 8 and `growth_interval` 2. After a good step, a good one, one with inf and a good one the scale is
# 8, 16, 8, 8.
#
# **Builds on** gradients, adamw. **Sources:** Micikevicius et al. 2017: Mixed precision training,
# [arXiv:1710.03740](https://arxiv.org/abs/1710.03740).
#
# House rules hold: docs/house_rules.md.

# %% [markdown] tags=["contract"]
# <details><summary>Contract: Skip, Clip, Growth, No gradient, Iterations, Waits</summary>
#
# - **Skip.** One inf or nan, in any parameter of any group: neither parameters nor the optimizer's state change. There
#   is no weight decay, and AdamW counts no step.
# - **Clip.** The norm is that of the true gradients: they are unscaled first, and only once a step.
# - **Growth.** Skips and growth start the count anew. `growth_interval` 1 works.
# - **No gradient.** A `.grad` of None stays None.
# - **Iterations.** After `update()` nothing of the last step is remembered but scale and count.
# - **Waits.** How often the CPU waits for the device does not grow with the number of parameters.
#
# </details>

# %%
import torch
from jaxtyping import Float
from torch import Tensor, nn


# %%
class LossScaler:
    """Dynamic loss scaling for one optimizer whose parameters are float32: Micikevicius et al. 2017, arXiv:1710.03740.

    In each iteration: `scale(loss).backward()`, `unscale_` where gradients are looked at, `step`, `update`.
    """

    def __init__(
        self,
        init_scale: float = 65536.0,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
    ):
        raise NotImplementedError

    def get_scale(self) -> float:
        """What the next loss is multiplied by."""
        raise NotImplementedError

    def scale(self, loss: Float[Tensor, ""]) -> Float[Tensor, ""]:
        """The loss times the scale, to go backward from."""
        raise NotImplementedError

    @torch.no_grad()
    def unscale_(self, optimizer: torch.optim.Optimizer) -> None:
        """Divide the gradients of the optimizer's parameters by the scale, and note whether all are finite."""
        raise NotImplementedError

    def step(self, optimizer: torch.optim.Optimizer) -> None:
        """The optimizer's step on true gradients; none where one of them is not finite."""
        raise NotImplementedError

    def update(self) -> None:
        """Shrink the scale after a skipped step, and grow it after growth_interval good steps in a row."""
        raise NotImplementedError


# %%
def train_step(loss: Float[Tensor, ""], optimizer: torch.optim.Optimizer, scaler: LossScaler, max_norm: float) -> None:
    """One step of training: backward, clipping of the true gradients, step, update. Gradients are cleared."""
    raise NotImplementedError


# %% tags=["active-ipynb"]
# import sys
#
# sys.path.append("../..")  # the project
# from dojo import check
#
# check("mixed_precision")
