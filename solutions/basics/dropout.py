# ---
# jupyter:
#   dojo:
#     title: Inverted dropout
#     level: 1
#     minutes: 8
#     builds_on: []
#     sources:
#       - "Srivastava et al. 2014: Dropout: A simple way to prevent neural networks from overfitting, JMLR 15"
# ---

# %% [markdown]
# # Inverted dropout
#
# $$y_i = \begin{cases} x_i / (1 - p) & u_i \ge p \\ 0 & u_i < p \end{cases}$$
#
# Dropout zeroes random activations in training, so that no unit can rely on another one. What is kept is scaled up, so
# that the expected value stays the same and evaluation has nothing to correct.
#
# **Write** `dropout(x, uniform, p=0.5, training=True)`, for `x` of any shape. `uniform` has the shape of `x` and holds
# random numbers in [0, 1), drawn by the caller. In training an entry is kept where `uniform >= p` and divided by
# `1 - p`; the others are 0. In evaluation the result is `x`. Not allowed: `F.dropout`, `nn.Dropout` and their variants.
#
# **Example.** For `x = [1, 2, 3, 4]`, `uniform = [0.1, 0.6, 0.3, 0.9]` and `p = 0.5` the result is `[0, 4, 0, 8]`.

# %% [markdown] tags=["contract"]
# - **Ends.** `p = 0` changes nothing, even where `uniform` is 0. `p = 1` gives zeros that backpropagate zeros to `x`:
#   no nan, and no result cut off from the graph.
# - **Gradient.** It is masked and scaled as the values are.
# - **Half precision.** Where `x` is float16 or bfloat16, `uniform` is float32 and is compared in float32.
# - **Errors.** A `p` outside [0, 1] raises a `ValueError`, in evaluation too.

# %% tags=["active-ipynb", "example"]
# # The example, in numbers
# import torch
#
# x, uniform = torch.tensor([1.0, 2, 3, 4]), torch.tensor([0.1, 0.6, 0.3, 0.9])
# print("kept", (uniform >= 0.5).tolist(), "scaled by", 1 / (1 - 0.5))

# %% [markdown] tags=["hint"]
# The mask is one comparison. What should an entry be multiplied by if it survives with probability `1 - p`?

# %% [markdown] tags=["hint"]
# Compute `1 / (1 - p)` in Python, where `p = 1` is easy to treat apart: a tensor divided by 0 has nan gradients even
# where `torch.where` discards it.

# %%
import torch
from jaxtyping import Float
from torch import Tensor


# %%
def dropout(
    x: Float[Tensor, "*batch"], uniform: Float[Tensor, "*batch"], p: float = 0.5, training: bool = True
) -> Float[Tensor, "*batch"]:
    """Entries lost with probability `p` and scaled, in the dtype of `x`. Raises ValueError for a `p` outside [0, 1]."""
    ### BEGIN SOLUTION
    if not 0.0 <= p <= 1.0:
        raise ValueError(f"p must be in [0, 1], got {p}")
    if not training:
        return x
    scale = 1.0 / (1.0 - p) if p < 1.0 else 0.0
    return torch.where(uniform >= p, x * scale, 0.0)
    ### END SOLUTION


# %% [markdown] tags=["solution"]
# ## Why it is done this way
#
# An entry survives with probability $1 - p$, so $\mathrm{E}[y] = (1 - p) \cdot x / (1 - p) = x$, as in evaluation.
# At `p = 1` the scale is 0 and not infinite: `torch.where` sends a gradient of 0 into the branch it discards, and
# $0 \cdot \infty$ is nan.
#
# - **What it costs.** $O(n)$ time, memory-bound, and a mask of $n$ bytes that is kept for the backward pass.
# - **The other formulation** is a product, `x * mask * scale`: a dropped entry that is inf then becomes nan, not 0.
# - **The usual mistakes.** `p` taken for the probability of keeping; `uniform > p`, which drops a 0 at `p = 0`.

# %% [markdown] tags=["solution", "questions"]
# ## What interviewers ask next
#
# ### Why scale in training and not in evaluation?
#
# - Either makes the expected activations agree. Scaled in training, evaluation is the identity.
# - Export, quantization and weight sharing then need not know `p`, and it may change during training.
#
# Source: PyTorch documentation of `nn.Dropout`, https://docs.pytorch.org/docs/stable/generated/torch.nn.Dropout.html.
#
# ### By what factor does dropout with `p` raise the second moment of an entry?
#
# - $\mathrm{E}[y^2] = x^2 / (1 - p)$ and $\mathrm{E}[y] = x$: the variance it adds is $x^2 \, p / (1 - p)$.
# - A batch norm after it learns the larger variance of training and is off in evaluation.
#
# Answer: `1 / (1 - p)`, within 3 %. Settings: `p` 0.1, 0.3, 0.5.
#
# Source: Li et al. 2018, arXiv:1801.05134.
#
# ### What must be saved for the backward pass?
#
# - The mask alone: 1 bit an entry, 1 byte as a bool tensor.
# - Or the seed and offset of a counter-based generator, from which the backward kernel draws the mask again.
#
# Source: Dao et al. 2022, appendix B, arXiv:2205.14135.
#
# ### How many GB do the bool masks of 3 dropouts a layer take: `layers` layers, `tokens` tokens, width 4,096?
#
# - A byte an entry, one mask for each tensor it is applied to; packed into bits an eighth.
# - In bfloat16 each tensor that it masks takes twice as much as its mask.
#
# Answer: `3 * layers * tokens * 4096 / 1e9` GB, within 5 %. Settings: `layers` 12, 32; `tokens` 2048, 8192.
#
# Source: Korthikanti et al. 2022, section 4.1, arXiv:2205.05198.
#
# ### Why are large language models pretrained without it?
#
# - They see most tokens about once: there is nothing to overfit, and noise only slows training down.
# - Fine-tuning on little data often turns it on again.
#
# Source: Chowdhery et al. 2022, section 5, arXiv:2204.02311.
