# ---
# jupyter:
#   dojo:
#     title: Contrastive loss
#     level: 2
#     minutes: 12
#     builds_on: [cross_entropy]
#     sources:
#       - "Radford et al. 2021: Learning Transferable Visual Models From Natural Language Supervision, arXiv:2103.00020"
#       - "van den Oord et al. 2018: Representation Learning with Contrastive Predictive Coding, arXiv:1807.03748"
# ---

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

# %% [markdown] tags=["contract"]
# - **Scale.** It is $e^\tau$, as large as it comes, and not clamped: cosines times 1,000 give a finite loss.
# - **Zero rows.** A row of zeros has cosines of 0, and the gradients stay finite.
# - **Half precision.** Computed in float32, from the lengths on, and rounded once. `log_scale` may be float32 beside
#   inputs in half precision, and is not rounded to theirs.
# - **Errors.** `image` and `text` that are not both `(n, d)`.

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

# %% [markdown] tags=["hint"]
# Make the `(n, n)` table of scaled cosines first. Which class is the right one for row 3? And for column 3?

# %% [markdown] tags=["hint"]
# A column of the table is a row of its transpose, so one function of a table and its labels serves both halves.

# %% [markdown] tags=["hint"]
# `F.normalize(x.float(), dim=-1)` for both, `logits = log_scale.exp() * image @ text.T`, `labels = torch.arange(n)`,
# and the mean of `F.cross_entropy(logits, labels)` and `F.cross_entropy(logits.T, labels)`.

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
    ### BEGIN SOLUTION
    if image.dim() != 2 or text.shape != image.shape:
        raise ValueError(f"image {tuple(image.shape)} and text {tuple(text.shape)} are not both (n, d)")
    wide = torch.promote_types(image.dtype, torch.float32)
    image_directions = F.normalize(image.to(wide), dim=-1)
    text_directions = F.normalize(text.to(wide), dim=-1)
    logits = log_scale.to(wide).exp() * image_directions @ text_directions.T
    own = torch.arange(len(logits), device=logits.device)
    loss_of_images = F.cross_entropy(logits, own)
    loss_of_texts = F.cross_entropy(logits.T, own)
    return ((loss_of_images + loss_of_texts) / 2).to(image.dtype)
    ### END SOLUTION


# %% [markdown] tags=["solution"]
# ## Why it is done this way
#
# Nobody labels the pairs: that image and text came together is the label. The other $n - 1$ texts of the batch are the
# wrong answers of an image, and cost nothing more than one product of matrices.
#
# **Directions alone.** Unnormalized, the loss falls when embeddings just grow. Cosines lie between -1 and 1, and a
# softmax over numbers so close together can hardly be sure: with $n = 32{,}768$ and a scale of 1 the loss never falls
# below $\ln(e + (n - 1)/e) - 1 = 8.4$. So the scale is learned, as a logarithm, which keeps it positive.
#
# **Both ways.** A row asks which text belongs to an image. If one text wins every row, rows alone do not say that it
# cannot belong to all of them; its column does.
#
# **The gradient** for $S$ is the mean of two softmaxes minus the identity, divided by $n$: pairs are pulled together,
# all others pushed apart, the nearest hardest.
#
# **What it costs.** The product takes $2 n^2 d$ FLOPs: 1.1 TFLOPs at $n = 32{,}768$ and $d = 512$, 1.1 ms in bfloat16
# on an H100. The table has $4 n^2$ bytes in float32, 4.3 GB, and every pass over it, of which two softmaxes and their
# backward make several, reads that from HBM in 1.3 ms: memory-bound. So the table is cut among GPUs.
#
# ## The other formulation
#
# `-(S.log_softmax(0) + S.log_softmax(1)).diagonal().mean() / 2`: the same two softmaxes, and no labels. InfoNCE and
# SimCLR take rows alone, and **SigLIP** a sigmoid of each cell instead of the softmaxes: no sum over a row.
#
# ## The usual mistakes
#
# - Rows alone: half of the loss, and a model that finds texts for images better than images for texts.
# - The scale itself as a parameter, or divided by where it multiplies: a temperature is its inverse.
# - Normalizing over the batch (`dim=0`), or one of the two sides alone.
# - `x / x.norm()` without a smallest length: one row of zeros makes the whole batch nan.
# - A clamp inside the loss. CLIP clamps the parameter after a step: inside, the gradient would stop at the border.

# %% [markdown] tags=["solution", "questions"]
# ## What interviewers ask next
#
# ### What is the loss of a model that knows nothing, at a batch of `n` pairs?
#
# - All cosines are alike, and each of $n$ texts is as likely.
# - So losses of batches of different sizes are not comparable.
#
# Answer: `log(n)`, within 3 %. Settings: `n` 256, 4096, 32768.
#
# Source: van den Oord et al. 2018, section 2.3, arXiv:1807.03748.
#
# ### `gpus` GPUs share a batch of `n`, each with its own rows of the float32 table: how many GB has each?
#
# - Embeddings are all-gathered, $n d$ numbers a side, and each GPU makes $n / \text{gpus}$ rows, and as many columns.
# - The gradient must flow through the gather, by a reduce-scatter: a plain all-gather has none.
# - With embeddings cached, microbatches can be encoded twice, and memory does not grow with the batch.
#
# Answer: `4 * n**2 / gpus / 1e9` GB, within 5 %. Settings: `n` 32768, 65536; `gpus` 1, 8, 64.
#
# Source: OpenCLIP, open_clip/loss.py, https://github.com/mlfoundations/open_clip; Gao et al. 2021, arXiv:2101.06983.
#
# ### Why is the scale learned, and why as a logarithm?
#
# - Cosines span 2, so without a scale the softmax stays nearly flat, whatever the embeddings.
# - A logarithm keeps it positive, and a step of the optimizer changes it by a factor.
# - CLIP starts at 1/0.07 = 14.3 and stops at 100, by clamping the parameter, for stability.
#
# Source: Radford et al. 2021, section 2.5, arXiv:2103.00020.
#
# ### Why do contrastive losses want large batches?
#
# - The other items of the batch are the wrong answers: more of them, and some are hard to distinguish.
# - The loss bounds the mutual information from below by $\ln n - \ell$, which cannot pass $\ln n$.
# - Accumulating gradients over microbatches is not the same: their items never meet.
#
# Source: van den Oord et al. 2018, arXiv:1807.03748; Chen et al. 2020, arXiv:2002.05709.
#
# ### What does the sigmoid loss of SigLIP change?
#
# - Every cell of the table is a yes or no of its own: no sum over a row, so tiles of the table stay apart.
# - A learned bias, at first -10, makes up for the $n - 1$ wrong cells for each right one.
# - It works with small batches as well, and passes embeddings around instead of gathering them.
#
# Source: Zhai et al. 2023, arXiv:2303.15343.
