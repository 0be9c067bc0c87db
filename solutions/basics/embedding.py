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
#     title: Token embedding
#     level: 1
#     minutes: 8
#     builds_on: [linear]
#     sources:
#       - "Mikolov et al. 2013: Efficient estimation of word representations, arXiv:1301.3781"
# ---

# %% [markdown]
# # Token embedding
#
# $$y_t = E[\mathrm{id}_t]$$
#
# A model computes with vectors, but text arrives as token ids. The embedding is the table between them: row $i$ is the
# vector of token $i$. Looking a row up is the same as multiplying the table with a one-hot vector, only cheaper.
#
# **Write** `Embedding(num_embeddings, embedding_dim, *, device=None, dtype=None)` with `forward(token_ids)`, from
# integers of any shape `(...)` to `(..., embedding_dim)`.
#
# - **Parameter**, and no other: `weight`, of shape `(num_embeddings, embedding_dim)`, initialised from a standard
#   normal (mean 0, standard deviation 1) truncated at ±3. Two tables draw different numbers.
# - **`token_ids`** are int32 or int64.
# - **Errors.** An id outside the table raises an `IndexError`. So does a negative id: it must not wrap around.
# - **Gradients** of an id that occurs several times add up in its row. Rows that do not occur get zeros.
# - **Dtype and device.** The parameter has the dtype and the device that the constructor is given; the result has
#   those of the parameter.
# - **Inputs are not modified**, and may be non-contiguous or expanded. A tensor of no ids gives an empty result. No
#   loops.
# - **Not graded:** ids of other dtypes, and what the message of the error says.
#
# Not allowed: `nn.Embedding`, `F.embedding`. Indexing, `torch.index_select`, `torch.gather` and one-hot products are
# allowed.
#
# **Example.** With `weight` = `[[1, 2], [3, 4], [5, 6]]` and ids `[2, 0, 2]` the result is
# `[[5, 6], [1, 2], [5, 6]]`. If the loss is the sum of all entries, the gradient of row 2 is `[2, 2]`, of row 0
# `[1, 1]`, and of row 1 `[0, 0]`.

# %% tags=["active-ipynb", "example"]
# # The example, in numbers
# import torch
#
# weight = torch.tensor([[1.0, 2], [3, 4], [5, 6]])
# for token in (2, 0, 2):
#     print("id", token, "has the vector", weight[token])

# %% [markdown] tags=["hint"]
# PyTorch indexes with tensors: `table[ids]` has the shape of the ids, and then that of a row.

# %% [markdown] tags=["hint"]
# Python's indices may be negative, and so may a tensor's. The contract says what is to happen then.

# %% [markdown] tags=["hint"]
# Look for the lowest and the highest id before you index. An empty tensor has neither, so test
# `((ids < 0) | (ids >= n)).any()`.

# %%
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn


# %%
class Embedding(nn.Module):
    """A table of vectors, looked up by id. Raises IndexError for an id outside the table, a negative one included.

    The weight is a standard normal truncated at ±3.
    """

    def __init__(self, num_embeddings: int, embedding_dim: int, *, device=None, dtype=None):
        ### BEGIN SOLUTION
        super().__init__()
        self.weight = nn.Parameter(torch.empty(num_embeddings, embedding_dim, device=device, dtype=dtype))
        nn.init.trunc_normal_(self.weight, std=1.0, a=-3.0, b=3.0)
        ### END SOLUTION

    def forward(self, token_ids: Int[Tensor, "*batch"]) -> Float[Tensor, "*batch embedding_dim"]:
        """The row of each id."""
        ### BEGIN SOLUTION
        outside = token_ids[(token_ids < 0) | (token_ids >= len(self.weight))]
        if outside.numel() > 0:
            raise IndexError(f"id {outside[0].item()} is outside the table of {len(self.weight)} rows")
        return self.weight[token_ids]
        ### END SOLUTION


# %% [markdown] tags=["solution"]
# ## Why it is done this way
#
# **Advanced indexing** copies the rows, and its backward adds the gradients of equal ids into one row. That is all an
# embedding is.
#
# **Why check the ids.** `-1` is a favourite filler for padding. Indexing would silently give the last row of the table,
# and train it. On a GPU an id that is too large fails as an assertion, far from its cause.
#
# **What it costs.** $O(n d)$ time for $n$ ids, however large the table is, and $4 n d$ bytes for the copied rows in
# float32. The table of $V$ rows takes $4 V d$ bytes, and its gradient as many again.
#
# ## The other formulation
#
# `F.one_hot(ids, n).to(weight.dtype) @ weight` is the same map as a matrix product. It shows why the gradient is a
# sum over positions. It needs memory for `ids × n` numbers, which is what the lookup avoids.
#
# ## The usual mistakes
#
# - A plain tensor instead of `nn.Parameter`.
# - `weight[ids - 1]`, or an extra row for padding that the contract does not have.
# - `weight[ids] = ...` style updates, which break gradients.
# - Negative ids that wrap around.

# %% [markdown] tags=["solution", "questions"]
# ## What interviewers ask next
#
# - **Why is the initial spread 1 here, and 0.02 in GPT-2?** GPT-2 ties the table to the output matrix, where large
#   rows would give large logits.
# - **What is tying?** Using the table as the output matrix too. It saves `vocab × d_model` weights.
# - **How does the optimiser see it?** Rows of rare tokens get a gradient seldom, and yet Adam's moments decay at
#   every step.
# - **What would you do with 250,000 tokens and eight devices?** Shard the rows; each device looks up its own and the
#   results are summed.
