# ---
# jupyter:
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
# The loss of every language model: how surprised it is by the token $t$ that came, given the logits $x$ of all $n$
# tokens of the vocabulary. $\varepsilon$ is label smoothing; $\zeta$ weighs PaLM's z-loss, which keeps $L$ near 0.
#
# **Write** `cross_entropy(logits, targets, ignore_index=-100, label_smoothing=0.0, z_loss=0.0)`. `logits` has shape
# `(..., vocab)`, `targets` holds int64 classes of shape `(...)`. The result is the mean of $\ell$ over the positions
# whose target is not `ignore_index`: a tensor of no dimensions.
#
# Not allowed: `cross_entropy`, `nll_loss`, `softmax`, `log_softmax` and their modules. `torch.logsumexp` is allowed.
#
# **Example.** Logits `[2, 1, 0]`, `[0, 0, 0]`, `[1, 2, 3]` with the targets `0, -100, 2`. The first and the last row
# each lose $\ln(1 + e^{-1} + e^{-2}) = 0.40761$, the second is left out. The result is `0.40761`; with
# `label_smoothing=0.1` it is `0.50761`.

# %% [markdown] tags=["contract"]
# - **Smoothing.** $\varepsilon$ spreads over all $n$ classes, the target's own too, as in torch. fairseq spreads it
#   over the other $n - 1$: that is another loss. The z-loss is not smoothed.
# - **Padding.** `ignore_index` may be a class of the vocabulary, such as the id of the padding.
# - **Nothing kept.** Then the loss is 0 with gradients of 0, where PyTorch gives nan.
# - **Extremes.** Logits of ±1e4 give finite losses and gradients. A logit of `-inf` beside the target has weight 0, and
#   makes no nan as long as `label_smoothing` is 0.
# - **Half precision.** Computed in float32 and rounded once, at the end. A long batch overflows float16 neither by its
#   sum nor by its count.

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
# `-100` is no place in a row. Give ignored positions a target that exists, and take them out afterwards.

# %% [markdown] tags=["hint"]
# `torch.logsumexp(x, -1)` and `x.gather(-1, targets[..., None])` in float32; `torch.where(kept, loss, 0.0)`, its sum
# divided by `kept.sum().clamp_min(1)`.

# %% [markdown] tags=["idea"]
# A model spreads a probability of 1 over its vocabulary, then the next token comes. The loss is the surprise: 0 if the
# token had probability 1, 0.69 at one half, 11.8 if all 128,256 tokens looked alike, without limit towards 0. Where
# probabilities of successive tokens multiply, surprises add: their mean says how well a text is predicted.
#
# The figure moves one logit against 99 equal ones. On the left a point more logit is a point less loss. On the right
# the loss hardly falls but never stops, so training pushes the logit up for ever. Label smoothing asks for a
# probability of 0.901 instead of 1: its curve has a lowest point, and more confidence costs.
#
# Padding should teach nothing: it belongs in neither the sum nor the count. And a token whose logit is 1,000 below the
# best has probability 0 in float32, but a surprise of 1,000: compute that without the probability.

# %% tags=["active-ipynb", "figure"]
# """The loss over the target's logit, against 99 logits of 0. Both curves fall from above 8 and pass 4.6 where all are
# alike. The plain one goes on to 0; the smoothed one is lowest at logit 6.8, with 0.78, and rises again."""
# import matplotlib.pyplot as plt
# import numpy as np
#
# axes, x = plt.figure(figsize=(7.6, 3.2)).gca(), np.linspace(-4, 12, 300)
# for eps, style in ((0, "-"), (0.1, "--")):
#     axes.plot(x, np.log(np.exp(x) + 99) - (1 - 0.99 * eps) * x, style, label=f"label smoothing {eps}")
# axes.plot(0, np.log(100), "s", markersize=9, label="100 tokens alike: ln 100 = 4.6")
# axes.plot(np.log(901), np.log(1000) - 0.901 * np.log(901), "o", markersize=9, label="lowest, at probability 0.901")
# axes.set(xlabel="logit of the target, the other 99 are 0", ylabel="loss in nats", ylim=0)
# axes.legend()

# %%
import torch
from jaxtyping import Float, Int
from torch import Tensor

# %% [markdown] tags=["step"]
# **The surprise of one token.** Give the negative logarithm of the target's softmax, for any logits.

