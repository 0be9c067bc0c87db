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
#
# **Sources:** Srivastava et al. 2014: Dropout: A simple way to prevent neural networks from overfitting, JMLR 15.
#
# House rules hold: docs/house_rules.md.

# %% [markdown] tags=["contract"]
# <details><summary>Contract: Ends, Gradient, Half precision, Errors</summary>
#
# - **Ends.** `p = 0` changes nothing, even where `uniform` is 0. `p = 1` gives zeros that backpropagate zeros to `x`:
#   no nan, and no result cut off from the graph.
# - **Gradient.** It is masked and scaled as the values are.
# - **Half precision.** Where `x` is float16 or bfloat16, `uniform` is float32 and is compared in float32.
# - **Errors.** A `p` outside [0, 1] raises a `ValueError`, in evaluation too.
#
# </details>

# %% tags=["active-ipynb", "example"]
# # The example, in numbers
# import torch
#
# x, uniform = torch.tensor([1.0, 2, 3, 4]), torch.tensor([0.1, 0.6, 0.3, 0.9])
# print("kept", (uniform >= 0.5).tolist(), "scaled by", 1 / (1 - 0.5))

# %%
import torch
from jaxtyping import Float
from torch import Tensor


# %%
def dropout(
    x: Float[Tensor, "*batch"], uniform: Float[Tensor, "*batch"], p: float = 0.5, training: bool = True
) -> Float[Tensor, "*batch"]:
    """Entries lost with probability `p` and scaled, in the dtype of `x`. Raises ValueError for a `p` outside [0, 1]."""
    raise NotImplementedError


# %% tags=["active-ipynb"]
# import sys
#
# sys.path.append("../..")  # the project
# from dojo import check
#
# check("dropout")
