# %% [markdown]
# # Linear cross-entropy in chunks
#
# $$\ell = \frac{1}{N} \sum_i \Big(\ln \sum_v e^{z_{iv}} - z_{i t_i}\Big), \qquad z = h\, W^\top, \qquad
# \frac{\partial \ell}{\partial z_i} = \frac{\mathrm{softmax}(z_i) - \mathrm{onehot}(t_i)}{N}$$
#
# With a large vocabulary the logits $z$ and their gradient are the largest tensors of a training step, and nobody needs
# them but the loss.
#
# **Write** `linear_cross_entropy(hidden, weight, targets, ignore_index=-100, chunk_size=1024)`: the mean cross-entropy
# of `hidden @ weight.T` without ever holding all logits. `hidden` is `(..., dim)`, `weight` `(vocab, dim)`, `targets`
# `(...)`; the mean is over tokens whose target is not `ignore_index`.
#
# Take `chunk_size` tokens at a time, in the backward as well: make each chunk's gradients at once, in an
# `autograd.Function`, or recompute its logits (`torch.utils.checkpoint` without reentrance and `F.cross_entropy` are
# allowed).
#
# Not allowed: `F.linear_cross_entropy`, `nn.LinearCrossEntropyLoss`.
#
# **Example.** 8,192 tokens, vocab 128,256, float32: all logits are 4.2 GB, and as much again for their gradient. A
# chunk of 1,024 is 0.5 GB.
#
# **Builds on** cross_entropy. **Sources:** Wijmans et al. 2024: Cut your losses in large-vocabulary language models,
# [arXiv:2411.09009](https://arxiv.org/abs/2411.09009); Hsu et al. 2024: Liger Kernel,
# [arXiv:2410.10989](https://arxiv.org/abs/2410.10989).
#
# House rules hold: docs/house_rules.md.

# %% [markdown] tags=["contract"]
# <details><summary>Contract: Chunks, Mean, Upstream gradient, Memory, Half precision</summary>
#
# - **Chunks.** Any `chunk_size` from 1 on gives the same, also if it does not divide the number of tokens, or exceeds
#   it.
# - **Mean.** Divided by all kept tokens, not chunk by chunk. A chunk may have none kept; at least one token is kept.
# - **Upstream gradient.** The loss may be scaled before `.backward()`. Either of `hidden` and `weight` may need no
#   gradient. No second derivatives.
# - **Memory.** Peak of forward plus backward: logits of one chunk, a few times over, plus the inputs' gradients.
# - **Half precision.** Softmax and sums in float32, sums of `weight`'s gradient over chunks too. Logits may be rounded.
#
# </details>

# %%
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor


# %%
def linear_cross_entropy(
    hidden: Float[Tensor, "*batch dim"],
    weight: Float[Tensor, "vocab dim"],
    targets: Int[Tensor, "*batch"],
    ignore_index: int = -100,
    chunk_size: int = 1024,
) -> Float[Tensor, ""]:
    """The mean cross-entropy of hidden @ weight.T over the kept tokens, chunk_size tokens at a time.

    Softmax and sums are float32. Wijmans et al. 2024, arXiv:2411.09009.
    """
    raise NotImplementedError


# %% tags=["active-ipynb"]
# import sys
#
# sys.path.append("../..")  # the project
# from dojo import check
#
# check("linear_cross_entropy")
