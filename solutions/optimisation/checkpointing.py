# ---
# jupyter:
#   dojo:
#     title: Gradient checkpointing
#     level: 4
#     minutes: 30
#     builds_on: []
#     sources:
#       - "Chen et al. 2016: Training deep nets with sublinear memory cost, arXiv:1604.06174"
# ---

# %% [markdown]
# # Gradient checkpointing
#
# $$y = f(x), \qquad
# \bar x = \bar y\, \frac{\partial f}{\partial x}, \qquad \bar\theta = \bar y\, \frac{\partial f}{\partial \theta}
# \qquad \text{from a second run of } f \text{ in the backward}$$
#
# A backward needs the activations of its forward, and they fill a GPU long before the weights do. Checkpointing keeps
# the input of a block instead, and computes the activations anew when the backward gets there.
#
# **Write** `checkpoint(function, *inputs)`. It returns `function(*inputs)`, one tensor. After `.backward()` the inputs
# and the parameters that `function` uses have the same `.grad` as without it. Between forward and backward nothing of
# `function` is kept but inputs and result: it runs once more during the backward.
#
# `loss = checkpoint(block2, checkpoint(block1, x)).sum(); loss.backward()`
#
# Not allowed: `torch.utils.checkpoint`.
#
# **Example.** 24 blocks that keep 34 MB each hold 816 MB. Checkpointed they hold 24 inputs, and 34 MB for a moment.

# %% [markdown] tags=["contract"]
# - **Random numbers.** They are replayed: a dropout in `function` has the same mask in both runs. After the backward
#   the CPU's generator stands where it would without checkpointing, also if others drew in between.
# - **Inputs.** What is no tensor, or needs no gradient, is passed through. At least one input takes gradients.
# - **Upstream gradient.** The result may be used in any further computation.
# - **Runs.** `function` runs once forward and once backward; in no-grad mode once.
# - **Nesting.** A checkpointed function may call `checkpoint`.
# - **Memory.** What is alive between forward and backward does not grow with the depth of `function`.

# %% [markdown] tags=["hint"]
# Which object of PyTorch lets you say yourself what is kept in the forward, and what happens in the backward? What has
# to be off in the first run, and on in the second?

# %% [markdown] tags=["hint"]
# A `torch.autograd.Function` runs its `forward` without a graph. In its `backward` detach the inputs, run `function` on
# them with a graph, and go backward from there with the gradient that came. Parameters then get their `.grad` by
# themselves.

# %% [markdown] tags=["hint"]
# `torch.get_rng_state()` before the first run; `with torch.random.fork_rng(devices=[])` and `torch.set_rng_state(...)`
# around the second. Then `torch.autograd.backward(result, grad)`, and return the `.grad` of the detached inputs.

# %%
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor


# %%
### BEGIN SOLUTION
class Checkpoint(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, function: Callable[..., Tensor], *inputs: Any) -> Tensor:
        ctx.function = function
        ctx.rng_state = torch.get_rng_state()
        ctx.others = [None if isinstance(x, Tensor) else x for x in inputs]
        ctx.save_for_backward(*(x if isinstance(x, Tensor) else None for x in inputs))
        return function(*inputs)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        inputs = [
            other if x is None else x.detach().requires_grad_(x.requires_grad)
            for x, other in zip(ctx.saved_tensors, ctx.others, strict=True)
        ]
        with torch.random.fork_rng(devices=[]), torch.enable_grad():
            torch.set_rng_state(ctx.rng_state)
            result = ctx.function(*inputs)
        torch.autograd.backward(result, grad)
        return None, *(x.grad if isinstance(x, Tensor) else None for x in inputs)


### END SOLUTION


# %%
def checkpoint(function: Callable[..., Tensor], *inputs: Any) -> Tensor:
    """function(*inputs), whose activations are computed again in the backward: Chen et al. 2016, arXiv:1604.06174.

    Random numbers of the CPU's generator are replayed. Gradients are those of `.backward()`.
    """
    ### BEGIN SOLUTION
    return Checkpoint.apply(function, *inputs)
    ### END SOLUTION


