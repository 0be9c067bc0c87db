# %% [markdown]
# # Contrastive loss
#
# $$S = e^{\tau}\, \hat I\, \hat T^\top, \qquad
# \ell = \frac{1}{2n} \sum_{i} \Big( \ln \sum_j e^{S_{ij}} - S_{ii} \Big)
# + \frac{1}{2n} \sum_{j} \Big( \ln \sum_i e^{S_{ij}} - S_{jj} \Big)$$
#
# CLIP learns from $n$ pairs of an image and its text. Each image is to find its own text among the $n$, and each text
# its own image: two classifications with $n$ classes, whose logits are the scaled cosines $S$.
#
# **Write** `clip_loss(image, text, log_scale)`. `image` and `text` have shape `(n, d)`, row $i$ of both is a pair.
# `log_scale` is $\tau$, a tensor of no dimensions that is learnt. The result is a tensor of no dimensions.
#
# - **Directions:** $\hat I$ and $\hat T$ are the rows divided by their lengths. A length below 1e-12 counts as 1e-12:
#   a row of zeros gives cosines of 0, and the gradients of a division by 1e-12.
# - **The scale** is $e^\tau$, as large as it comes: it is not clamped. Cosines times 1,000 give finite losses.
# - **Dtype.** The result has the dtype of `image`. float16 and bfloat16 are computed in float32 and rounded once, at
#   the end, $e^\tau$ too. float64 in, float64 out; float32 accuracy is enough.
# - **`log_scale` may be float32** beside inputs in half precision, and is not rounded to theirs.
# - **Gradients** flow to all three inputs, which are not modified, and may be non-contiguous or expanded.
# - **No loops** over pairs or features.
# - **A `ValueError`** whose message holds the shapes: `image` and `text` that are not both `(n, d)`; a `log_scale` that
#   has dimensions.
# - **Not graded:** no pairs at all, lengths whose squares overflow float32, and the gradient of a row that is shorter
#   than 1e-12 but not zero.
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

    Lengths below 1e-12 count as 1e-12. Half precision is computed in float32 and rounded once.

    Raises:
        ValueError: image and text are not two tables of one shape, or log_scale has dimensions.
    """
    raise NotImplementedError


# %% tags=["active-ipynb"]
# import sys
#
# sys.path.append("../..")  # the project
# from dojo import check
#
# check("contrastive")
