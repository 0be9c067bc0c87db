# ---
# jupyter:
#   dojo:
#     title: Linear cross-entropy in chunks
#     level: 4
#     minutes: 30
#     builds_on: [cross_entropy]
#     sources:
#       - "Wijmans et al. 2024: Cut your losses in large-vocabulary language models, arXiv:2411.09009"
#       - "Hsu et al. 2024: Liger Kernel, arXiv:2410.10989"
# ---

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

# %% [markdown] tags=["contract"]
# - **Chunks.** Any `chunk_size` from 1 on gives the same, also if it does not divide the number of tokens, or exceeds
#   it.
# - **Mean.** Divided by all kept tokens, not chunk by chunk. A chunk may have none kept; at least one token is kept.
# - **Upstream gradient.** The loss may be scaled before `.backward()`. Either of `hidden` and `weight` may need no
#   gradient. No second derivatives.
# - **Memory.** Peak of forward plus backward: logits of one chunk, a few times over, plus the inputs' gradients.
# - **Half precision.** Softmax and sums in float32, sums of `weight`'s gradient over chunks too. Logits may be rounded.

# %% [markdown] tags=["hint"]
# Chunk the forward alone, under plain autograd: what does the graph keep of each chunk until the backward?

# %% [markdown] tags=["hint"]
# The loss is a scalar, so the gradient of a chunk's logits is known in the forward, but for one factor. Which one, and
# where can it be multiplied in?

# %% [markdown] tags=["hint"]
# In `forward`, for each chunk: logits, `logsumexp`, `p = (logits - log_z).exp()`, 1 subtracted at the target, rows of
# ignored tokens to 0, then `p @ weight` and `weight_grad += p.T @ x` in float32. In `backward` multiply both by
# `grad / count`.

# %%
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor


# %%
### BEGIN SOLUTION
class LinearCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, weight: Tensor, targets: Tensor, ignore_index: int, chunk_size: int
    ) -> Tensor:
        acc = torch.promote_types(hidden.dtype, torch.float32)
        rows, targets = hidden.reshape(-1, hidden.shape[-1]), targets.reshape(-1)
        kept = targets != ignore_index
        total = torch.zeros((), dtype=acc, device=hidden.device)
        grad_rows = torch.empty_like(rows) if ctx.needs_input_grad[0] else None
        grad_weight = torch.zeros_like(weight, dtype=acc) if ctx.needs_input_grad[1] else None

        for start in range(0, rows.shape[0], chunk_size):
            chunk = slice(start, start + chunk_size)
            keep = kept[chunk, None]
            target = targets[chunk, None].where(keep, 0)
            logits = (rows[chunk] @ weight.T).to(acc)
            log_z = logits.logsumexp(dim=-1, keepdim=True)
            total += (log_z - logits.gather(-1, target)).where(keep, 0.0).sum()
            grad = logits.sub_(log_z).exp_()  # in place: probabilities, then minus the target
            grad.scatter_add_(-1, target, grad.new_full(target.shape, -1.0))
            grad = grad.mul_(keep).to(hidden.dtype)
            if grad_rows is not None:
                grad_rows[chunk] = grad @ weight
            if grad_weight is not None:
                grad_weight += grad.T @ rows[chunk]

        count = kept.sum()
        ctx.save_for_backward(grad_rows, grad_weight, count)
        ctx.shape = hidden.shape
        return (total / count).to(hidden.dtype)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        grad_rows, grad_weight, count = ctx.saved_tensors
        scale = grad.to(torch.promote_types(grad.dtype, torch.float32)) / count
        if grad_rows is not None:
            grad_rows = (grad_rows * scale).view(ctx.shape)
        if grad_weight is not None:
            grad_weight = grad_weight * scale  # autograd rounds it to the dtype of weight
        return grad_rows, grad_weight, None, None, None


### END SOLUTION


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
    ### BEGIN SOLUTION
    if not torch.is_grad_enabled():
        hidden, weight = hidden.detach(), weight.detach()  # so that no gradients are made
    return LinearCrossEntropy.apply(hidden, weight, targets, ignore_index, chunk_size)
    ### END SOLUTION


