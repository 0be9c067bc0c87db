# %% [markdown]
# # SwiGLU feed-forward
#
# $$\mathrm{SwiGLU}(x) = W_2 \big( \mathrm{silu}(W_1 x) \odot W_3 x \big), \qquad
# \mathrm{silu}(z) = z \cdot \sigma(z) = \frac{z}{1 + e^{-z}}$$
#
# The feed-forward layer of Llama works on each token alone. It widens the vector, lets one projection gate another, and
# narrows it again.
#
# **Write** `hidden_size(d_model, multiple_of=64)`, the usual width: $\tfrac83 d_{\mathrm{model}}$ rounded to an
# integer, and that rounded **up** to a multiple of `multiple_of`.
#
# **And** `SwiGLU(d_model, d_ff=None, *, device=None, dtype=None)` with `forward(x)`, from `(..., d_model)` to the same
# shape. The width is `d_ff`, or `hidden_size(d_model)` without it. The parameters, without biases, are `w1.weight` and
# `w3.weight`, each `(d_ff, d_model)`, and `w2.weight`, `(d_model, d_ff)`.
#
# No operation is forbidden.
#
# **Example.** `hidden_size(100)`: $800 / 3 = 266.7$, rounded up 267, and up to a multiple of 64: 320.
# `hidden_size(768)`: exactly 2048, which is a multiple of 64 already.
# For `SwiGLU(1, 1)` with `w1 = 1`, `w3 = 3`, `w2 = 10` and $x = 2$:
# $\mathrm{silu}(2) = 2 \cdot 0.8808 = 1.7616$, times $3 \cdot 2 = 6$, times $10$, is $105.70$.
#
# **Builds on** linear, activations. **Sources:** Shazeer 2020: GLU variants improve transformer,
# [arXiv:2002.05202](https://arxiv.org/abs/2002.05202); Touvron et al. 2023: LLaMA, section 2.2,
# [arXiv:2302.13971](https://arxiv.org/abs/2302.13971).
#
# House rules hold: docs/house_rules.md.

# %% [markdown] tags=["contract"]
# <details><summary>Contract: Gate, Width, Given width</summary>
#
# - **Gate.** Silu acts on `w1 x`, not on `w3 x`: a checkpoint depends on it. Gradients are finite far below zero too.
# - **Width.** `hidden_size` gives an `int` that is exact for every width. `multiple_of` is a multiple of 8; then it
#   makes no difference whether 8/3 of the width is rounded up or down first.
# - **Given width.** `d_ff` is taken as it is.
#
# </details>

# %%
import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn


# %%
def hidden_size(d_model: int, multiple_of: int = 64) -> int:
    """8/3 of d_model, rounded up to a multiple: the gated width that costs what 4 · d_model costs without a gate.

    Touvron et al. 2023, arXiv:2302.13971, section 2.2.
    """
    raise NotImplementedError


# %%
class SwiGLU(nn.Module):
    """Feed-forward layer gated by silu.

    Shazeer 2020, arXiv:2002.05202, equation 6.
    """

    def __init__(self, d_model: int, d_ff: int | None = None, *, device=None, dtype=None):
        raise NotImplementedError

    def forward(self, x: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch d_model"]:
        """w2(silu(w1 x) ⊙ w3 x), for each token alone."""
        raise NotImplementedError


# %% tags=["active-ipynb"]
# import sys
#
# sys.path.append("../..")  # the project
# from dojo import check
#
# check("swiglu")
