# ---
# jupyter:
#   dojo:
#     title: k-means
#     level: 2
#     minutes: 20
#     builds_on: []
#     sources:
#       - "Lloyd 1982: Least squares quantization in PCM, IEEE Transactions on Information Theory 28"
#       - "Arthur, Vassilvitskii 2007: k-means++: The advantages of careful seeding, SODA"
# ---

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

# %% [markdown] tags=["contract"]
# - **Empty clusters.** A centroid without points stays where it is.
# - **Iterations.** Neither more nor fewer, unless nothing moves any more. None gives the first centroids and the
#   assignments to them.
# - **Memory.** No tensor of `n · k · d` entries.
# - **Errors.** Points and centroids of different widths: a `ValueError` with both.

# %% [markdown] tags=["hint"]
# `torch.cdist` gives all distances. So does $\lVert x \rVert^2 - 2 x \cdot c + \lVert c \rVert^2$, where the first term
# does not matter to the nearest one.

# %% [markdown] tags=["hint"]
# The means of all clusters are one `scatter_reduce` with `include_self=False`, or two `index_add_`, of points and of
# ones, at rows that the assignments name.

# %%
import torch
from jaxtyping import Float, Int
from torch import Tensor


# %%
### BEGIN SOLUTION
def nearest(points, centres):
    # |x - c|² less |x|², which is the same for all centroids
    return torch.addmm(centres.square().sum(1), points, centres.T, alpha=-2).argmin(dim=1)


### END SOLUTION
def kmeans(
    points: Float[Tensor, "n d"], centres: Float[Tensor, "k d"], iterations: int
) -> tuple[Float[Tensor, "k d"], Int[Tensor, "n"]]:
    """Centroids after so many iterations, and which is nearest to each point. Raises ValueError for other widths."""
    ### BEGIN SOLUTION
    if points.shape[1] != centres.shape[1]:
        raise ValueError(f"points of shape {tuple(points.shape)} and centres of shape {tuple(centres.shape)}")
    for _ in range(iterations):
        rows = nearest(points, centres).unsqueeze(1).expand_as(points)
        centres = centres.scatter_reduce(0, rows, points, "mean", include_self=False)  # what gets nothing stays
    return centres, nearest(points, centres)
    ### END SOLUTION


# %% [markdown] tags=["solution"]
# ## Why it is done this way
#
# Distances are a matrix product in disguise: $\lVert x \rVert^2$ is the same for all centroids, so it need not be
# computed. `torch.cdist` expands the square too, where there are more than 25 rows. Means are a scatter, so no loop
# runs over clusters, whose sizes a GPU would have to wait for. A centroid that gets no point is left as it is: no
# count can be 0, and no mean nan.
#
# Each of the two steps can only lower the sum of squared distances, and there are finitely many assignments: it comes
# to rest, in a local minimum that depends on the first centroids.
#
# **What it costs.** $2nkd$ FLOPs an iteration for the distances, and $4nk$ bytes in float32 that are written to HBM and
# read once, for their minimum. Fused with the minimum they never leave the chip.
#
# The expansion cancels where points lie far from 0: a distance of 1 between points at 1,000 is lost in float32, whose
# squares are 0.06 apart there. Subtract the mean of all points first: no assignment changes.
#
# ## The usual mistakes
#
# - The mean of no points: nan, and every later distance to it too.
# - The assignments of the round before, given back with centroids that have moved since.
# - `points[:, None] - centres`: all differences at once.

# %% [markdown] tags=["solution", "questions"]
# ## What interviewers ask next
#
# ### How many GB do the distances of `n` points to `k` centroids take in float32?
#
# - One number for each pair. All differences at once would take `d` times as much.
# - In chunks of points it is a chunk's share: the nearest centroid is known after one of them.
# - A fused kernel keeps the running minimum of a tile and writes one id a point.
#
# Answer: `4 * n * k / 1e9` GB, within 5 %. Settings: `n` 1000000, 4000000; `k` 1024, 4096.
#
# Source: Johnson, Douze, Jégou 2017, section 4, arXiv:1702.08734.
#
# ### How many TFLOP does an iteration take, for `n` points of width `d` and `k` centroids?
#
# - The distances are a product of `n × d` and `d × k`: two FLOPs for each term.
# - The means are one addition for each entry of the points, $1 / 2k$ of that, but memory-bound.
#
# Answer: `2 * n * k * d / 1e12` TFLOP, within 5 %. Settings: `n` 1000000, 10000000; `k` 1024, 4096; `d` 128, 768.
#
# Source: Johnson, Douze, Jégou 2017, section 4, arXiv:1702.08734.
#
# ### What does k-means++ do, and what does it promise?
#
# - The first centroid is a point at random; each next one a point drawn with a probability in proportion to its squared
#   distance to the nearest one so far.
# - The expected sum of squares is at most $8 (\ln k + 2)$ times the best there is, before any iteration.
# - Scalable variants draw many points a round and cluster those.
#
# Source: Arthur, Vassilvitskii 2007, theorem 1.1, https://theory.stanford.edu/~sergei/papers/kMeansPP-soda.pdf.
#
# ### Where does it stand in systems of language models?
#
# - Inverted lists and product quantizers of retrieval indices: a vector becomes a few ids of centroids.
# - Discrete tokens for speech and images, as in HuBERT: ids of clusters are what the model predicts.
# - Removing near duplicates from training data: compare within clusters alone.
#
# Source: Hsu et al. 2021, section II, arXiv:2106.07447.
