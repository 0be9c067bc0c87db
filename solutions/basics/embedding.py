# ---
# jupyter:
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
# int32 or int64 of any shape `(...)` to `(..., embedding_dim)`. Its one parameter is `weight`, of shape
# `(num_embeddings, embedding_dim)`.
#
# Not allowed: `nn.Embedding`, `F.embedding`. Indexing, `torch.index_select`, `torch.gather` and one-hot products are
# allowed.
#
# **Example.** With `weight` = `[[1, 2], [3, 4], [5, 6]]` and ids `[2, 0, 2]` the result is
# `[[5, 6], [1, 2], [5, 6]]`. If the loss is the sum of all entries, the gradient of row 2 is `[2, 2]`, of row 0
# `[1, 1]`, and of row 1 `[0, 0]`.

# %% [markdown] tags=["contract"]
# - **Initialization.** A standard normal (mean 0, standard deviation 1), truncated at ±3, in every row. Two tables draw
#   different numbers.
# - **Gradients.** Those of an id that occurs several times add up in its row. Rows that do not occur get zeros.
# - **Ids.** They may be int32. No ids give an empty result. Half precision finds the rows of large ids too.

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
# `torch.empty(num_embeddings, embedding_dim, device=device, dtype=dtype)` allocates the table. `nn.init.trunc_normal_`
# draws it; its bounds are numbers, not multiples of the standard deviation.

# %% [markdown] tags=["hint"]
# `forward` is one line: `self.weight[token_ids]`. Autograd adds up what equal ids send back.

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
        ### BEGIN SOLUTION
        super().__init__()
        self.weight = nn.Parameter(torch.empty(num_embeddings, embedding_dim, device=device, dtype=dtype))
        nn.init.trunc_normal_(self.weight, std=1.0, a=-3.0, b=3.0)
        ### END SOLUTION

    def forward(self, token_ids: Int[Tensor, "*batch"]) -> Float[Tensor, "*batch embedding_dim"]:
        """The row of each id."""
        ### BEGIN SOLUTION
        return self.weight[token_ids]
        ### END SOLUTION


# %% [markdown] tags=["solution"]
# ## Why it is done this way
#
# **Advanced indexing** copies the rows, and its backward adds the gradients of equal ids into one row. That is all an
# embedding is.
#
# **Why the ids are not checked.** On a GPU a look at their values waits for all work before it. `-1` as a filler for
# padding wraps around: it reads, and trains, the last row. An id that is too large is an assertion in a kernel, far
# from its cause. So check ids where they are made, in the tokenizer or the data loader.
#
# **What it costs.** A gather: no FLOPs, and $2 n d$ bytes read and written each for $n$ ids in bfloat16, however large
# the table is: memory-bound. The table of Llama 3 8B, 128,256 rows of 4,096, has 1.05 GB in bfloat16, and its gradient
# as many again.
#
# ## The other formulation
#
# `F.one_hot(ids, n).to(weight.dtype) @ weight` is the same map as a matrix product. It shows why the gradient is a
# sum over positions. It needs memory for `ids × n` numbers, which is what the lookup avoids.
#
# ## The usual mistakes
#
# - A plain tensor instead of `nn.Parameter`.
# - `weight[ids - 1]`, or an extra row for padding that nobody asked for.
# - `weight[ids] = ...` style updates, which break gradients.
# - Ids cast to the dtype of the weight: bfloat16 tells 256 of them apart.

# %% [markdown] tags=["solution", "questions"]
# ## What interviewers ask next
#
# ### Why is a lookup the same as a matrix product, and why is it not done so?
#
# - A one-hot row times the table picks one row of the table.
# - The product costs $2 V d$ FLOPs for each token and a one-hot row of $V$ numbers. The lookup copies $d$ numbers.
# - The gradient is the transposed product: each token's gradient is added to its row.
#
# Source: Press, Wolf 2016, arXiv:1608.05859.
#
# ### What percent does tying save: `vocab` tokens of width `width`, `millions` million weights left?
#
# - The table is the output matrix too. That saves $V d$ weights.
# - In GPT-2 small 39 of 124 million, in a Llama 3 8B it would be 0.5 of 8 billion: small models tie, large ones mostly
#   do not.
# - The gradients of both uses add up. Tied, the parameter is counted, saved and given to the optimizer once.
#
# Answer: `100 * vocab * width / (millions * 1e6 + vocab * width)` percent, within 10 %. Settings: `vocab` 50257,
# 128256; `width` 768, 2048; `millions` 124, 1236.
#
# Source: Press, Wolf 2016, arXiv:1608.05859.
#
# ### By a tied table of deviation `std` and width `width`, what is the deviation of the first logits?
#
# - The state comes out of a norm: entries of variance 1. A logit is a sum of $d$ products.
# - Its deviation is $\sigma\sqrt d$: 0.55 for GPT-2's 0.02 at 768. With 1 it would be 28, and the first loss far above
#   $\ln V$.
# - Not tied, the scale is nearly free: a pre-norm model normalizes the state before it uses it.
#
# Answer: `std * sqrt(width)`, within 5 %. Settings: `std` 0.02, 1; `width` 768, 4096.
#
# Source: Radford et al. 2018, Improving language understanding by generative pre-training, section 4.1,
# https://cdn.openai.com/research-covers/language-unsupervised/language_understanding_paper.pdf.
#
# ### What happens to the rows of rare tokens in training?
#
# - The gradient is dense: most rows of it are zeros, but all $V d$ numbers are stored and read.
# - Adam moves a row after its token is gone, for its first moment decays over several steps.
# - Weight decay shrinks rows that are never seen.
# - A sparse variant updates only the rows that occur. Its moments then no longer decay with time.
#
# Source: PyTorch documentation of `optim.SparseAdam`,
# https://docs.pytorch.org/docs/stable/generated/torch.optim.SparseAdam.html.
#
# ### What would you do with 250,000 tokens and eight devices?
#
# - Shard the rows. Each device looks up its own ids, gives zeros for the others, and an all-reduce adds the results.
# - The output matrix is sharded the same way: each device has the logits of its part of the vocabulary.
# - For the loss they exchange a maximum and a sum for each token, not the logits.
# - Round the vocabulary up so that it divides, and mask the rows that fill it.
#
# Source: Shoeybi et al. 2019, section 3, arXiv:1909.08053.
