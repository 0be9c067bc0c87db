# ---
# jupyter:
#   dojo:
#     title: Clipping and accumulating gradients
#     level: 2
#     minutes: 15
#     builds_on: []
#     sources:
#       - "Pascanu, Mikolov, Bengio 2012: On the difficulty of training recurrent neural networks, arXiv:1211.5063"
# ---

# %% [markdown]
# # Clipping and accumulating gradients
#
# $$\hat g = g \cdot \min\!\Big(1,\ \frac{c}{\lVert g \rVert + \epsilon}\Big), \qquad
# \lVert g \rVert = \sqrt{\textstyle\sum_k \lVert g_k \rVert^2}, \qquad
# \bar g = \sum_i \frac{n_i}{\sum_j n_j}\, g^{(i)}$$
#
# Two steps between `backward` and the optimizer. Clipping keeps one bad batch from ruining a run: all gradients
# together are one vector, shortened to the length $c$. Accumulating makes one large batch of several microbatches, each
# with its own number of tokens $n_i$.
#
# **Write** `clip_by_global_norm(grads, max_norm, eps=1e-6)`, which gives `(clipped, norm)`: a list, and the norm before
# clipping, a tensor without dimensions. `grads` is a list of tensors of any shapes.
#
# **Write** `accumulate_gradients(grads, counts)`. `grads[i]` is the list of gradients of a *mean* over the `counts[i]`
# tokens of microbatch $i$; the result is the list for the mean over all tokens.
#
# Not allowed: `nn.utils.clip_grad_norm_` and its kin, `nn.utils.get_total_norm`.
#
# **Example.** The gradients $(3, 0)$ and $(4)$ have the norm $\sqrt{9 + 16} = 5$. With `max_norm=1` and `eps=0` they
# become $(0.6, 0)$ and $(0.8)$. Means of 2 over one token and of 8 over three tokens are a mean of
# $(1 \cdot 2 + 3 \cdot 8) / 4 = 6.5$ over all four, not 5.

# %% [markdown] tags=["contract"]
# - **In place.** `clipped` holds the tensors that came, scaled in place, or new ones: both are right. Neither function
#   needs to be differentiable.
# - **Unclipped.** A norm below `max_norm` leaves gradients as they are, bit for bit.
# - **None.** A parameter without a gradient: None stays None in `clipped`. In some microbatches it counts as zero, in
#   all of them it stays None.
# - **Half precision.** Squares, and sums over microbatches, are float32. The norm stays float32 (float64 beside
#   float64), each gradient keeps its dtype and is rounded once.
# - **No tokens.** A microbatch of count 0 takes no part, even if it holds nan. Where all counts are 0 the result is
#   zeros.
# - **Errors.** `counts` and `grads` of different lengths.

# %% tags=["active-ipynb", "example"]
# # The example, in numbers
# import torch
#
# grads = [torch.tensor([3.0, 0.0]), torch.tensor([4.0])]
# norm = sum(g.square().sum() for g in grads).sqrt()
# print("norm", norm, "clipped to 1:", [(g / norm).tolist() for g in grads])
# print("mean over all tokens", (1 * 2 + 3 * 8) / (1 + 3), "mean of the means", (2 + 8) / 2)

# %% [markdown] tags=["hint"]
# The norm of a long vector follows from the norms of its parts. Which operation on them?

# %% [markdown] tags=["hint"]
# A mean over $n_i$ tokens is a sum divided by $n_i$. Get the sums back, add them up, and divide once.

# %% [markdown] tags=["hint"]
# `(max_norm / (norm + eps)).clamp(max=1.0)` is exactly 1 where nothing is to be clipped, and a product with 1 changes
# no bit. `result.add_(part, alpha=count / total)` adds a part to a float32 buffer. Skip counts of 0: `0 * nan` is nan.

# %%
import torch
from jaxtyping import Float
from torch import Tensor


# %%
def clip_by_global_norm(
    grads: list[Float[Tensor, "..."] | None], max_norm: float, eps: float = 1e-6
) -> tuple[list[Float[Tensor, "..."] | None], Float[Tensor, ""]]:
    """The gradients, shortened together to a norm of at most max_norm, and their norm before that.

    The norm is float32, float64 if one of them is; each gradient keeps its dtype, and None stays None.
    """
    ### BEGIN SOLUTION
    there = [grad for grad in grads if grad is not None]
    norms = [torch.linalg.vector_norm(grad, dtype=torch.promote_types(grad.dtype, torch.float32)) for grad in there]
    norm = torch.linalg.vector_norm(torch.stack(norms))
    scale = (max_norm / (norm + eps)).clamp(max=1.0)
    for grad in there:
        grad.mul_(scale)
    return grads, norm
    ### END SOLUTION


def accumulate_gradients(
    grads: list[list[Float[Tensor, "..."] | None]], counts: list[int]
) -> list[Float[Tensor, "..."] | None]:
    """The gradients of the mean over all tokens, from those of the means over each microbatch's counts[i] tokens.

    Raises:
        ValueError: there are not as many counts as microbatches.
    """
    ### BEGIN SOLUTION
    if len(counts) != len(grads):
        raise ValueError(f"{len(counts)} counts for {len(grads)} microbatches")
    total = max(1, sum(counts))
    return [mean(parts, counts, total) for parts in zip(*grads, strict=True)]
    ### END SOLUTION


