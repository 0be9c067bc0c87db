# %% [markdown]
# # RoPE for longer contexts
#
# $$w_i = \theta^{-2i/d_k}, \qquad i = 0, \dots, d_k/2 - 1$$
#
# A model with RoPE was trained on $L$ = `original_max_len` tokens and is to read `factor` times as many. Pairs that
# rotate often must stay as they are; pairs that rotate less than once must not rotate further than in training. Three
# recipes give new frequencies.
#
# **Write** `ntk_frequencies(d_k, theta, factor)`, with the base $\theta \cdot \mathrm{factor}^{d_k/(d_k - 2)}$ instead
# of $\theta$.
#
# **Write** `llama3_frequencies(d_k, theta, factor, original_max_len, low_freq_factor=1.0, high_freq_factor=4.0)`:
#
# $$r_i = \frac{L\, w_i}{2\pi}, \qquad s_i = \mathrm{clamp}\!\left(\frac{r_i - \mathrm{low}}{\mathrm{high} -
# \mathrm{low}}, 0, 1\right), \qquad w_i \left( s_i + \frac{1 - s_i}{\mathrm{factor}} \right)$$
#
# **Write** `yarn_frequencies(d_k, theta, factor, original_max_len, beta_fast=32.0, beta_slow=1.0)`, a tuple
# `(frequencies, attention_factor)`. The second, $0.1 \ln(\mathrm{factor}) + 1$, multiplies cosines and sines. With
# `low = max(floor(pair(beta_fast)), 0)` and `high = min(ceil(pair(beta_slow)), d_k - 1)`:
#
# $$\mathrm{pair}(r) = \frac{d_k \ln(L / (2\pi r))}{2 \ln \theta}, \qquad
# g_i = \mathrm{clamp}\!\left(\frac{i - \mathrm{low}}{\mathrm{high} - \mathrm{low}}, 0, 1\right), \qquad
# w_i\, (1 - g_i) + \frac{w_i}{\mathrm{factor}}\, g_i$$
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

# %% [markdown] tags=["contract"]
# <details><summary>Contract: Frequencies, Bounds, Errors</summary>
#
# - **Frequencies.** A float32 tensor of shape `(d_k/2,)`, whatever the default dtype. `attention_factor` is a float.
# - **Bounds.** YaRN's are rounded, and clamped to $d_k - 1$ although $i$ ends at $d_k/2 - 1$: so its authors have it,
#   and so models were trained. `low` is below `high`.
# - **Errors.** An odd `d_k`; a `factor` below 1.
#
# </details>

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

    Raises ValueError if d_k is odd, or factor below 1.
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
    """Pairs that rotate often are kept, those that rotate seldom are slowed down by `factor`, with a ramp over turns.

    Raises ValueError if d_k is odd, or factor below 1.
    """
    raise NotImplementedError


# %%
def yarn_frequencies(
    d_k: int, theta: float, factor: float, original_max_len: int, beta_fast: float = 32.0, beta_slow: float = 1.0
) -> tuple[Float[Tensor, "pairs"], float]:
    """The same with a ramp over pairs, from the one that rotates `beta_fast` times to the one that does `beta_slow`.

    The second result is what cosines and sines are to be multiplied by. Raises ValueError if d_k is odd, or factor
    below 1. Peng et al. 2023, arXiv:2309.00071.
    """
    raise NotImplementedError


# %% tags=["active-ipynb"]
# import sys
#
# sys.path.append("../..")  # the project
# from dojo import check
#
# check("rope_scaling")