# %% tags=["active-ipynb", "step"]
# def surprise(logits: Float[Tensor, "vocab"], target: int) -> float:
#     """The loss at one position, in nats."""
#     ### BEGIN SOLUTION
#     return float(torch.logsumexp(logits, 0) - logits[target])
#     ### END SOLUTION

# %% [markdown] tags=["step-cases"]
# surprise([2.0, 1.0, 0.0], 0) = 0.40761
# surprise([2.0, 1.0, 0.0], 0) ≠ -0.40761: the sign; a loss is positive
# surprise([2.0, 1.0, 0.0], 0) ≠ 0.66524: the probability, without the logarithm
# surprise([2.0, 1.0, 0.0], 0) ≠ 2.40761: the target's logit is not subtracted
# surprise([1000.0, 0.0], 1) = 1000
# surprise([1000.0, 0.0], 1) ≠ inf: exp(1000) overflows, or the probability is 0; take the largest logit out first
# surprise([1000.0, 0.0], 1) ≠ 20.72327: 1e-9 is added to the probability, so no loss exceeds 20.7

# %% [markdown] tags=["step"]
# **The mean of what is kept.** A target equal to `ignored` leaves its position out.

# %% tags=["active-ipynb", "step"]
# def mean_of_kept(losses: Float[Tensor, "n"], targets: Int[Tensor, "n"], ignored: int) -> float:
#     """The mean loss of the positions that count."""
#     ### BEGIN SOLUTION
#     return float(losses[targets != ignored].sum() / max(1, int((targets != ignored).sum())))
#     ### END SOLUTION

# %% [markdown] tags=["step-cases"]
# mean_of_kept([4.0, 1.0, 3.0, 8.0], [3, 0, 5, 0], 0) = 3.5
# mean_of_kept([4.0, 1.0, 3.0, 8.0], [3, 0, 5, 0], 0) ≠ 4: nothing is left out; what is ignored need not be -100
# mean_of_kept([4.0, 1.0, 3.0, 8.0], [3, 0, 5, 0], 0) ≠ 1.75: divided by all four positions; two count
# mean_of_kept([4.0, 1.0, 3.0, 8.0], [3, 0, 5, 0], 0) ≠ 8: all losses are summed; two count
# mean_of_kept([4.0, 1.0, 3.0, 8.0], [3, 0, 5, 0], 0) ≠ 7: a sum, not a mean
# mean_of_kept([4.0], [0], 0) = 0
# mean_of_kept([4.0], [0], 0) ≠ nan: 0/0 where nothing is kept; one such batch spoils every weight

# %% [markdown] tags=["step"]
# **The smoothed target.** Of a probability of 1, `smoothing` is spread evenly over all `n` tokens.

# %% tags=["active-ipynb", "step"]
# def goal(target: int, n: int, smoothing: float) -> list[float]:
#     """The probability that training asks for, of each token."""
#     ### BEGIN SOLUTION
#     return [smoothing / n + (1 - smoothing) * (token == target) for token in range(n)]
#     ### END SOLUTION

# %% [markdown] tags=["step-cases"]
# goal(1, 4, 0.2) = [0.05, 0.85, 0.05, 0.05]
# goal(1, 4, 0.2) ≠ [0.06667, 0.8, 0.06667, 0.06667]: spread over the others only; the target has a share
# goal(1, 4, 0.2) ≠ [0.05, 0.8, 0.05, 0.05]: the target's share is lost, and the sum is 0.95

# %% [markdown] tags=["experiment"]
# Which of these logits has the lowest loss? Set `smoothing` to 0.1: which now, and why? Then add 50 to all logits,
# without and with a `z_loss` of 0.01. Further reading: Szegedy et al. 2015, arXiv:1512.00567, section 7.

