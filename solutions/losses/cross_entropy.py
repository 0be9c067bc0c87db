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
#     title: Cross-entropy
#     level: 2
#     minutes: 15
#     builds_on: [softmax]
#     sources:
#       - "Szegedy et al. 2015: Rethinking the Inception Architecture (label smoothing), arXiv:1512.00567"
#       - "Chowdhery et al. 2022: PaLM (z-loss), arXiv:2204.02311"
# ---

# %% [markdown]
# # Cross-entropy
#
# $$\ell = (1 - \varepsilon)\,(L - x_t) + \varepsilon\,(L - \bar x) + \zeta L^2, \qquad
# L = \ln \sum_j e^{x_j}, \qquad \bar x = \frac{1}{n} \sum_j x_j$$
#
# The loss of every language model: how surprised the model is by the token $t$ that came, given the logits $x$ of all
# $n$ tokens of the vocabulary. $\varepsilon$ is label smoothing; $\zeta$ is the weight of the z-loss, which keeps $L$
# near 0.
#
# **Write** `cross_entropy(logits, targets, ignore_index=-100, label_smoothing=0.0, z_loss=0.0)`. `logits` has shape
# `(..., vocab)`, `targets` holds integers of shape `(...)`. The result is the mean of $\ell$ over the positions whose
# target is not `ignore_index`: a tensor of no dimensions, with the dtype of `logits`.
#
# - **`ignore_index`** leaves a position out of the sum and out of the count. It may be any integer, a class of the
#   vocabulary too.
# - **Nothing kept** gives 0, with gradients of 0, and not nan as in PyTorch.
# - **`label_smoothing`** spreads over all classes, the target's own too.
# - **`z_loss`** is not smoothed: $\zeta L^2$ is added to the smoothed loss.
# - **Large logits**, as 1e4, give finite losses and gradients.
# - **A logit of `-inf`** beside the target has weight 0 and gives no nan, as long as `label_smoothing` is 0.
# - **float16 and bfloat16** are computed in float32 and rounded once, at the end. float64 in, float64 out; float32
#   accuracy is enough.
# - **Inputs are not modified**, and may be non-contiguous or expanded. Gradients flow to `logits`. No loops over
#   positions or classes, and no tensor has more elements than `logits`.
# - **A `ValueError`** whose message holds the values: a target outside of `[0, vocab)` that is not `ignore_index`;
#   `targets` of another shape than `logits` without its last dimension; `label_smoothing` outside of `[0, 1]`; a
#   negative `z_loss`.
# - **Not graded:** logits that are nan or infinite where the target is ignored; -inf together with label smoothing.
#
# Not allowed: `cross_entropy`, `nll_loss`, `softmax`, `log_softmax` and their modules. `torch.logsumexp` is allowed.
#
# **Example.** Logits `[2, 1, 0]`, `[0, 0, 0]`, `[1, 2, 3]` with the targets `0, -100, 2`. The first and the last row
# each lose $\ln(1 + e^{-1} + e^{-2}) = 0.40761$, the second is left out. The result is `0.40761`; with
# `label_smoothing=0.1` it is `0.50761`.

# %% tags=["active-ipynb", "example"]
# # The example, in numbers
# import torch
#
# logits = torch.tensor([[2.0, 1, 0], [0, 0, 0], [1, 2, 3]])
# for row, target in zip(logits, (0, -100, 2)):
#     log_z = row.exp().sum().log()
#     if target < 0:
#         print(row.tolist(), "is left out")
#     else:
#         loss, spread = log_z - row[target], log_z - row.mean()
#         print(row.tolist(), f"loses {loss:.5f}, smoothed by 0.1 {0.9 * loss + 0.1 * spread:.5f}")

# %% [markdown] tags=["hint"]
# You need two numbers of each row, $L$ and the logit of the target. Which operation picks one entry of each row?

# %% [markdown] tags=["hint"]
# `-100` is no place in a row. Give ignored positions some target that exists, and take them out afterwards.

# %% [markdown] tags=["hint"]
# `torch.logsumexp(x, -1)` and `x.gather(-1, targets[..., None])` in float32; `torch.where(kept, loss, 0.0)`, its sum
# divided by `kept.sum().clamp_min(1)`.

# %%
import torch
from jaxtyping import Float, Int
from torch import Tensor


# %%
def cross_entropy(
    logits: Float[Tensor, "*batch vocab"],
    targets: Int[Tensor, "*batch"],
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    z_loss: float = 0.0,
) -> Float[Tensor, ""]:
    """The mean cross-entropy of the kept positions: (1 - ε)(L - x_t) + ε(L - mean x) + ζL², where L = logsumexp(x).

    0 when nothing is kept. Half precision is computed in float32 and rounded once.

    Raises:
        ValueError: a target is no class and not ignore_index, shapes do not fit, or ε or ζ is out of range.
    """
    ### BEGIN SOLUTION
    vocab = logits.shape[-1]
    if targets.shape != logits.shape[:-1]:
        raise ValueError(f"targets of shape {tuple(targets.shape)} do not fit logits of shape {tuple(logits.shape)}")
    if not 0 <= label_smoothing <= 1:
        raise ValueError(f"label_smoothing={label_smoothing} is outside of [0, 1]")
    if z_loss < 0:
        raise ValueError(f"z_loss={z_loss} is negative")
    kept = targets != ignore_index
    outside = kept & ((targets < 0) | (targets >= vocab))
    if outside.any():
        raise ValueError(f"target {targets[outside][0].item()} is outside of [0, {vocab})")
    x = logits.to(torch.promote_types(logits.dtype, torch.float32))
    log_z = torch.logsumexp(x, dim=-1)
    target_logit = x.gather(-1, torch.where(kept, targets, 0).long()[..., None])[..., 0]
    loss = log_z - target_logit
    if label_smoothing > 0:
        loss = (1 - label_smoothing) * loss + label_smoothing * (log_z - x.mean(dim=-1))
    if z_loss > 0:
        loss = loss + z_loss * log_z.square()
    total = torch.where(kept, loss, 0.0).sum()
    return (total / kept.sum().clamp_min(1)).to(logits.dtype)
    ### END SOLUTION


