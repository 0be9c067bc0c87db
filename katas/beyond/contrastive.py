# %% [markdown]
# # Contrastive loss
#
# $$S = e^{\tau}\, \hat I\, \hat T^\top, \qquad
# \ell = \frac{1}{2n} \sum_{i} \Big( \ln \sum_j e^{S_{ij}} - S_{ii} \Big)
# + \frac{1}{2n} \sum_{j} \Big( \ln \sum_i e^{S_{ij}} - S_{jj} \Big)$$
#
# CLIP learns from $n$ pairs of an image and its text. Each image is to find its own text among the $n$, and each text
# its own image: two classifications with $n$ classes, whose logits are the scaled cosines $S$. $\hat I$ and $\hat T$
# are the rows divided by their lengths.
#
# **Write** `clip_loss(image, text, log_scale)`. `image` and `text` have shape `(n, d)`, row $i$ of both is a pair.
# `log_scale` is $\tau$, a tensor of no dimensions that is learned. The result is a tensor of no dimensions.
#
# `F.cross_entropy` and `F.normalize` are allowed.
#
# **Example.** Images `[3, 0]` and `[0, 2]`, texts `[1, 0]` and `[0, 5]`, `log_scale` 0. The directions are
# `[1, 0]` and `[0, 1]` on both sides, so $S$ is the identity. Every row and every column loses
# $\ln(e + 1) - 1 = 0.31326$, and so does the batch.
#
# **Builds on** cross_entropy. **Sources:** Radford et al. 2021: Learning Transferable Visual Models From Natural
# Language Supervision, [arXiv:2103.00020](https://arxiv.org/abs/2103.00020); van den Oord et al. 2018: Representation
# Learning with Contrastive Predictive Coding, [arXiv:1807.03748](https://arxiv.org/abs/1807.03748).
#
# House rules hold: docs/house_rules.md.

# %% [markdown] tags=["contract"]
# <details><summary>Contract: Scale, Zero rows, Half precision, Errors</summary>
#
# - **Scale.** It is $e^\tau$, as large as it comes, and not clamped: cosines times 1,000 give a finite loss.
# - **Zero rows.** A row of zeros has cosines of 0, and the gradients stay finite.
# - **Half precision.** Computed in float32, from the lengths on, and rounded once. `log_scale` may be float32 beside
#   inputs in half precision, and is not rounded to theirs.
# - **Errors.** `image` and `text` that are not both `(n, d)`.
#
# </details>

# %% tags=["active-ipynb", "example"]
# # The example, in numbers
# import math
#
# cosines = [[1.0, 0.0], [0.0, 1.0]]
# for own, row in enumerate(cosines):
#     print(f"image {own} loses {math.log(sum(math.exp(s) for s in row)) - row[own]:.5f}")
# for own in range(2):
#     column = [row[own] for row in cosines]
#     print(f"text {own} loses {math.log(sum(math.exp(s) for s in column)) - column[own]:.5f}")

# %%
import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor


# %%
def clip_loss(
    image: Float[Tensor, "pairs dim"], text: Float[Tensor, "pairs dim"], log_scale: Float[Tensor, ""]
) -> Float[Tensor, ""]:
    """The mean of two cross-entropies of scaled cosines: of each image among the texts, of each text among the images.

    Half precision is computed in float32 and rounded once.

    Raises:
        ValueError: image and text are not two tables of one shape.
    """
    raise NotImplementedError


# %% tags=["active-ipynb"]
# import sys
#
# sys.path.append("../..")  # the project
# from dojo import check
#
# check("contrastive")
