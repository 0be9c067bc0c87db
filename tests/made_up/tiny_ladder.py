# ---
# jupyter:
#   dojo:
#     title: A tiny ladder
#     level: 1
#     minutes: 10
#     builds_on: [softmax, linear]
#     sources: ["nobody"]
# ---

# %% [markdown]
# # A tiny ladder
#
# One file that grows.

# %% [markdown] tags=["stage"]
# ## Stage 1 · 4 min
#
# "Write a function that doubles a tensor."
#
# ```python
# def twice(x):
#     """Two times `x`, of any shape."""
#     ...
# ```

# %% [markdown] tags=["contract"]
# - **Shape.** That of `x`.

# %% [markdown] tags=["hint"]
# Multiply.

# %% [markdown] tags=["stage"]
# ## Stage 2 · 3 min
#
# "Now let me say how often."
#
# ```python
# def twice(x, times=2):
#     """`times` times `x`."""
#     ...
# ```

# %% [markdown] tags=["contract"]
# - **Default.** As before.

# %% [markdown] tags=["hint"]
# An argument with a default.

# %% [markdown] tags=["stage"]
# ## Stage 3 · 3 min
#
# "Make it a layer, and sum."
#
# ```python
# class Times(nn.Module):
#     """`forward(x)` is `times` times `x`."""
#
#     def __init__(self, times=2):
#         ...
#
#     def forward(self, x):
#         ...
# ```

# %% [markdown] tags=["contract"]
# - **Parameters.** None.

# %% [markdown] tags=["hint"]
# `nn.Module`.

# %%
from jaxtyping import Float
from torch import Tensor, nn


# %%
def twice(x: Float[Tensor, "*batch"], times: int = 2) -> Float[Tensor, "*batch"]:
    """`times` times x."""
    ### BEGIN SOLUTION
    return x * times
    ### END SOLUTION


# %%
class Times(nn.Module):
    """`times` times x."""

    def __init__(self, times: int = 2):
        ### BEGIN SOLUTION
        super().__init__()
        self.times = times
        ### END SOLUTION

    def forward(self, x: Float[Tensor, "*batch"]) -> Float[Tensor, "*batch"]:
        ### BEGIN SOLUTION
        return twice(x, self.times)
        ### END SOLUTION


# %% [markdown] tags=["solution"]
# ## Why
#
# There is one function.

# %% [markdown] tags=["solution", "signals"]
# ### Stage 1
#
# Strong: asks about dtypes.
#
# Weak: writes a loop.
#
# ### Stage 2
#
# Strong: keeps the default.
#
# Weak: breaks the callers.
#
# ### Stage 3
#
# Strong: calls the function.
#
# Weak: writes it again.