# %% [markdown] tags=["solution"]
# ## Why it is done this way
#
# `forward` of an `autograd.Function` runs in no-grad mode, so the first run leaves no graph. Autograd knows nothing of
# the parameters inside of `function`: it only sees the inputs, and without one that takes gradients the backward is
# never called. In the second run they are leaves of a small graph, and `torch.autograd.backward` adds to their `.grad`.
# Inputs are detached first, or it would walk on into the graph before them, a second time.
#
# Without the random state the second run drops other units than the first: the gradient is then that of another
# function, and nothing shows it but a loss that falls more slowly. `fork_rng` puts the generator back afterwards.
#
# **What it costs.** One more forward: 8 N D FLOPs a step instead of 6 N D, a third more, of which MFU counts 6 as
# before. What it saves: a layer of width 4,096 keeps about 34 s d bytes in bfloat16, 1.14 GB at 8,192 tokens; its input
# is 67 MB. With all 32 layers checkpointed, 36.5 GB become 2.1 GB, and 1.1 GB for the layer in work.
#
# With segments of $k$ of $n$ layers, $n / k$ inputs live all the time, and $k$ layers while a segment is in work:
# $k = \sqrt n$ balances the two.
#
# ## The other formulation
#
# `torch.autograd.graph.saved_tensors_hooks(pack, unpack)` around the call: `pack` keeps a number in place of each saved
# tensor, the first `unpack` runs `function` again and fills them all in. The graph is the usual one, so
# `torch.autograd.grad`, inputs without gradients and results of any form work. It is what `use_reentrant=False` does,
# which PyTorch recommends. A GPU's dropout needs that device's generator, and mixed precision the state of autocast.
#
# ## The usual mistakes
#
# - `torch.autograd.grad(result, inputs, grad)` in the backward: parameters get nothing.
# - The second run without `enable_grad`: a backward is in no-grad mode.
# - A seed set for both runs: every layer and every step then drops the same units.
# - Memory looked for in `nvidia-smi`: it shows what PyTorch reserved. `torch.cuda.max_memory_allocated()` tells.

# %% [markdown] tags=["solution", "questions"]
# ## What interviewers ask next
#
# ### How many GB does a layer keep for its backward: width `width`, `tokens` tokens in bfloat16, attention fused?
#
# - About 34 bytes a token and unit of width: inputs of norms, of projections and of the MLP, its activation, masks of
#   dropout. Scores would add 5 bytes for each head and pair of tokens; a fused kernel recomputes them.
# - At 8,192 tokens and width 4,096 that is 1.14 GB, of which the input is 67 MB.
#
# Answer: `34 * tokens * width / 1e9` GB, within 5 %. Settings: `tokens` 4096, 8192; `width` 4096, 8192.
#
# Source: Korthikanti et al. 2022, section 4.1, arXiv:2205.05198.
#
# ### `layers` layers keep a tensor each and are checkpointed in segments of `every`: how many are alive at the peak?
#
# - One for each segment, and those of the segment that the backward has run again.
# - For 64 layers: 64 without, 64 + 1 with one segment, 16 in segments of 8, the root. Segments within segments bring it
#   down to $\log n$, for $\log n$ forwards.
#
# Answer: `layers / every + every` tensors, within 8 %. Settings: `layers` 64, 96; `every` 2, 8, 16.
#
# Source: Chen et al. 2016, section 4.1, arXiv:1604.06174.
#
# ### What is selective checkpointing?
#
# - Some operations keep their results and some are run again: those that are large and cheap, such as norms, gates and
#   attention's scores. Products of matrices are kept.
# - Most of the memory for a few percent of the FLOPs, where checkpointing everything costs a third.
#
# Source: Korthikanti et al. 2022, section 5, arXiv:2205.05198.
#
# ### A run with checkpointing does not reproduce the loss without it. Where do you look?
#
# - At the first step with dropout off, then on: random numbers of the device, and of other generators.
# - At what changes between two runs: batch statistics updated twice, counters, a cache, autocast off in the second.
# - At inputs that were changed in place after the forward.
#
# Source: PyTorch, torch.utils.checkpoint, https://docs.pytorch.org/docs/stable/checkpoint.html.
