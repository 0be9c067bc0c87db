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
# Turns fall with the pair. Llama 3 has its ramp over turns, so it says how much to keep. YaRN has its ramp over pairs,
# so it says how much to slow down.

# %% [markdown] tags=["hint"]
# `w = theta ** (-torch.arange(0, d_k, 2, dtype=torch.float64) / d_k)`, `.clamp(0, 1)` for both ramps, `math.floor`,
# `math.ceil`, `max` and `min` for the bounds, and `.float()` at the end.

# %%
import math

import torch
from jaxtyping import Float
from torch import Tensor


# %%
### BEGIN SOLUTION
def plain_frequencies(d_k: int, theta: float) -> Float[Tensor, "pairs"]:
    """How far each pair turns in a token, in float64."""
    return theta ** (-torch.arange(0, d_k, 2, dtype=torch.float64) / d_k)


def validate(d_k: int, theta: float, factor: float, original_max_len: float) -> None:
    """Raise ValueError for what no recipe takes."""
    if d_k % 2 != 0:
        raise ValueError(f"d_k {d_k} is odd: RoPE turns pairs")
    if theta <= 1:
        raise ValueError(f"theta {theta} is not above 1")
    if factor < 1:
        raise ValueError(f"factor {factor} is below 1")
    if original_max_len <= 0:
        raise ValueError(f"original_max_len {original_max_len} is not positive")


### END SOLUTION


# %%
def ntk_frequencies(d_k: int, theta: float, factor: float) -> Float[Tensor, "pairs"]:
    """The frequencies of a larger base, by which the slowest pair is slowed down by `factor`, and the fastest not.

    Raises:
        ValueError: d_k is odd or below 4, theta <= 1, or factor < 1.
    """
    ### BEGIN SOLUTION
    validate(d_k, theta, factor, 1)
    if d_k < 4:
        raise ValueError(f"d_k {d_k} is below 4: one pair has no slower one")
    return plain_frequencies(d_k, theta * factor ** (d_k / (d_k - 2))).float()
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
    """Pairs that turn often are kept, those that turn seldom are slowed down by `factor`, with a ramp over turns.

    Raises:
        ValueError: d_k is odd, theta <= 1, factor < 1, a length is not positive, or the factors are not in order.
    """
    ### BEGIN SOLUTION
    validate(d_k, theta, factor, original_max_len)
    if low_freq_factor >= high_freq_factor:
        raise ValueError(f"low_freq_factor {low_freq_factor} is not below high_freq_factor {high_freq_factor}")
    w = plain_frequencies(d_k, theta)
    turns = original_max_len * w / (2 * math.pi)
    kept = ((turns - low_freq_factor) / (high_freq_factor - low_freq_factor)).clamp(0, 1)
    return (w * (kept + (1 - kept) / factor)).float()
    ### END SOLUTION


