# ---
# jupyter:
#   dojo:
#     title: RoPE for longer contexts
#     level: 3
#     minutes: 25
#     builds_on: [rope]
#     sources:
#       - "Peng et al. 2023: YaRN, Efficient Context Window Extension of Large Language Models, arXiv:2309.00071"
#       - "Grattafiori et al. 2024: The Llama 3 Herd of Models, arXiv:2407.21783"
# ---

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

# %% [markdown] tags=["contract"]
# - **Frequencies.** A float32 tensor of shape `(d_k/2,)`, whatever the default dtype. `attention_factor` is a float.
# - **Bounds.** YaRN's are rounded, and clamped to $d_k - 1$ although $i$ ends at $d_k/2 - 1$: so its authors have it,
#   and so models were trained. `low` is below `high`.
# - **Errors.** An odd `d_k`; a `factor` below 1.

# %% tags=["active-ipynb", "example"]
# # The example, in numbers
# from math import log, pi
#
# for turns in (32, 1):
#     print(f"pair({turns}) = {8 * log(64 / (2 * pi * turns)) / (2 * log(10000)):.2f}")
# for pair, share in enumerate((0, 0.5, 1, 1)):
#     plain = 10000 ** (-2 * pair / 8)
#     print(f"pair {pair}: {plain:.3f} becomes {plain * (1 - share) + plain / 4 * share:.5f}")

# %% [markdown] tags=["hint"]
# All three begin with the plain frequencies, and need one number for each pair: how much of `1 / factor` it gets.

# %% [markdown] tags=["hint"]
# Llama 3 has its ramp over turns, so it says how much to keep. YaRN has its ramp over pairs, so it says how much to
# slow down.

# %% [markdown] tags=["hint"]
# `w = theta ** (-torch.arange(0, d_k, 2, dtype=torch.float32) / d_k)`, `.clamp(0, 1)` for both ramps, `math.floor`,
# `math.ceil`, `max` and `min` for the bounds.

# %%
import math

import torch
from jaxtyping import Float
from torch import Tensor


# %%
### BEGIN SOLUTION
def plain_frequencies(d_k: int, theta: float) -> Float[Tensor, "pairs"]:
    """How far each pair rotates in a token."""
    return theta ** (-torch.arange(0, d_k, 2, dtype=torch.float32) / d_k)


def validate(d_k: int, factor: float) -> None:
    """Raise ValueError for what no recipe takes."""
    if d_k % 2 != 0:
        raise ValueError(f"d_k {d_k} is odd: RoPE rotates pairs")
    if factor < 1:
        raise ValueError(f"factor {factor} is below 1")


### END SOLUTION


# %%
def ntk_frequencies(d_k: int, theta: float, factor: float) -> Float[Tensor, "pairs"]:
    """The frequencies of a larger base, by which the slowest pair is slowed down by `factor`, and the fastest not.

    Raises ValueError if d_k is odd, or factor below 1.
    """
    ### BEGIN SOLUTION
    validate(d_k, factor)
    return plain_frequencies(d_k, theta * factor ** (d_k / (d_k - 2)))
    ### END SOLUTION


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
    ### BEGIN SOLUTION
    validate(d_k, factor)
    w = plain_frequencies(d_k, theta)
    turns = original_max_len * w / (2 * math.pi)
    kept = ((turns - low_freq_factor) / (high_freq_factor - low_freq_factor)).clamp(0, 1)
    return w * (kept + (1 - kept) / factor)
    ### END SOLUTION