# %%
### BEGIN SOLUTION
def mean(parts: tuple[Tensor | None, ...], counts: list[int], total: int) -> Tensor | None:
    """One gradient of the mean over all tokens."""
    there = [(part, count) for part, count in zip(parts, counts, strict=True) if part is not None]
    if not there:
        return None
    first = there[0][0]
    result = torch.zeros_like(first, dtype=torch.promote_types(first.dtype, torch.float32))
    for part, count in there:
        if count > 0:
            result.add_(part, alpha=count / total)
    return result.to(first.dtype)


### END SOLUTION


# %% [markdown] tags=["solution"]
# ## Why it is done this way
#
# One factor for all gradients keeps their direction; clipping each tensor alone, or each entry, changes it. The factor
# is exactly 1 where nothing is to be clipped. It stays on the device: `if norm > max_norm` is right as well, and makes
# the CPU wait for the GPU in each step. Where the norm lies within `eps` below `max_norm` the two differ by next to
# nothing. The norm is logged before clipping: its spikes are the first sign of an unstable run.
#
# A mean of means is right only if all microbatches have as many tokens. With padding, or packed answers of different
# lengths, they have not; weighting by $n_i$ makes accumulation give what one large batch gives.
#
# **What it costs.** Memory-bound: in bfloat16 the norm reads 2 bytes a parameter, scaling reads and writes 4. For 7
# billion that is 42 GB, 13 ms on an H100. In place there is no other tensor; new ones would be 14 GB more. Accumulation
# needs the activations of one microbatch and one buffer of gradients, which in float32 is 28 GB.
#
# ## The other formulation: the loop
#
# In a training loop `.grad` is the buffer and the loss is weighted, so the total is counted before the first forward:
#
# ```python
# total = sum(counts)  # all-reduced over the data-parallel ranks
# for batch, count in zip(microbatches, counts):
#     (mean_loss(model, batch) * count / total).backward()
# optimizer.step()
# ```
#
# `loss / len(microbatches)` there is the mean of means. Parameters in bfloat16 then accumulate in bfloat16, and so
# Megatron keeps gradients in float32. Many small tensors are launch-bound: `torch._foreach_norm`,
# `torch._foreach_mul_` and `torch._foreach_add_` start one kernel for all of them.
#
# ## The usual mistakes
#
# - Clipping between two `backward` calls of the same step: the norm is then that of a part.
# - Clipping scaled gradients of mixed precision: they are to be unscaled before.
# - Averaging over microbatches with different numbers of tokens.
# - Squares in float16: entries of 300 give inf, the factor is 0, and the step does nothing.
# - Returning the norm after clipping, which is never above `max_norm` and shows nothing.

# %% [markdown] tags=["solution", "questions"]
# ## What interviewers ask next
#
# ### Why clip by the global norm and not each tensor?
#
# - One factor keeps the direction of the step; a factor for each tensor changes it.
# - A layer with small gradients would else be treated like one with large ones.
#
# Source: Pascanu, Mikolov, Bengio 2012, arXiv:1211.5063.
#
# ### Gradients with norms of `a`, 4 and 12 are clipped to a global norm of `c`. By what are they multiplied?
#
# - Squares add up, norms do not: 3, 4 and 12 make $\sqrt{9 + 16 + 144} = 13$.
# - All by the same factor, the one of norm 4 too.
#
# Answer: `c / sqrt(a**2 + 4**2 + 12**2)`, within 5 %. Settings: `a` 3, 8, 20; `c` 0.5, 1.
#
# Source: PyTorch, torch.nn.utils.clip_grad_norm_,
# https://docs.pytorch.org/docs/stable/generated/torch.nn.utils.clip_grad_norm_.html.
#
# ### Microbatches of `short` and `long` tokens: in a mean of means, a token of the first weighs how many times its due?
#
# - It weighs $1 / (2 \cdot \text{short})$, and its due is 1 in all tokens.
# - So short answers are favored. Trainers divided by the number of microbatches for years, until somebody noticed that
#   the losses of accumulated and of large batches differ.
#
# Answer: `(short + long) / (2 * short)` times, within 5 %. Settings: `short` 50, 200; `long` 1000, 4000.
#
# Source: Hugging Face, fixing gradient accumulation, https://huggingface.co/blog/gradient_accumulation.
#
# ### Where does clipping stand in a training step?
#
# - After all microbatches have been added up and, with a loss scale, after unscaling; before the optimizer's step.
# - Once a step: the norm of a part says nothing about the whole.
#
# Source: PyTorch, automatic mixed precision examples, https://docs.pytorch.org/docs/stable/notes/amp_examples.html.
#
# ### How is the global norm found when parameters are sharded over GPUs?
#
# - Each rank sums the squares of its own shard; an all-reduce of one number adds them, then the root is taken.
# - Replicated parameters must be counted once.
#
# Source: PyTorch, FullyShardedDataParallel.clip_grad_norm_, https://docs.pytorch.org/docs/stable/fsdp.html.