# %%
def yarn_frequencies(
    d_k: int, theta: float, factor: float, original_max_len: int, beta_fast: float = 32.0, beta_slow: float = 1.0
) -> tuple[Float[Tensor, "pairs"], float]:
    """The same with a ramp over pairs, from the one that turns `beta_fast` times to the one that turns `beta_slow`.

    The second result is what cosines and sines are to be multiplied by.

    Raises:
        ValueError: d_k is odd, theta <= 1, factor < 1, a length is not positive, or the betas are not in order.
    """
    ### BEGIN SOLUTION
    validate(d_k, theta, factor, original_max_len)
    if beta_slow >= beta_fast:
        raise ValueError(f"beta_slow {beta_slow} is not below beta_fast {beta_fast}")

    def pair_with(turns: float) -> float:
        return d_k * math.log(original_max_len / (2 * math.pi * turns)) / (2 * math.log(theta))

    low = max(math.floor(pair_with(beta_fast)), 0)
    high = min(math.ceil(pair_with(beta_slow)), d_k - 1)
    slowed = ((torch.arange(d_k // 2, dtype=torch.float64) - low) / (high - low)).clamp(0, 1)
    w = plain_frequencies(d_k, theta)
    frequencies = w * (1 - slowed) + w / factor * slowed
    return frequencies.float(), 0.1 * math.log(factor) + 1
    ### END SOLUTION


# %% [markdown] tags=["solution"]
# ## Why it is done this way
#
# **Interpolation** divides all frequencies by the factor: every angle has been seen, but neighbours are closer together
# than ever, and the model must learn anew to tell them apart. All three recipes spare the fast pairs.
#
# **NTK-aware.** The exponent of pair $i$ is $-2i/d_k$, so pair 0 does not notice a larger base, and the last one, with
# $i = (d_k - 2)/2$, is divided by $\mathrm{factor}^{\frac{d_k}{d_k - 2} \cdot \frac{d_k - 2}{d_k}} = \mathrm{factor}$.
# That is where the exponent comes from. Pairs in between that turned less than once still turn a little too far.
#
# **By turns.** Llama 3 and YaRN ask how often a pair turned in training. Llama 3 has its ramp over turns, YaRN over
# pairs, which is over the logarithm of the turns. Outside of the ramp they agree.
#
# **Temperature.** Among more keys a softmax is flatter. YaRN multiplies cosines and sines by
# $0.1 \ln(\mathrm{factor}) + 1$: queries and keys each get it once, scores its square. No kernel has to change.
#
# **What it costs.** $O(d_k)$ time and $4 \cdot d_k/2$ bytes, once: 256 bytes for heads of 128. At run time RoPE costs
# what it did.
#
# ## The other formulation
#
# `torch.lerp(w, w / factor, slowed)`, or the scale of each pair alone, `1 - slowed * (1 - 1 / factor)`. For Llama 3
# Meta compares wavelengths $2\pi / w_i$ with $L / \mathrm{low}$ and $L / \mathrm{high}$, in three branches.
#
# ## The usual mistakes
#
# - The ramp upside down: the fast pairs are slowed, and the model can no longer tell neighbours apart.
# - $2\pi$ left out: turns are radians then, and every bound is off by a factor of 6.
# - Wavelengths interpolated instead of frequencies: in the middle of the ramp that is another number.
# - $i$ taken for $2i$ in the ramp, or bounds that are not rounded: the authors' models were trained with these.
# - The attention factor on scores instead of cosines and sines: it is short of its square.

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
# plt.axvline(once, color="lightgray", label="turns once in 4,096 tokens")
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
# - It fails at once, not by and by: perplexity explodes a little behind the training length.
#
# Source: Chen et al. 2023, Position Interpolation, arXiv:2306.15595.
#
# ### What is lost when all positions are divided by the factor?
#
# - Neighbours differ by an eighth of an angle at a factor of 8: fast pairs lose their resolution.
# - Short texts get worse too. About 1,000 steps of training mend most of it.
#
# Source: Chen et al. 2023, arXiv:2306.15595; Peng et al. 2023, section 3.1, arXiv:2309.00071.
#
# ### Where does the exponent d/(d - 2) come from?
#
# - The last pair has the exponent $-(d - 2)/d$. For it to be slowed by just the factor, the base must grow by
#   $\mathrm{factor}^{d/(d-2)}$.
# - Pair 0 has the exponent 0, and stays.
#
# Source: Peng et al. 2023, section 3.1, arXiv:2309.00071.
#
# ### What did Llama 3.1 choose?
#
# - A base of 500,000 from the start, trained at 8,192; then a factor of 8, low 1 and high 4, to 128,000 tokens.
# - The length grew in six stages of training, each until retrieval was perfect again.
#
# Source: Grattafiori et al. 2024, section 3.4.2, arXiv:2407.21783.
#
# ### What is dynamic scaling?
#
# - The factor follows the length at hand, so that short texts are read as before.
# - With a cache of turned keys that is wrong: old keys have old frequencies. Cache them before they are turned.
#
# Source: Peng et al. 2023, section 3.3, arXiv:2309.00071.
#
# ### Why multiply the scores by more than 1?
#
# - More keys flatten the softmax: the weight of the right one falls with their number.
# - $(0.1 \ln 8 + 1)^2 = 1.46$ at a factor of 8, found by fits to perplexity.
# - In cosines and sines it is free, and works with every kernel.
#
# Source: Peng et al. 2023, section 3.4, arXiv:2309.00071.
#
# ### How would you check that a longer context works?
#
# - Perplexity by position: it should fall or stay, up to the last token.
# - Retrieval of a fact at any depth, then tasks that need several: the first is passed by models that fail the second.
# - The old benchmarks of short texts, which must not get worse.
#
# Source: Hsieh et al. 2024, RULER, arXiv:2404.06654.
