# %% [markdown]
# # Distillation loss
#
# $$\ell = \alpha\, T^2\, \mathrm{KL}(p_T \parallel q_T) - (1 - \alpha) \ln q_{\text{target}}, \qquad
# \mathrm{KL}(p \parallel q) = \sum_y p_y (\ln p_y - \ln q_y)$$
#
# A small model learns from a large one's probabilities, not from labels alone: they also say what is nearly right.
# $p_T = \mathrm{softmax}(\text{teacher} / T)$, and $q_T$ is the same of the student; $q$ is the student's at $T = 1$.
#
# **Write** `distillation_loss(student_logits, teacher_logits, targets, temperature=2.0, alpha=0.5, ignore_index=-100)`:
# logits `(..., vocab)`, int64 `targets` `(...)`. The result is the mean of $\ell$ over positions whose target is not
# `ignore_index`, a tensor of no dimensions. All of PyTorch is allowed.
#
# **Example.** Student `[0, 0]`, teacher `[2, 0]`, target 0, $T = 2$, $\alpha = 0.5$: $p_T$ is `[0.731, 0.269]`, the KL
# 0.1109, and the loss `0.5 * 4 * 0.1109 + 0.5 * 0.6931 = 0.5685`.
#
# **Builds on** cross_entropy, kl_estimators. **Sources:** Hinton, Vinyals, Dean 2015: Distilling the Knowledge in a
# Neural Network, [arXiv:1503.02531](https://arxiv.org/abs/1503.02531).
#
# House rules hold: docs/house_rules.md.

# %% [markdown] tags=["contract"]
# <details><summary>Contract: Teacher, Ignored positions, Stability, Half precision, Errors</summary>
#
# - **Teacher.** It is constant: no gradient reaches its logits.
# - **Ignored positions.** They count in neither term, nor in the number of positions. At least one is kept. The index
#   may be that of a class, such as padding's.
# - **Stability.** Logits in the hundreds, and temperatures below 1, give neither inf nor nan.
# - **Half precision.** Softmax, sums and mean in float32, rounded once to the student's dtype.
# - **Errors.** Logits of different shapes, such as two vocabularies.
#
# </details>

# %%
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor


# %%
def distillation_loss(
    student_logits: Float[Tensor, "*batch vocab"],
    teacher_logits: Float[Tensor, "*batch vocab"],
    targets: Int[Tensor, "*batch"],
    temperature: float = 2.0,
    alpha: float = 0.5,
    ignore_index: int = -100,
) -> Float[Tensor, ""]:
    """alpha T² KL(teacher || student), both at temperature T, and (1 - alpha) of the cross-entropy with the targets.

    The mean over the positions that are kept. Raises ValueError if the logits differ in shape. Hinton et al. 2015.
    """
    raise NotImplementedError


# %% tags=["active-ipynb"]
# import sys
#
# sys.path.append("../..")  # the project
# from dojo import check
#
# check("distillation")
