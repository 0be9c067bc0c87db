# %% [markdown]
# # A network in NumPy, from softmax to training
#
# NumPy and nothing else: no autograd, no library of layers. One file grows from a softmax to a network that trains.
# Arrays are float32 or float64. A backward gets what its forward got, and nothing that it computed.
#
# **Builds on** softmax, cross_entropy, manual_backprop. **Sources:** Rumelhart, Hinton, Williams 1986: Learning
# representations by back-propagating errors, Nature 323; Ba, Kiros, Hinton 2016: Layer Normalization,
# [arXiv:1607.06450](https://arxiv.org/abs/1607.06450); He et al. 2015: Delving Deep into Rectifiers,
# [arXiv:1502.01852](https://arxiv.org/abs/1502.01852).
#
# House rules hold: docs/house_rules.md.

# %% [markdown] tags=["stage"]
# ## Stage 1 · 8 min
#
# "Write softmax, and the cross-entropy of logits with class ids."
#
# ```python
# def softmax(x):
#     """Softmax of `x (..., classes)` over its last axis."""
#     ...
#
#
# def cross_entropy(logits, targets):
#     """Mean loss of `logits (..., classes)` and integer `targets (...)`, as a float."""
#     ...
# ```

# %% [markdown] tags=["contract"]
# <details><summary>Contract: Large logits, Mean, Dtype</summary>
#
# - **Large logits.** At ±1000 both are finite and accurate, and NumPy warns of nothing: a loss of 2,000 is 2,000.
# - **Mean.** Over all targets, however many leading axes they have.
# - **Dtype.** Softmax gives float32 for float32, float64 for float64. The loss is a number of either kind.
#
# </details>

# %%
import math

import numpy as np


# %%
def softmax(x):
    """Softmax of `x (..., classes)` over its last axis."""
    raise NotImplementedError


def cross_entropy(logits, targets):
    """Mean loss of `logits (..., classes)` and integer `targets (...)`, as a float."""
    raise NotImplementedError


# %% tags=["active-ipynb"]
# import sys
#
# sys.path.append("../..")  # the project
# from dojo import check
#
# check("numpy_ladder")