# %% [markdown] tags=["solution"]
# ## Why it is done this way
#
# A chunk's gradient hangs on nothing but its own logits, the number of kept tokens and the upstream gradient, and the
# last two are factors. So the gradients of `hidden` and `weight` are made while the logits are there, and the factors
# come in the backward. Multiplied in before the rounding they would be lost in float16: $p / N$ of a rare token is
# below its smallest number.
#
# Chunking the forward alone saves nothing: the graph keeps the logits of each chunk for the backward. Measured, peak of
# forward plus backward in float32, 2,048 tokens, vocab 1,000, width 16, chunks of 64:
#
# | | MB |
# |---|---|
# | `F.cross_entropy` of all logits | 24.6 |
# | chunks under plain autograd | 8.7 |
# | each chunk under `torch.utils.checkpoint` | 0.96 |
# | gradients at once, as above | 0.71 |
#
# **What it costs.** Three products of 2 · tokens · vocab · dim FLOPs, as without chunks. Each chunk reads `weight`
# twice, and reads and writes a product and the float32 buffer of its gradient: 16 bytes an entry in bfloat16, for 6
# FLOPs a token. So an H100 is compute-bound from some 800 tokens a chunk. The buffer is 2.1 GB at vocab 128,256 and
# dim 4,096.
#
# ## The other formulation
#
# `checkpoint(chunk_loss, x, weight, target, use_reentrant=False)` for each chunk recomputes the logits in the backward:
# five lines, and a fourth product. Autograd adds up the chunks' gradients of `weight` in its own dtype: in bfloat16 the
# sum stalls. Cut cross-entropy recomputes too, in a kernel whose logits never leave SRAM, and leaves out probabilities
# too small to count.
#
# ## The usual mistakes
#
# - Upstream gradient ignored: right until the loss is scaled, or is one of two terms.
# - The mean of chunk means: a chunk with few kept tokens weighs as much as a full one.
# - `weight`'s gradient summed in bfloat16: after 256 equal chunks it no longer grows.
# - The last chunk, which is shorter, left out.

# %% [markdown] tags=["solution", "questions"]
# ## What interviewers ask next
#
# ### How many GB do all logits and their gradient take in float32: `tokens` tokens, vocab `vocab`?
#
# - 4 bytes each an entry, 8 together: at 8,192 tokens and 128,256 classes 8.4 GB, and 2.1 GB more for the bfloat16
#   logits they were made of.
# - It grows with tokens on a GPU, not with layers: for small models it is the peak of the step.
#
# Answer: `8 * tokens * vocab / 1e9` GB, within 5 %. Settings: `tokens` 4096, 8192, 32768; `vocab` 32000, 128256.
#
# Source: Wijmans et al. 2024, section 1, arXiv:2411.09009.
#
# ### How many TFLOPs more does recomputing the logits take: `tokens` tokens, vocab 128,256, width `dim`?
#
# - One product more, 2 · tokens · vocab · dim: a third more for the head, nothing for the rest of the model.
# - At 8,192 tokens and width 4,096 8.6 TFLOPs, 9 ms of an H100's bfloat16 peak.
#
# Answer: `2 * tokens * 128256 * dim / 1e12` TFLOPs, within 5 %. Settings: `tokens` 8192, 32768; `dim` 2048, 4096, 8192.
#
# Source: Wijmans et al. 2024, section 4, arXiv:2411.09009.
#
# ### Why is it not enough to chunk the forward?
#
# - Autograd saves what the backward needs, softmax or logits, of each chunk; together they are as large as before.
# - Either nothing is saved and the logits are recomputed, or what is saved are the gradients of the inputs.
#
# Source: Hsu et al. 2024, section 3.2, arXiv:2410.10989.
#
# ### What changes when the vocabulary is split over ranks?
#
# - Each rank has the logits of its classes. An all-reduce gives the maximum of each row, another one the sum of
#   exponentials and the target's logit, which one rank holds and the others have as 0.
# - The gradient of `weight` stays local; that of `hidden` is summed over ranks.
#
# Source: Shoeybi et al. 2019, section 3, arXiv:1909.08053.
