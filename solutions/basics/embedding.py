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
# ### Why is a lookup the same as a matrix product, and why is it not done so?
#
# - A one-hot row times the table picks one row of the table.
# - The product costs $2 V d$ operations for each token and a one-hot row of $V$ numbers. The lookup copies $d$ numbers.
# - The gradient is the transposed product: each token's gradient is added to its row.
#
# Source: Press, Wolf 2016, arXiv:1608.05859.
#
# ### What is weight tying, and when would you use it?
#
# - The table is the output matrix too. That saves $V d$ weights.
# - In GPT-2 small these are 39 of 124 million, in a Llama 3 8B they would be 0.5 of 8 billion. So small models tie and
#   large ones mostly do not.
# - The gradients of both uses add up. The one from the output reaches every row at every step.
# - Tied, the parameter must be counted, saved and given to the optimiser once.
#
# Source: Press, Wolf 2016, arXiv:1608.05859.
#
# ### Why is the initial spread 1 here, and 0.02 in the GPT models?
#
# - A tied table makes the logits. With a normed state of width 768 their deviation is $\sqrt{768} \cdot 0.02 = 0.55$.
# - With rows of deviation 1 it would be 28, and the first loss far above $\ln V$.
# - Not tied, the scale is nearly free: a pre-norm model normalises the state before it uses it.
# - The transformer of 2017 keeps small rows and multiplies by $\sqrt{d}$ on the input side.
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
# ### What does it cost to check the ids on a GPU?
#
# - Python must know the answer, so the processor waits for all work before it. A profiler shows a synchronisation and a
#   gap.
# - Unchecked, an id that is too large is an assertion in a kernel, reported at some later call.
#   `CUDA_LAUNCH_BLOCKING=1` finds the place.
# - Check where the ids are made, in the tokenizer or the data loader, while they are on the processor.
# - `-1` as a filler wraps around in plain indexing: it reads and trains the last row.
#
# Source: PyTorch documentation, note on CUDA semantics, https://docs.pytorch.org/docs/stable/notes/cuda.html.
#
# ### What would you do with 250,000 tokens and eight devices?
#
# - Shard the rows. Each device looks up its own ids, gives zeros for the others, and the results are summed.
# - The output matrix is sharded the same way: each device has the logits of its part of the vocabulary.
# - For the loss they exchange a maximum and a sum for each token, not the logits.
# - Round the vocabulary up so that it divides, and mask the rows that fill it.
#
# Source: Shoeybi et al. 2019, section 3, arXiv:1909.08053.
#
# ### What breaks if the table is trained in bfloat16 alone?
#
# - Around 1 the numbers are 0.0078 apart above and 0.0039 below. An update of 0.001 is rounded away: $w + 0.001 = w$.
# - So the optimiser keeps weights in float32 and the model a rounded copy, or rounding is stochastic.
# - The backward pass adds up the gradients of equal ids. For a token that occurs a thousand times the sum must be in
#   float32.
# - The order of these additions may differ from run to run on a GPU, and with it the last digit.
#
# Source: Micikevicius et al. 2017, section 3.1, arXiv:1710.03740.