# %%
def yarn_frequencies(
    d_k: int, theta: float, factor: float, original_max_len: int, beta_fast: float = 32.0, beta_slow: float = 1.0
) -> tuple[Float[Tensor, "pairs"], float]:
    """The same with a ramp over pairs, from the one that rotates `beta_fast` times to the one that does `beta_slow`.

    The second result is what cosines and sines are to be multiplied by. Raises ValueError if d_k is odd, or factor
    below 1. Peng et al. 2023, arXiv:2309.00071.
    """
    ### BEGIN SOLUTION
    validate(d_k, factor)

    def pair_with(turns: float) -> float:
        return d_k * math.log(original_max_len / (2 * math.pi * turns)) / (2 * math.log(theta))

    low = max(math.floor(pair_with(beta_fast)), 0)
    high = min(math.ceil(pair_with(beta_slow)), d_k - 1)
    slowed = ((torch.arange(d_k // 2, dtype=torch.float32) - low) / (high - low)).clamp(0, 1)
    w = plain_frequencies(d_k, theta)
    return w * (1 - slowed) + w / factor * slowed, 0.1 * math.log(factor) + 1
    ### END SOLUTION


# %% [markdown] tags=["solution"]
# ## Why it is done this way
#
# **Interpolation** divides all frequencies by the factor: every angle has been seen, but neighbors are closer together
# than ever, and the model must learn anew to tell them from each other. All three recipes spare the fast pairs.
#
# **NTK-aware.** Pair 0 has the exponent 0 and does not notice a larger base. The last one, with $i = (d_k - 2)/2$, is
# divided by $\mathrm{factor}^{\frac{d_k}{d_k - 2} \cdot \frac{d_k - 2}{d_k}} = \mathrm{factor}$: that is where the
# exponent comes from. Pairs in between that rotated less than once still rotate a little too far.
#
# **By turns.** Llama 3 and YaRN ask how often a pair rotated in training. Llama 3 has its ramp over turns, YaRN over
# pairs, which is over the logarithm of the turns. Outside of the ramp they agree.
#
# **Temperature.** Among more keys a softmax is flatter. Queries and keys each get `attention_factor` once, scores its
# square, 1.46 at a factor of 8. It is in the table of cosines and sines already: no kernel changes.
#
# **What it costs.** Less than 100 µs of the host, once, for 256 bytes with heads of 128. At run time RoPE costs what it
# did. The context is what costs: 128,000 tokens of Llama 3 8B have a KV cache of 16.8 GB in bfloat16, 8,192 1.1 GB.
#
# ## The other formulation
#
# `torch.lerp(w, w / factor, slowed)`. For Llama 3 Meta compares wavelengths $2\pi / w_i$ with $L / \mathrm{low}$ and
# $L / \mathrm{high}$, in three branches. gpt-oss has YaRN without rounded bounds (`truncate=False` in transformers).
#
# ## The usual mistakes
#
# - The ramp upside down: the fast pairs are slowed, and neighbors look alike. Published code has had it.
# - $2\pi$ left out: turns are radians then, and every bound is off by a factor of 6.
# - Wavelengths interpolated instead of frequencies: in the middle of the ramp that is another number.
# - $i$ taken for $2i$ in the ramp.
# - `attention_factor` applied to scores once: it is short of its square.

# %% tags=["active-ipynb", "solution"]
# # What becomes of each pair, for heads of 128 that read 8 times as far: the share of its frequency that is left
# import matplotlib.pyplot as plt
#
# sizes = 128, 10000.0, 8.0
# recipes = {
#     "NTK-aware": ntk_frequencies(*sizes),
#     "Llama 3": llama3_frequencies(*sizes, 4096),
#     "YaRN": yarn_frequencies(*sizes, 4096)[0],
# }
# plain = 10000.0 ** (-torch.arange(64) / 64)
# for name, frequencies in recipes.items():
#     plt.plot(frequencies / plain, label=name)
# plt.axhline(1 / 8, color="gray", linestyle=":", label="interpolation")
# once = int((4096 * plain > 2 * math.pi).sum())
# plt.axvline(once, color="lightgray", label="rotates once in 4,096 tokens")
# plt.xlabel("pair")
# plt.ylabel("new frequency / old frequency")
# plt.legend()
# plt.show()

# %% [markdown] tags=["solution", "questions"]
# ## What interviewers ask next
#
# ### Why does a model with RoPE fail beyond its training length?
#
# - Slow pairs reach angles that were never seen. Scores there are arbitrary, and some are huge.
# - It fails at once, not by and by: perplexity explodes a little after the training length.
#
# Source: Chen et al. 2023, Position Interpolation, arXiv:2306.15595.
#
# ### How many tokens does pair `i` of a head of 128 take for a full turn, with a base of `theta`?
#
# - A wavelength of $2\pi / w_i = 2\pi\, \theta^{2i/d_k}$ tokens.
# - With a base of 10,000 and 4,096 tokens pairs from 46 on never complete a turn in training.
# - A base of 500,000, as Llama 3 has, makes the slowest wavelength 2.6 million tokens.
#
# Answer: `2 * 3.14159265 * theta ** (2 * i / 128)` tokens, within 5 %. Settings: `i` 16, 32, 48, 60; `theta` 10000,
# 500000.
#
# Source: Peng et al. 2023, section 3.1, arXiv:2309.00071.
#
# ### What is lost when all positions are divided by the factor?
#
# - Neighbors differ by an eighth of an angle at a factor of 8: fast pairs lose their resolution.
# - Short texts get worse too. About 1,000 steps of training mend most of it.
#
# Source: Chen et al. 2023, arXiv:2306.15595; Peng et al. 2023, section 3.1, arXiv:2309.00071.
#
# ### YaRN with a `factor`: by what are scores multiplied?
#
# - Queries and keys are rotated with cosines and sines that are larger by $0.1 \ln(\mathrm{factor}) + 1$ each, and a
#   score is their product.
# - More keys flatten the softmax. The number was found by fits to perplexity.
#
# Answer: `(0.1 * log(factor) + 1) ** 2`, within 2 %. Settings: `factor` 4, 8, 16, 40.
#
# Source: Peng et al. 2023, section 3.4, arXiv:2309.00071.
#
# ### What is dynamic scaling, and what does it do to a KV cache?
#
# - The factor follows the length at hand, so that short texts are read as before.
# - With a cache of rotated keys that is wrong: old keys have old frequencies. Cache them before they are rotated.
#
# Source: Peng et al. 2023, section 3.3, arXiv:2309.00071.