# %% tags=["active-ipynb", "experiment"]
# smoothing, z_loss, shift = 0.0, 0.0, 0.0
# for logit in range(0, 13, 2):
#     logits = torch.nn.functional.pad(torch.tensor([float(logit)]), (0, 99)) + shift
#     print(logit, round(cross_entropy(logits, torch.tensor(0), -100, smoothing, z_loss).item(), 3))


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
    """
    ### BEGIN SOLUTION
    kept = targets != ignore_index
    x = logits.to(torch.promote_types(logits.dtype, torch.float32))
    log_z = torch.logsumexp(x, dim=-1)
    target_logit = x.gather(-1, targets.where(kept, 0)[..., None])[..., 0]
    loss = log_z - target_logit
    if label_smoothing > 0:
        loss = (1 - label_smoothing) * loss + label_smoothing * (log_z - x.mean(dim=-1))
    if z_loss > 0:
        loss = loss + z_loss * log_z.square()
    total = loss.where(kept, 0.0).sum()
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
# targets is made. The gradient is $(p - q + 2 \zeta L\, p) / \mathrm{count}$, which autograd finds.
#
# Ignored positions are replaced before the sum, and the count is that of what is kept. Divided by all positions, the
# loss of a batch would depend on how much padding it has. Nothing here looks at a value, so a GPU never waits: an
# `if kept.any()` or `logits[kept]` would drain its queue.
#
# **What it costs.** Some 5 FLOPs an entry, so it is memory-bound. In float32 the copy of bfloat16 logits takes $4 n$
# bytes a position and its gradient as many: with a vocabulary of 128,256 and 8,192 tokens 4.2 GB each. Each pass over
# the copy takes 1.25 ms of an H100's HBM bandwidth, and eager PyTorch makes several. `F.cross_entropy` fuses some of
# them: it is about twice as fast.
#
# ## The other formulation
#
# `log_probs = x - x.logsumexp(-1, keepdim=True)`, then `-(q * log_probs).sum(-1)` with the table `q` of targets. It is
# closer to the formula, and makes two more tensors of the size of the logits; `0 * -inf` in it is nan. Fused kernels,
# as Liger's and Apple's cut cross-entropy, never write all logits to HBM: they go from the hidden states, in chunks.
#
# ## The usual mistakes
#
# - Dividing by all positions, or summing ignored ones: the loss then measures the padding.
# - `log(softmax(x))`: a probability that underflows has the logarithm $-\infty$.
# - The mean over an empty selection, which is nan and stays so in every weight.
# - Smoothing spread over the other classes only: another $\varepsilon$ than torch's, by a factor $n / (n - 1)$.
# - Half precision: with 100,000 classes a sum of exponentials overflows float16.

# %% [markdown] tags=["solution", "questions"]
# ## What interviewers ask next
#
# ### Which loss should the first step show with a vocabulary of `vocab`?
#
# - $\ln n$ nats: with small initial weights the logits are nearly equal, and each token has the probability $1/n$.
# - A first loss far above says that the initial logits are too large; one far below, that the answer leaks.
#
# Answer: `log(vocab)` nats, within 3 %. Settings: `vocab` 256, 50257, 128256.
#
# Source: Karpathy 2019, A Recipe for Training Neural Networks, https://karpathy.github.io/2019/04/25/recipe/.
#
# ### What is the gradient for the logits?
#
# - $p - q$ for each kept position, divided by their count: probabilities minus targets.
# - It sums to 0 over the classes, and no entry is larger than 1 before the division.
# - With the z-loss $2 \zeta L\, p$ more, which does not sum to 0: it moves all logits of a row.
#
# Source: Goodfellow, Bengio, Courville 2016, Deep Learning, section 6.2.2, https://www.deeplearningbook.org.
#
# ### How many GB do logits in bfloat16, their float32 copy and both gradients take: `tokens` tokens, `vocab` classes?
#
# - 2 + 4 bytes an entry forward, and as many backward: at 8,192 tokens and 128,256 classes 12.6 GB, often the peak of
#   a step.
# - Chunks of tokens whose logits are made, used and thrown away take a fraction of it; their gradient is made at once,
#   or the logits are recomputed in the backward.
# - Tensor parallelism splits the vocabulary: $L$ then takes an all-reduce of maxima and one of sums.
#
# Answer: `12 * tokens * vocab / 1e9` GB, within 5 %. Settings: `tokens` 4096, 8192; `vocab` 32000, 128256.
#
# Source: Wijmans et al. 2024, arXiv:2411.09009.
#
# ### What does label smoothing do to a model, and why do language models go without?
#
# - The best logits have a finite margin, so it stops growing, and probabilities are better calibrated.
# - The lowest reachable loss is not 0 any more: losses with different $\varepsilon$ are not comparable.
# - Text itself is uncertain: with billions of tokens nothing needs to be kept from being too sure.
#
# Source: Müller, Kornblith, Hinton 2019, arXiv:1906.02629.
#
# ### Why add the square of $L$?
#
# - The loss does not change when a constant is added to all logits, so they can drift until bfloat16 rounds them.
# - $\zeta L^2$, with $\zeta$ about $10^{-4}$, holds them where $\sum e^x$ is near 1.
#
# Source: Chowdhery et al. 2022, section 5, arXiv:2204.02311.
