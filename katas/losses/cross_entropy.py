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
#
# **Builds on** softmax. **Sources:** Szegedy et al. 2015: Rethinking the Inception Architecture (label smoothing),
# [arXiv:1512.00567](https://arxiv.org/abs/1512.00567); Chowdhery et al. 2022: PaLM (z-loss),
# [arXiv:2204.02311](https://arxiv.org/abs/2204.02311).
#
# House rules hold: docs/house_rules.md.

# %% [markdown] tags=["contract"]
# <details><summary>Contract: Smoothing, Padding, Nothing kept, Extremes, Half precision</summary>
#
# - **Smoothing.** $\varepsilon$ spreads over all $n$ classes, the target's own too, as in torch. fairseq spreads it
#   over the other $n - 1$: that is another loss. The z-loss is not smoothed.
# - **Padding.** `ignore_index` may be a class of the vocabulary, such as the id of the padding.
# - **Nothing kept.** Then the loss is 0 with gradients of 0, where PyTorch gives nan.
# - **Extremes.** Logits of ±1e4 give finite losses and gradients. A logit of `-inf` beside the target has weight 0, and
#   makes no nan as long as `label_smoothing` is 0.
# - **Half precision.** Computed in float32 and rounded once, at the end. A long batch overflows float16 neither by its
#   sum nor by its count.
#
# </details>

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
    """
    raise NotImplementedError


# %% tags=["active-ipynb"]
# import sys
#
# sys.path.append("../..")  # the project
# from dojo import check
#
# check("cross_entropy")
