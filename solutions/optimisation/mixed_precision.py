# ---
# jupyter:
#   dojo:
#     title: Mixed precision
#     level: 3
#     minutes: 20
#     builds_on: [gradients, adamw]
#     sources:
#       - "Micikevicius et al. 2017: Mixed precision training, arXiv:1710.03740"
# ---

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

# %% [markdown] tags=["contract"]
# - **Skip.** One inf or nan, in any parameter of any group: neither parameters nor the optimizer's state change. There
#   is no weight decay, and AdamW counts no step.
# - **Clip.** The norm is that of the true gradients: they are unscaled first, and only once a step.
# - **Growth.** Skips and growth start the count anew. `growth_interval` 1 works.
# - **No gradient.** A `.grad` of None stays None.
# - **Iterations.** After `update()` nothing of the last step is remembered but scale and count.
# - **Waits.** How often the CPU waits for the device does not grow with the number of parameters.

# %% [markdown] tags=["hint"]
# What must be remembered from `unscale_` to `update()`, and what from one step to the next?

# %% [markdown] tags=["hint"]
# Three states lie between two updates: not unscaled yet, all finite, not all finite. `step` and `update()` both ask for
# them, and `update()` goes back to the first.

# %% [markdown] tags=["hint"]
# `nn.utils.get_total_norm(grads).isfinite()` is one tensor for all gradients: inf and nan pass through a norm. Ask for
# its `bool` in `step`, once. `nn.utils.clip_grad_norm_` clips, between `unscale_` and `step`.

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
        ### BEGIN SOLUTION
        self._scale = init_scale
        self.growth_factor = growth_factor
        self.backoff_factor = backoff_factor
        self.growth_interval = growth_interval
        self.good_steps = 0  # in a row
        self.finite: Tensor | bool | None = None  # of this step's gradients; None until they are unscaled
        ### END SOLUTION

    def get_scale(self) -> float:
        """What the next loss is multiplied by."""
        ### BEGIN SOLUTION
        return self._scale
        ### END SOLUTION

    def scale(self, loss: Float[Tensor, ""]) -> Float[Tensor, ""]:
        """The loss times the scale, to go backward from."""
        ### BEGIN SOLUTION
        return loss * self._scale
        ### END SOLUTION

    @torch.no_grad()
    def unscale_(self, optimizer: torch.optim.Optimizer) -> None:
        """Divide the gradients of the optimizer's parameters by the scale, and note whether all are finite."""
        ### BEGIN SOLUTION
        params = [p for group in optimizer.param_groups for p in group["params"]]
        grads = [p.grad for p in params if p.grad is not None]
        torch._foreach_mul_(grads, 1 / self._scale)
        self.finite = nn.utils.get_total_norm(grads).isfinite()
        ### END SOLUTION

    def step(self, optimizer: torch.optim.Optimizer) -> None:
        """The optimizer's step on true gradients; none where one of them is not finite."""
        ### BEGIN SOLUTION
        if self.finite is None:
            self.unscale_(optimizer)
        self.finite = bool(self.finite)  # the only wait for the device
        if self.finite:
            optimizer.step()
        ### END SOLUTION

    def update(self) -> None:
        """Shrink the scale after a skipped step, and grow it after growth_interval good steps in a row."""
        ### BEGIN SOLUTION
        self.good_steps = self.good_steps + 1 if self.finite else 0
        if not self.finite:
            self._scale *= self.backoff_factor
        elif self.good_steps == self.growth_interval:
            self._scale, self.good_steps = self._scale * self.growth_factor, 0
        self.finite = None
        ### END SOLUTION


# %%
def train_step(loss: Float[Tensor, ""], optimizer: torch.optim.Optimizer, scaler: LossScaler, max_norm: float) -> None:
    """One step of training: backward, clipping of the true gradients, step, update. Gradients are cleared."""
    ### BEGIN SOLUTION
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_([p for group in optimizer.param_groups for p in group["params"]], max_norm)
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()
    ### END SOLUTION


