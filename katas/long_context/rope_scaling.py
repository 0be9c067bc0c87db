# %% [markdown]
# # RoPE for longer contexts
#
# $$w_i = \theta^{-2i/d_k}, \qquad i = 0, \dots, d_k/2 - 1$$
#
# A model with RoPE was trained on $L$ tokens and is to read `factor` times as many. Pairs that turned often in $L$
# tokens tell neighbours apart and must stay as they are. Pairs that turned less than once never showed all their
# angles, and must not turn further than they did. Three recipes give new frequencies.
#
# **Write** `ntk_frequencies(d_k, theta, factor)`: a larger base, $\theta \cdot \mathrm{factor}^{d_k/(d_k - 2)}$ instead
# of $\theta$.
#
# **Write** `llama3_frequencies(d_k, theta, factor, original_max_len, low_freq_factor=1.0, high_freq_factor=4.0)`. With
# the turns $r_i = L w_i / 2\pi$ and $s_i = \mathrm{clamp}\big((r_i - \mathrm{low})/(\mathrm{high} - \mathrm{low}), 0,
# 1\big)$, low and high being the two factors:
#
# $$w_i \left( s_i + \frac{1 - s_i}{\mathrm{factor}} \right)$$
#
# **Write** `yarn_frequencies(d_k, theta, factor, original_max_len, beta_fast=32.0, beta_slow=1.0)`. The pair that turns
# $r$ times in $L$ tokens is $\mathrm{pair}(r)$. Two bounds come from it, `low = max(floor(pair(beta_fast)), 0)` and
# `high = min(ceil(pair(beta_slow)), d_k - 1)`, and a ramp between them:
#
# $$\mathrm{pair}(r) = \frac{d_k \ln(L / (2\pi r))}{2 \ln \theta}, \qquad
# g_i = \mathrm{clamp}\!\left(\frac{i - \mathrm{low}}{\mathrm{high} - \mathrm{low}}, 0, 1\right), \qquad
# w_i\, (1 - g_i) + \frac{w_i}{\mathrm{factor}}\, g_i$$
#
# - **Frequencies** are a float32 tensor of shape `(d_k/2,)`. Float32 accuracy is enough.
# - **YaRN** gives a tuple `(frequencies, attention_factor)`. The second is a float, $0.1 \ln(\mathrm{factor}) + 1$.
#   Cosines and sines are to be multiplied by it, and so scores by its square.
# - **The bounds of YaRN** are rounded, and clamped to $d_k - 1$, as in the authors' code, although $i$ ends at
#   $d_k/2 - 1$.
# - **A factor of 1** changes nothing.
# - **Plain Python or PyTorch**, without NumPy. The number of tensor operations does not grow with `d_k`. Each call
#   gives a tensor of its own.
# - **A `ValueError`** whose message holds the offending values: an odd `d_k`, for `ntk_frequencies` also one below 4;
#   `theta` of at most 1; `factor` below 1; an `original_max_len` that is not positive; `low_freq_factor` not below
#   `high_freq_factor`; `beta_slow` not below `beta_fast`.
# - **Not graded:** YaRN where low is not below high, and which of two wrong arguments is named.
#
# **Example.** YaRN with $d_k = 8$, $\theta = 10^4$, factor 4, $L = 64$. The plain frequencies are 1, 0.1, 0.01, 0.001.
# $\mathrm{pair}(32) = -0.50$, so low is 0; $\mathrm{pair}(1) = 1.01$, so high is 2. The ramp is 0, 1/2, 1, 1, and
# the frequencies are 1, 0.0625, 0.0025, 0.00025. The attention factor is 1.13863.
#
# **Builds on** rope. **Sources:** Peng et al. 2023: YaRN, Efficient Context Window Extension of Large Language Models,
# [arXiv:2309.00071](https://arxiv.org/abs/2309.00071); Grattafiori et al. 2024: The Llama 3 Herd of Models,
# [arXiv:2407.21783](https://arxiv.org/abs/2407.21783).
#
# House rules hold: docs/house_rules.md.

# %% tags=["active-ipynb", "example"]
# # The example, in numbers
# from math import log, pi
#
# for turns in (32, 1):
#     print(f"pair({turns}) = {8 * log(64 / (2 * pi * turns)) / (2 * log(10000)):.2f}")
# for pair, share in enumerate((0, 0.5, 1, 1)):
#     plain = 10000 ** (-2 * pair / 8)
#     print(f"pair {pair}: {plain:.3f} becomes {plain * (1 - share) + plain / 4 * share:.5f}")

# %%
import math

import torch
from jaxtyping import Float
from torch import Tensor


# %%
def ntk_frequencies(d_k: int, theta: float, factor: float) -> Float[Tensor, "pairs"]:
    """The frequencies of a larger base, by which the slowest pair is slowed down by `factor`, and the fastest not.

    Raises:
        ValueError: d_k is odd or below 4, theta <= 1, or factor < 1.
    """
    raise NotImplementedError


# %%
def llama3_frequencies(
    d_k: int,
    theta: float,
    factor: float,
    original_max_len: int,
    low_freq_factor: float = 1.0,
    high_freq_factor: float = 4.0,
) -> Float[Tensor, "pairs"]:
    """Pairs that turn often are kept, those that turn seldom are slowed down by `factor`, with a ramp over turns.

    Raises:
        ValueError: d_k is odd, theta <= 1, factor < 1, a length is not positive, or the factors are not in order.
    """
    raise NotImplementedError


# %%
def yarn_frequencies(
    d_k: int, theta: float, factor: float, original_max_len: int, beta_fast: float = 32.0, beta_slow: float = 1.0
) -> tuple[Float[Tensor, "pairs"], float]:
    """The same with a ramp over pairs, from the one that turns `beta_fast` times to the one that turns `beta_slow`.

    The second result is what cosines and sines are to be multiplied by.

    Raises:
        ValueError: d_k is odd, theta <= 1, factor < 1, a length is not positive, or the betas are not in order.
    """
    raise NotImplementedError


# %% tags=["active-ipynb"]
# import sys
#
# sys.path.append("../..")  # the project
# from dojo import check
#
# check("rope_scaling")
