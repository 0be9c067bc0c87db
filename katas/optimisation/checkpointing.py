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
#
# **Sources:** Chen et al. 2016: Training deep nets with sublinear memory cost,
# [arXiv:1604.06174](https://arxiv.org/abs/1604.06174).
#
# House rules hold: docs/house_rules.md.

# %% [markdown] tags=["contract"]
# <details><summary>Contract: Random numbers, Inputs, Upstream gradient, Runs, Nesting, Memory</summary>
#
# - **Random numbers.** They are replayed: a dropout in `function` has the same mask in both runs. After the backward
#   the CPU's generator stands where it would without checkpointing, also if others drew in between.
# - **Inputs.** What is no tensor, or needs no gradient, is passed through. At least one input takes gradients.
# - **Upstream gradient.** The result may be used in any further computation.
# - **Runs.** `function` runs once forward and once backward; in no-grad mode once.
# - **Nesting.** A checkpointed function may call `checkpoint`.
# - **Memory.** What is alive between forward and backward does not grow with the depth of `function`.
#
# </details>

# %%
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor


# %%
def checkpoint(function: Callable[..., Tensor], *inputs: Any) -> Tensor:
    """function(*inputs), whose activations are computed again in the backward: Chen et al. 2016, arXiv:1604.06174.

    Random numbers of the CPU's generator are replayed. Gradients are those of `.backward()`.
    """
    raise NotImplementedError


# %% tags=["active-ipynb"]
# import sys
#
# sys.path.append("../..")  # the project
# from dojo import check
#
# check("checkpointing")