# %% [markdown] tags=["solution"]
# ## Why it is done this way
#
# The smallest float16 numbers are $2^{-14}$ (normal) and $2^{-24}$, or 6.1e-5 and 6.0e-8; many gradients of activations
# are smaller. The backward is linear: a loss 65,536 times as large makes all of them 65,536 times as large, and those
# from $2^{-40}$, 9.1e-13, on survive. A power of two costs no accuracy.
#
# The largest float16 number is 65,504. Nobody knows the best scale, and it moves as training goes on, so it is tried:
# up after 2,000 good steps, down at an overflow. Once it hovers at the limit, a step in 2,000 is lost. That the first
# steps of a run are skipped is no error.
#
# **What it costs.** Memory-bound: unscaling reads and writes 4 bytes a parameter, the norm reads 4 more. For 7 billion
# parameters that is 84 GB, 25 ms on an H100; PyTorch's kernel does both in one pass, 56 GB and 17 ms. The CPU decides
# whether to step, so it waits for the device: once, where `if not grad.isfinite().all()` in a loop waits hundreds of
# times.
#
# A norm says all: one inf or nan makes it inf or nan. Its squares overflow float32 from 1.8e19 on, and whoever has such
# gradients does not want the step either.
#
# ## The other formulation
#
# GradScaler keeps scale and count in tensors and updates them on the device; `optimizer.step(found_inf=...)` of fused
# optimizers then skips without any wait. Apex and fairseq leave gradients scaled, and hand the factor
# $1 / s \cdot \min(1, c / \lVert g \rVert)$ to the optimizer: one pass less.
#
# ## The usual mistakes
#
# - Clipping before unscaling: every gradient of norm above `max_norm / scale` is clipped, and learning nearly stops.
# - Gradients set to 0 in place of a skipped step: AdamW decays weights and moves along old moments.
# - nan alone, or inf alone, looked for: $\infty - \infty$ is nan, and most overflows never meet their opposite.
# - A count of good steps that a skip leaves as it is: the scale grows right after it shrank.

# %% [markdown] tags=["solution", "questions"]
# ## What interviewers ask next
#
# ### 2 to which power is the smallest gradient that float16 still holds under a loss scale of `scale`?
#
# - The smallest float16 number is $2^{-24}$, about 6e-8; below $2^{-14}$, 6e-5, it loses a bit with each halving.
# - Under a scale of 65,536 = $2^{16}$ that is a gradient of $2^{-40}$, about 9e-13.
#
# Answer: `-24 - log2(scale)`, within 3 %. Settings: `scale` 1024, 65536, 1048576.
#
# Source: Micikevicius et al. 2017, section 3.2, arXiv:1710.03740.
#
# ### How many GB do `billions` billion parameters take in float16 training with AdamW and float32 master weights?
#
# - 2 + 2 bytes for weights and gradients in float16, 4 for the master weights, 4 + 4 for the two moments: 16.
# - Activations come on top. ZeRO splits the 12 bytes of the optimizer over ranks first, then the gradients, then the
#   weights.
#
# Answer: `16 * billions` GB, within 5 %. Settings: `billions` 1.5, 7, 70.
#
# Source: Rajbhandari et al. 2019, section 3.1, arXiv:1910.02054.
#
# ### Why does bfloat16 need no loss scaling?
#
# - It has the 8 bits of exponent of float32: from 1.2e-38 to 3.4e38, so gradients neither underflow nor overflow.
# - It pays with precision: 8 significant bits where float16 has 11. Sums, norms and weights stay in float32.
# - Float8 brings scales back, one for each tensor or block.
#
# Source: Kalamkar et al. 2019, arXiv:1905.12322.
#
# ### A run skips one step after the other, and the scale falls below 1. What do you look for?
#
# - Not for a better scale: a gradient that overflows at scale 1 is larger than 65,504, or the forward is inf or nan.
# - An overflow in the forward: scores, a norm or a loss computed in float16. Those belong in float32.
# - One bad batch, or a learning rate after which weights are nan. Log scale, norm and loss; stop at a smallest scale.
#
# Source: PyTorch, automatic mixed precision examples, https://docs.pytorch.org/docs/stable/notes/amp_examples.html.
