# %% [markdown]
# # k-means
#
# $$a_i = \mathrm{argmin}_j \lVert x_i - c_j \rVert^2, \qquad c_j = \mathrm{mean}(x_i \mid a_i = j)$$
#
# Lloyd's algorithm groups points around `k` centroids: codebooks of quantizers, lists of a retrieval index.
#
# **Write** `kmeans(points, centres, iterations)`, for `points (n, d)` and first centroids `centres (k, d)`. It gives
# `(centres (k, d), assignments (n,))`, the latter int64. An iteration assigns each point to its nearest centroid, then
# moves each centroid to the mean of its points. After exactly `iterations` of them assign once more: `assignments` are
# to the centroids that you give back.
#
# No gradients; float32 and float64 alone.
#
# **Example.** Points 0, 1, 4, 5 on a line, centroids 0 and 1, one iteration. The point 0 stays with the first one, 1, 4
# and 5 go to the second, which moves to 3.33. Then 1 is nearer to the first: `[0, 0, 1, 1]`.
#
# **Sources:** Lloyd 1982: Least squares quantization in PCM, IEEE Transactions on Information Theory 28; Arthur,
# Vassilvitskii 2007: k-means++: The advantages of careful seeding, SODA.
#
# House rules hold: docs/house_rules.md.

# %% [markdown] tags=["contract"]
# <details><summary>Contract: Empty clusters, Iterations, Memory, Errors</summary>
#
# - **Empty clusters.** A centroid without points stays where it is.
# - **Iterations.** Neither more nor fewer, unless nothing moves any more. None gives the first centroids and the
#   assignments to them.
# - **Memory.** No tensor of `n · k · d` entries.
# - **Errors.** Points and centroids of different widths: a `ValueError` with both.
#
# </details>

# %%
import torch
from jaxtyping import Float, Int
from torch import Tensor


# %%
def kmeans(
    points: Float[Tensor, "n d"], centres: Float[Tensor, "k d"], iterations: int
) -> tuple[Float[Tensor, "k d"], Int[Tensor, "n"]]:
    """Centroids after so many iterations, and which is nearest to each point. Raises ValueError for other widths."""
    raise NotImplementedError


# %% tags=["active-ipynb"]
# import sys
#
# sys.path.append("../..")  # the project
# from dojo import check
#
# check("kmeans")
