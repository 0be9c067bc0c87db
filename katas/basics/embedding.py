# %% [markdown]
# # Token embedding
#
# $$y_t = E[\mathrm{id}_t]$$
#
# A model computes with vectors, but text arrives as token ids. The embedding is the table between them: row $i$ is the
# vector of token $i$. Looking a row up is the same as multiplying the table with a one-hot vector, only cheaper.
#
# **Write** `Embedding(num_embeddings, embedding_dim, *, device=None, dtype=None)` with `forward(token_ids)`, from
# int32 or int64 of any shape `(...)` to `(..., embedding_dim)`. Its one parameter is `weight`, of shape
# `(num_embeddings, embedding_dim)`.
#
# Not allowed: `nn.Embedding`, `F.embedding`. Indexing, `torch.index_select`, `torch.gather` and one-hot products are
# allowed.
#
# **Example.** With `weight` = `[[1, 2], [3, 4], [5, 6]]` and ids `[2, 0, 2]` the result is
# `[[5, 6], [1, 2], [5, 6]]`. If the loss is the sum of all entries, the gradient of row 2 is `[2, 2]`, of row 0
# `[1, 1]`, and of row 1 `[0, 0]`.
#
# **Builds on** linear. **Sources:** Mikolov et al. 2013: Efficient estimation of word representations,
# [arXiv:1301.3781](https://arxiv.org/abs/1301.3781).
#
# House rules hold: docs/house_rules.md.

# %% [markdown] tags=["contract"]
# <details><summary>Contract: Initialization, Gradients, Ids</summary>
#
# - **Initialization.** A standard normal (mean 0, standard deviation 1), truncated at ±3, in every row. Two tables draw
#   different numbers.
# - **Gradients.** Those of an id that occurs several times add up in its row. Rows that do not occur get zeros.
# - **Ids.** They may be int32. No ids give an empty result. Half precision finds the rows of large ids too.
#
# </details>

# %% tags=["active-ipynb", "example"]
# # The example, in numbers
# import torch
#
# weight = torch.tensor([[1.0, 2], [3, 4], [5, 6]])
# for token in (2, 0, 2):
#     print("id", token, "has the vector", weight[token])

# %%
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn


# %%
class Embedding(nn.Module):
    """A table of vectors, looked up by id.

    The weight is a standard normal truncated at ±3.
    """

    def __init__(self, num_embeddings: int, embedding_dim: int, *, device=None, dtype=None):
        raise NotImplementedError

    def forward(self, token_ids: Int[Tensor, "*batch"]) -> Float[Tensor, "*batch embedding_dim"]:
        """The row of each id."""
        raise NotImplementedError


# %% tags=["active-ipynb"]
# import sys
#
# sys.path.append("../..")  # the project
# from dojo import check
#
# check("embedding")
