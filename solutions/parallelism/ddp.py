# ---
# jupyter:
#   dojo:
#     title: Data parallel gradients
#     level: 3
#     minutes: 25
#     builds_on: [gradients]
#     sources:
#       - "Li et al. 2020: PyTorch distributed, experiences on accelerating data parallel training, arXiv:2006.15704"
# ---

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

# %% [markdown] tags=["contract"]
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

# %% [markdown] tags=["hint"]
# A mean over $n_r$ tokens is a sum divided by $n_r$. Every rank knows its own count alone: what must it learn before it
# can weight its gradients?

# %% [markdown] tags=["hint"]
# All-reduce the count first. Then each rank multiplies by $n_r / \sum n$, and the sum over ranks is the answer. Which
# tensors share a bucket may only depend on shapes, which are the same everywhere.

# %% [markdown] tags=["hint"]
# `torch.cat([g.flatten() for g in grads])` makes a bucket, `total.split([p.numel() for p in bucket])` takes it apart.
# Where `.grad` is None, or the rank has no tokens, put `torch.zeros_like(p)`: `0 * nan` is nan.

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
    ### BEGIN SOLUTION
    params = list(params)
    wide = torch.promote_types(params[0].dtype, torch.float32)
    total = group.all_reduce(torch.full((1,), num_tokens, dtype=wide, device=params[0].device))
    weight = num_tokens / total
    for bucket in buckets(params, bucket_size):
        grads = [p.grad if p.grad is not None and num_tokens > 0 else torch.zeros_like(p) for p in bucket]
        flat = torch.cat([grad.flatten() for grad in grads]).mul_(weight)
        mean = group.all_reduce(flat)
        for param, part in zip(bucket, mean.split([p.numel() for p in bucket]), strict=True):
            param.grad = part.view_as(param)
    ### END SOLUTION


# %%
### BEGIN SOLUTION
def buckets(params: list[nn.Parameter], bucket_size: int) -> list[list[nn.Parameter]]:
    """Neighboring parameters with at most bucket_size numbers together; a larger one is a bucket of its own."""
    found, room = [], 0
    for param in params:
        room -= param.numel()
        if room < 0:
            found.append([])
            room = bucket_size - param.numel()
        found[-1].append(param)
    return found


### END SOLUTION


# %% [markdown] tags=["solution"]
# ## Why it is done this way
#
# **Weights.** A plain mean over ranks is right only if all have as many tokens, and with padding or masked prompts they
# have not. Weights before the sum keep all terms below the largest gradient, where $n_r\, g_r$ overflows float16. The
# weight stays on the device.
#
# **Buckets.** A call takes some 30 µs whatever its size: for 300 tensors 9 ms a step. One call for all copies all
# gradients, and cannot begin before the last one is there. `.grad` becomes a view of its bucket
# (`gradient_as_bucket_view=True`), so nothing is copied back.
#
# **Same calls.** Buckets depend on shapes alone, never on which gradients are there. Otherwise one rank waits in a call
# of 12 numbers for another in a call of 8: with NCCL that is a hang.
#
# **What it costs.** A ring all-reduce of $B$ bytes on $R$ ranks sends $2 B\, (R - 1) / R$ bytes a rank. For 7 billion
# parameters in bfloat16 on 64 ranks at 50 GB/s that is 27.6 GB and 551 ms.
#
# ## The other formulation: overlapped with the backward
#
# The last layer's gradient is there first, so PyTorch fills buckets from the back. A hook on the last gradient of each
# (`register_post_accumulate_grad_hook`) starts `all_reduce(..., async_op=True)` while the backward goes on, and all are
# awaited before the optimizer's step. `DistributedDataParallel` divides by the number of ranks: counts are all-reduced
# before, and the loss is scaled by $n_r\, R / \sum n$.
#
# ## The usual mistakes
#
# - The mean over ranks although counts differ.
# - A parameter without a gradient left out on one rank, or a rank without tokens that returns early: the others hang.
# - `0 * nan`: the rank without tokens poisons all.
# - With gradient accumulation, all-reducing after each microbatch and not once a step.

# %% [markdown] tags=["solution", "questions"]
# ## What interviewers ask next
#
# ### Why buckets, and not one call a tensor or one call for all?
#
# - Latency: every call costs tens of microseconds, and small messages do not fill the link.
# - Overlap: a bucket goes out while the backward computes the next. One call for all would start at its end.
#
# Source: Li et al. 2020, section 3.2, arXiv:2006.15704.
#
# ### How many ms does a ring all-reduce of `billions` billion bfloat16 gradients take on `ranks` ranks at 50 GB/s?
#
# - A reduce-scatter and an all-gather, each of $(R - 1) / R$ of all bytes.
# - It hardly depends on the number of ranks; latency does, as $2 (R - 1)$ steps.
#
# Answer: `2 * 2 * billions * (ranks - 1) / ranks / 50 * 1000` ms, within 5 %. Settings: `billions` 1, 7; `ranks` 4, 64.
#
# Source: Patarasuk, Yuan 2009, bandwidth optimal all-reduce algorithms, https://doi.org/10.1016/j.jpdc.2008.09.002.
#
# ### One of 8 ranks has `short` tokens, the others `long`. What does a mean over ranks multiply its weight by?
#
# - Each of its tokens weighs $1 / (8 \cdot \text{short})$, and its due is one part in all tokens.
# - In fine-tuning with masked prompts ranks differ by that much in every step.
#
# Answer: `(short + 7 * long) / (8 * short)` times, within 5 %. Settings: `short` 16, 128; `long` 1024, 4096.
#
# Source: Hugging Face, fixing gradient accumulation, https://huggingface.co/blog/gradient_accumulation.
#
# ### Why are buckets filled from the last layer, and what if a layer gets no gradient?
#
# - The backward ends with the first layer: buckets from the back are full first.
# - A bucket that waits for a gradient which never comes is never sent. `find_unused_parameters=True` walks the graph
#   after each forward to find them.
#
# Source: Li et al. 2020, section 4.2, arXiv:2006.15704.
