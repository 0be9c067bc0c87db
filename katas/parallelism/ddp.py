# %% [markdown]
# # Data parallel gradients
#
# $$g = \frac{\sum_r n_r\, g_r}{\sum_r n_r}$$
#
# In data parallel training every rank has the whole model and a batch of its own. After the backward `.grad` holds
# $g_r$, the gradient of the **mean** loss over the rank's own $n_r$ tokens.
#
# **Write** `average_gradients(params, group, num_tokens, bucket_size=1_000_000)`, which every rank calls. It leaves in
# every `.grad` the gradient $g$ of the mean over the tokens of **all** ranks.
#
# Gradients are joined into buckets of at most `bucket_size` numbers, with one `group.all_reduce` a bucket. That returns
# the sum over ranks, and waits for all of them: all must make the same calls in the same order.
#
# **Example.** Two ranks with 1 and 3 tokens and gradients 4 and 8: $(1 \cdot 4 + 3 \cdot 8) / 4 = 7$ on both, not 6.
#
# **Builds on** gradients. **Sources:** Li et al. 2020: PyTorch distributed, experiences on accelerating data parallel
# training, [arXiv:2006.15704](https://arxiv.org/abs/2006.15704).
#
# House rules hold: docs/house_rules.md.

# %% [markdown] tags=["contract"]
# <details><summary>Contract: Buckets, Missing gradients, Empty rank, Half precision, Same bits, Parameters</summary>
#
# - **Buckets.** At most `2 * N / bucket_size + 3` calls for N numbers in all, that for the counts among them. No call
#   is larger than `bucket_size`, or than the largest gradient, but for a count after it. Each gradient is sent once,
#   nothing else is.
# - **Missing gradients.** `.grad` None on this rank counts as zeros, and is filled. It is not None on every rank.
# - **Empty rank.** With `num_tokens` 0 a rank takes part in all calls and adds nothing, whatever its gradients hold:
#   a mean over nothing is nan. Some rank has tokens.
# - **Half precision.** Gradients keep their dtype, and may be summed in it. Counts up to 100,000 neither overflow
#   float16 nor are rounded in it.
# - **Same bits.** All ranks end with the same gradients, bit for bit.
# - **Parameters.** They stay as they are, and have one dtype. `.grad` may be replaced or written in place; `params` may
#   be a generator.
#
# </details>

# %%
from collections.abc import Iterable
from typing import Protocol

import torch
from torch import Tensor, nn


# %%
class Group(Protocol):
    """What a rank knows of the others."""

    rank: int
    size: int

    def all_reduce(self, x: Tensor) -> Tensor:
        """The sum over ranks, once all have made this call; x stays as it is, and autograd does not pass."""


# %%
def average_gradients(
    params: Iterable[nn.Parameter], group: Group, num_tokens: int, bucket_size: int = 1_000_000
) -> None:
    """Make each .grad, of a mean over this rank's num_tokens, that of the mean over the tokens of all ranks.

    It is called on every rank, with the same parameters; bucket_size is in numbers.
    """
    raise NotImplementedError


# %% tags=["active-ipynb"]
# import sys
#
# sys.path.append("../..")  # the project
# from dojo import check
#
# check("ddp")
