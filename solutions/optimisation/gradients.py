# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
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
# Two steps between `backward` and the optimiser. Clipping keeps one bad batch from ruining a run: all gradients
# together are one vector, and it is shortened to the length $c$, its direction kept. Accumulating makes one large batch
# of several small ones, the microbatches, each with its own number of tokens $n_i$.
#
# **Write** `clip_by_global_norm(grads, max_norm, eps=1e-6)`, which gives `(clipped, norm)`, and
# `accumulate_gradients(grads, counts)`, which gives a list.
#
# - **`grads` of `clip_by_global_norm`** is a list of tensors of any shapes, with None where a parameter has no
#   gradient. `clipped` is a list of the same length: None stays None, and each tensor keeps its dtype.
# - **`norm`** is the norm of all of them together, before clipping: a tensor of no dimensions, float32, or float64 if
#   one of the gradients is. An empty list has norm 0.
# - **What need not be clipped**, where `norm + eps <= max_norm`, comes back bit for bit. It may be the same tensors.
# - **Squares** are summed in float32 at least: float16 gradients of 300 must not overflow.
# - **`grads` of `accumulate_gradients`** holds a list for each microbatch: the gradients of a *mean* over `counts[i]`
#   tokens. The result is the list of gradients of the mean over all tokens, each in its own dtype: weighted and summed
#   in float32 at least, and rounded once.
# - **A microbatch of count 0** takes no part, even if it holds nan. Where all counts are 0 the result is zeros.
# - **None** in some microbatches counts as zero; None in all of them stays None.
# - **Inputs are not modified**, and may be non-contiguous or expanded. Gradients flow through both functions. No loops
#   over entries: operations grow with the number of tensors alone. float64 in, float64 out; float32 accuracy is enough.
# - **A `ValueError`** whose message holds the values: `max_norm` that is not positive; a negative count; lists of
#   different lengths, of counts and microbatches or among the microbatches.
# - **Not graded:** what is clipped when the norm is not finite; gradients through a norm of 0.
#
# Not allowed: `nn.utils.clip_grad_norm_` and its kin, `nn.utils.get_total_norm`.
#
# **Example.** The gradients $(3, 0)$ and $(4)$ have the norm $\sqrt{9 + 16} = 5$. With `max_norm=1` and `eps=0` they
# become $(0.6, 0)$ and $(0.8)$. Means of 2 over one token and of 8 over three tokens are a mean of
# $(1 \cdot 2 + 3 \cdot 8) / 4 = 6.5$ over all four, not 5.

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
# no bit. Skip microbatches whose count is 0: `0 * nan` is nan.

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

    Raises:
        ValueError: max_norm is not positive.
    """
    ### BEGIN SOLUTION
    if max_norm <= 0:
        raise ValueError(f"max_norm={max_norm} is not positive")
    there = [grad for grad in grads if grad is not None]
    wide = torch.float64 if any(grad.dtype is torch.float64 for grad in there) else torch.float32
    squares = [grad.to(wide).square().sum() for grad in there]
    norm = torch.stack(squares).sum().sqrt() if squares else torch.zeros(())
    scale = (max_norm / (norm + eps)).clamp(max=1.0)
    return [None if grad is None else (grad.to(wide) * scale).to(grad.dtype) for grad in grads], norm
    ### END SOLUTION


def accumulate_gradients(
    grads: list[list[Float[Tensor, "..."] | None]], counts: list[int]
) -> list[Float[Tensor, "..."] | None]:
    """The gradients of the mean over all tokens, from those of the means over each microbatch's counts[i] tokens.

    Raises:
        ValueError: a count is negative, or lists differ in length.
    """
    ### BEGIN SOLUTION
    if len(counts) != len(grads):
        raise ValueError(f"{len(counts)} counts for {len(grads)} microbatches")
    if any(count < 0 for count in counts):
        raise ValueError(f"a count is negative: {counts}")
    lengths = [len(each) for each in grads]
    if len(set(lengths)) > 1:
        raise ValueError(f"microbatches have different numbers of gradients: {lengths}")
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
    wide = torch.promote_types(first.dtype, torch.float32)
    result = torch.zeros_like(first, dtype=wide)
    for part, count in there:
        if count > 0:
            result = result + part.to(wide) * (count / total)
    return result.to(first.dtype)


### END SOLUTION


# %% [markdown] tags=["solution"]
# ## Why it is done this way
#
# One factor for all gradients keeps their direction; clipping each tensor alone, or each entry, turns it. The factor is
# exactly 1 where nothing is to be clipped, so that clipping changes no training that does not need it.
#
# The norm is reported before clipping: its jumps are the first sign of an unstable run.
#
# A mean of means is right only if all microbatches have as many tokens. With padding, or packed answers of different
# lengths, they have not; weighting by $n_i$ makes accumulation give what one large batch gives.
#
# **What it costs.** $O(P)$ time for $P$ parameters, and a handful of operations for each tensor. In float16 the copies
# in float32 take $4 P$ bytes, tensor by tensor; clipping in place needs none of it. The norm is the one number
# for which a sharded model must talk to all its parts.
#
# ## The other formulation
#
# The norm of the norms, `torch.stack([torch.linalg.vector_norm(g, dtype=torch.float32) for g in grads]).norm()`. For
# many small tensors `torch._foreach_norm` starts one kernel for all of them.
#
# ## The usual mistakes
#
# - Clipping between two `backward` calls of the same step: the norm is then that of a part.
# - Clipping scaled gradients of mixed precision: they are to be unscaled before.
# - Averaging over microbatches with different numbers of tokens.
# - Squares in float16: entries of 300 give inf, the factor is 0, and the step does nothing.
# - Returning the norm after clipping, which is never above `max_norm` and tells nothing.

# %% tags=["active-ipynb", "solution"]
# # What clipping does to a gradient of two entries: the direction stays, unlike when each entry is clipped
# import torch
# from matplotlib import pyplot as plt
#
# for gradient in (torch.tensor([0.4, 0.3]), torch.tensor([3.0, 1.0]), torch.tensor([-0.5, 2.5])):
#     (clipped,), _ = clip_by_global_norm([gradient], 1.0)
#     by_value = gradient.clamp(-1, 1)
#     plt.plot(*zip((0, 0), gradient.tolist()), color="lightgray")
#     plt.plot(*zip((0, 0), clipped.tolist()), color="tab:blue", marker="o")
#     plt.plot(*zip((0, 0), by_value.tolist()), color="tab:red", linestyle=":", marker="x")
# plt.gca().add_patch(plt.Circle((0, 0), 1, fill=False))
# plt.title("gray: gradient · blue: clipped by norm · red: clipped by value")
# plt.axis("equal")
# plt.show()

# %% [markdown] tags=["solution", "questions"]
# ## What interviewers ask next
#
# ### Why clip by the global norm and not each tensor?
#
# - One factor keeps the direction of the step; a factor for each tensor turns it.
# - A layer with small gradients would else be treated like one with large ones.
#
# Source: Pascanu, Mikolov, Bengio 2012, arXiv:1211.5063.
#
# ### Where does clipping stand in a training step?
#
# - After all microbatches have been added up and, with a loss scale, after unscaling; before the optimiser's step.
# - Once a step: the norm of a part says nothing about the whole.
#
# Source: PyTorch, automatic mixed precision examples, https://docs.pytorch.org/docs/stable/notes/amp_examples.html.
#
# ### Why is 1.0 a common maximum?
#
# - It is a convention that fits models whose norm settles well below 1 after the first hundreds of steps.
# - Adam divides by the gradient's own size, so clipping matters for spikes and hardly for the average step.
#
# Source: Brown et al. 2020, appendix B, arXiv:2005.14165.
#
# ### Does accumulating n microbatches give the same as one batch of n times the size?
#
# - Yes for the gradient, if the means are weighted by tokens; up to rounding.
# - No where a layer looks across the batch, as batch norm does, or where dropout draws anew.
#
# Source: PyTorch, torch.nn.BatchNorm1d, https://docs.pytorch.org/docs/stable/generated/torch.nn.BatchNorm1d.html.
#
# ### What does accumulation cost?
#
# - No more arithmetic, and the memory of one microbatch's activations instead of all.
# - One buffer of gradients of the size of the parameters; in bfloat16 small contributions are lost in it, so it is
#   often float32.
#
# Source: Rajbhandari et al. 2019, arXiv:1910.02054.
#
# ### How is the global norm found when parameters are sharded over GPUs?
#
# - Each rank sums the squares of its own shard; one all-reduce of one number adds them, then the root is taken.
# - Replicated parameters must be counted once.
#
# Source: PyTorch, FullyShardedDataParallel.clip_grad_norm_, https://docs.pytorch.org/docs/stable/fsdp.html.