# %% [markdown] tags=["solution"]
# ## Why it is done this way
#
# $-\ln \mathrm{softmax}(x)_t = L - x_t$: the exponentials of single classes are never needed, only their sum.
# `logsumexp` takes the largest logit out before it exponentiates, so that nothing overflows.
#
# Smoothing replaces the one-hot target by $q = (1 - \varepsilon)\,\mathrm{onehot} + \varepsilon / n$. Then
# $-\sum_j q_j \ln p_j = L - (1 - \varepsilon)\,x_t - \varepsilon\,\bar x$: a mean over the row does it, no table of
# targets is made.
#
# Ignored positions are replaced before the sum, and the count is that of what is kept. Divided by all positions, the
# loss of a batch would depend on how much padding it has.
#
# The gradient is $(p - q)/\mathrm{count}$ plus $2 \zeta L\, p/\mathrm{count}$: autograd finds it.
#
# **What it costs.** $O(n)$ time for each position. The copy in float32 and the gradient take $4 n$ bytes a position
# each: with a vocabulary of 128,000 and 8,192 tokens 4.2 GB each. That is why fused kernels make logits and gradient a
# chunk at a time.
#
# ## The other formulation
#
# `log_probs = x - x.logsumexp(-1, keepdim=True)`, then `-(q * log_probs).sum(-1)` with the table `q` of targets. It is
# closer to the formula, and makes two more tensors of the size of the logits; `0 * -inf` in it is nan.
#
# ## The usual mistakes
#
# - Dividing by all positions, or summing ignored ones: the loss then measures the padding.
# - `log(softmax(x))`: a probability that underflows has the logarithm $-\infty$.
# - The mean over an empty selection, which is nan and stays so in every weight.
# - Smoothing spread over the other classes only: another $\varepsilon$ than everybody else's.
# - Half precision: with 100,000 classes a sum of exponentials overflows float16.

# %% tags=["active-ipynb", "solution"]
# # What label smoothing asks for: the loss by the margin of the target, with ten classes
# import torch
# from matplotlib import pyplot as plt
#
# margin = torch.linspace(-4, 16, 200)
# rows = torch.cat([margin[:, None], torch.zeros(200, 9)], 1)
# for smoothing in (0.0, 0.1, 0.3):
#     losses = [cross_entropy(row, torch.tensor(0), label_smoothing=smoothing) for row in rows]
#     plt.plot(margin, torch.stack(losses), label=f"ε = {smoothing}")
# plt.xlabel("logit of the target above the others")
# plt.ylabel("loss")
# plt.title("Smoothed, a model gains nothing by being surer than a certain margin")
# plt.legend()
# plt.show()

# %% [markdown] tags=["solution", "questions"]
# ## What interviewers ask next
#
# ### What loss does a model have that knows nothing?
#
# - $\ln n$: equal logits give each of $n$ tokens the probability $1/n$.
# - 10.8 for a vocabulary of 50,000. A first loss far above says that the initial logits are too large.
#
# Source: Karpathy 2019, A Recipe for Training Neural Networks, https://karpathy.github.io/2019/04/25/recipe/.
#
# ### What is the gradient for the logits?
#
# - $p - q$ for each kept position, divided by their count: probabilities minus targets.
# - It sums to 0 over the classes, and no entry is larger than 1 before the division.
#
# Source: Goodfellow, Bengio, Courville 2016, Deep Learning, section 6.2.2, https://www.deeplearningbook.org.
#
# ### Why not take the logarithm of a softmax?
#
# - A probability below $10^{-45}$ is 0 in float32 and its logarithm $-\infty$, with gradients of nan.
# - $L - x_t$ is finite for all finite logits.
#
# Source: PyTorch, torch.nn.CrossEntropyLoss, https://docs.pytorch.org/docs/stable/generated/torch.nn.CrossEntropyLoss.html.
#
# ### What does label smoothing do to a model?
#
# - The best logits have a finite margin, so it stops growing, and probabilities are better calibrated.
# - The lowest reachable loss is not 0 any more: losses with different $\varepsilon$ are not comparable.
#
# Source: Müller, Kornblith, Hinton 2019, arXiv:1906.02629.
#
# ### Why add the square of $L$?
#
# - The loss does not change when a constant is added to all logits, so they can drift until half precision suffers.
# - $\zeta L^2$, with $\zeta$ about $10^{-4}$, holds them where $\sum e^x$ is near 1.
#
# Source: Chowdhery et al. 2022, section 5, arXiv:2204.02311.
#
# ### How much memory does the loss take, and how is it avoided?
#
# - Logits, their float32 copy and the gradient: each tokens × vocabulary × 2 to 4 bytes, often the peak of a step.
# - Chunks of tokens whose logits are made, used and thrown away; the gradient is made at once or recomputed.
#
# Source: Wijmans et al. 2024, arXiv:2411.09009.
#
# ### How would you average over several GPUs or microbatches?
#
# - Sum the losses and the counts over all of them and divide once.
# - The mean of their means weights the tokens of short microbatches too much.
#
# Source: transformers, ForCausalLMLoss with num_items_in_batch, https://github.com/huggingface/transformers.
