# ---
# jupyter:
#   dojo:
#     title: SwiGLU feed-forward
#     level: 1
#     minutes: 10
#     builds_on: [linear, activations]
#     sources:
#       - "Shazeer 2020: GLU variants improve transformer, arXiv:2002.05202"
#       - "Touvron et al. 2023: LLaMA, section 2.2, arXiv:2302.13971"
# ---

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

# %% [markdown] tags=["contract"]
# - **Gate.** Silu acts on `w1 x`, not on `w3 x`: a checkpoint depends on it. Gradients are finite far below zero too.
# - **Width.** `hidden_size` gives an `int` that is exact for every width. `multiple_of` is a multiple of 8; then it
#   makes no difference whether 8/3 of the width is rounded up or down first.
# - **Given width.** `d_ff` is taken as it is.

# %% [markdown] tags=["hint"]
# Three matrices, one formula. Write it down as it stands. Which projection goes through silu?

# %% [markdown] tags=["hint"]
# Rounding up in integers: `(a + b - 1) // b` is $a / b$ rounded up. Use it twice in `hidden_size`.
# Floats are not exact for every size.

# %% [markdown] tags=["hint"]
# One line: `self.w2(F.silu(self.w1(x)) * self.w3(x))`. The gate is the branch of `w1`.

# %% [markdown] tags=["idea"]
# Attention moves information between tokens; the feed-forward layer then works on each token alone. A plain one widens
# the vector, sets what is negative to zero and narrows it again: every channel opens or closes by its own value.
#
# A gated layer computes two numbers for each channel, both from the same token. One is the value. The other, the gate,
# says how much of the value passes: a gate of 5 lets nearly five times the value through, a gate of -5 only 3 % of it,
# with the sign turned. So one feature decides what becomes of another, like a faucet. On the left of the figure each
# line is one value.
#
# The price is a third matrix. At four times the model's width $d$ that makes $12 d^2$ weights, where a plain layer has
# $8 d^2$. On the right: a width of $8d/3$ makes them equal. It is then rounded up to a multiple of 64, because GPUs
# multiply matrices in tiles.

# %% tags=["active-ipynb", "figure"]
# """Left: what a channel passes on of the values 2, 1 and -1. It is nearly nothing at gates below -4, and at positive
# gates a line as steep as the value. Right, bars of weights: plain 8 d², gated of the same width 12, of width 8d/3
# 8."""
# import matplotlib.pyplot as plt
# import numpy as np
#
# gate, (left, right) = np.linspace(-6, 6, 200), plt.figure(figsize=(7.6, 3.4)).subplots(1, 2, width_ratios=(3, 2))
# for value, style in ((2, "-"), (1, "--"), (-1, ":")):
#     left.plot(gate, value * gate / (1 + np.exp(-gate)), style, label=f"value {value}")
# for n, (hatch, high) in enumerate((("//", [4, 4, 8 / 3]), ("--", [4, 4, 8 / 3]), ("xx", [np.nan, 4, 8 / 3]))):
#     bars = {"bottom": n * np.array(high), "hatch": hatch, "edgecolor": f"C{n}", "fill": False, "label": f"w{n + 1}"}
#     right.bar(("plain\n4d", "gated\n4d", "gated\n8d/3"), high, **bars)
# left.set(xlabel="gate", ylabel="what the channel passes on")
# right.set(xlabel="layer and its width", ylabel="weights, in units of d²")
# left.legend()
# right.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=3)

# %%
import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

# %% [markdown] tags=["step"]
# **One channel.** `gate` is its entry of $W_1 x$, `value` that of $W_3 x$. Give what goes on to $W_2$.

# %% tags=["active-ipynb", "step"]
# def passed_on(gate: float, value: float) -> float:
#     """What one channel hands to the last projection."""
#     ### BEGIN SOLUTION
#     return float(F.silu(torch.tensor(gate))) * value
#     ### END SOLUTION

# %% [markdown] tags=["step-cases"]
# passed_on(2.0, -3.0) = -5.28478
# passed_on(2.0, -3.0) ≠ -0.28456: silu acts on the value; it belongs on the gate
# passed_on(2.0, -3.0) ≠ -0.25062: silu acts on both; the value passes as it is
# passed_on(2.0, -3.0) ≠ -0.01484: silu acts on the product; it acts on the gate, before that multiplies
# passed_on(2.0, -3.0) ≠ -1.23841: silu acts on the gate, and the two are added; a gate multiplies
# passed_on(2.0, -3.0) ≠ 1.76159: the value takes no part
# passed_on(2.0, -3.0) ≠ -2.64239: sigmoid is the plain GLU; silu multiplies the sigmoid by its own argument
# passed_on(2.0, -3.0) ≠ -0.71522: the sign in the exponent is turned: silu(z) is z / (1 + exp(-z))
# passed_on(2.0, -3.0) ≠ -5.86350: gelu is GEGLU; the Swi in SwiGLU is silu
# passed_on(2.0, -3.0) ≠ -6: relu is ReGLU; silu is smooth

# %% [markdown] tags=["step"]
# **Tiles.** How many tiles of `size` entries cover a width? The last one may be partly empty.

# %% tags=["active-ipynb", "step"]
# def tiles(width: int, size: int) -> int:
#     """The fewest tiles that cover the width."""
#     ### BEGIN SOLUTION
#     return -(-width // size)
#     ### END SOLUTION

# %% [markdown] tags=["step-cases"]
# tiles(267, 64) = 5
# tiles(267, 64) ≠ 4: rounded down or to the nearest, which leaves 11 entries without a tile
# tiles(267, 64) ≠ 4.171875: not rounded; a number of tiles is whole
# tiles(128, 64) = 2
# tiles(128, 64) ≠ 3: one tile too many where the width is a multiple already

# %% [markdown] tags=["experiment"]
# The input grows by ten from line to line: by what factor does the output grow, and why? Then give `SwiGLU` a `dtype`
# of `torch.float16`, and `x` too: at which scale is the output no longer finite? That is why a norm stands before the
# layer. Further reading: Shazeer 2020, arXiv:2002.05202, section 2; Dauphin et al. 2016, arXiv:1612.08083, section 3,
# on a gate's gradients.

# %% tags=["active-ipynb", "experiment"]
# torch.manual_seed(0)
# layer, x = SwiGLU(64, 256), torch.randn(100, 64)
# for scale in (1, 10, 100, 1000):
#     print(f"input {scale:6}   output {layer(scale * x).abs().max():.3g}")


# %%
def hidden_size(d_model: int, multiple_of: int = 64) -> int:
    """8/3 of d_model, rounded up to a multiple: the gated width that costs what 4 · d_model costs without a gate.

    Touvron et al. 2023, arXiv:2302.13971, section 2.2.
    """
    ### BEGIN SOLUTION
    width = (8 * d_model + 2) // 3
    multiples = (width + multiple_of - 1) // multiple_of
    return multiples * multiple_of
    ### END SOLUTION


# %%
class SwiGLU(nn.Module):
    """Feed-forward layer gated by silu.

    Shazeer 2020, arXiv:2002.05202, equation 6.
    """

    def __init__(self, d_model: int, d_ff: int | None = None, *, device=None, dtype=None):
        ### BEGIN SOLUTION
        super().__init__()
        if d_ff is None:
            d_ff = hidden_size(d_model)
        self.w1 = nn.Linear(d_model, d_ff, bias=False, device=device, dtype=dtype)
        self.w2 = nn.Linear(d_ff, d_model, bias=False, device=device, dtype=dtype)
        self.w3 = nn.Linear(d_model, d_ff, bias=False, device=device, dtype=dtype)
        ### END SOLUTION

    def forward(self, x: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch d_model"]:
        """w2(silu(w1 x) ⊙ w3 x), for each token alone."""
        ### BEGIN SOLUTION
        return self.w2(F.silu(self.w1(x)) * self.w3(x))
        ### END SOLUTION


# %% [markdown] tags=["solution"]
# ## Why it is done this way
#
# **Why 8/3.** A plain feed-forward layer has two matrices of $d \times 4d$: $8 d^2$ weights. SwiGLU has three, so at
# $\tfrac83 d$ it has $8 d^2$ as well, and the two can be compared. Multiples of 64 fill the tiles of tensor cores.
#
# **Why integers.** `math.ceil(8 / 3 * d_model)` starts from a rounded 8/3. It happens to be right for every realistic
# width, but integers need no proof.
#
# **Why gating.** Silu closes a channel for one token and opens it for another, so the layer forms products of features
# and not only sums. That product grows with the **square** of the input. It fits float16 because the input is
# normalized; bfloat16 has the range of float32 anyway.
#
# **What it costs.** $6\, n\, d\, d_{\mathrm{ff}}$ FLOPs for $n$ tokens. In Llama 2 7B ($d$ 4,096, $d_{\mathrm{ff}}$
# 11,008) a layer has 135 million weights, 271 MB in bfloat16. 8,192 tokens take 2.2 TFLOPs, 2.2 ms on an H100:
# compute-bound. One token reads every weight from HBM, 81 µs at 3.35 TB/s: memory-bound. Eager silu and product
# move five tensors of $n \times d_{\mathrm{ff}}$, 0.27 ms; fused into one kernel they move three, 0.16 ms.
#
# ## The other formulation
#
# One weight of shape `(2 * d_ff, d_model)` and `gate, value = self.w13(x).chunk(2, dim=-1)`: one large GEMM instead of
# two, which fills a GPU better at small batches. Which half is the gate is a convention of the checkpoint.
#
# ## The usual mistakes
#
# - Silu on `w3 x`, on the product, or on both. All have the right shape.
# - `sigmoid` instead of `silu`: that is GLU.
# - Rounding to a multiple when it is one already: `width + multiple_of - width % multiple_of`.
# - A default width of `4 * d_model`.
# - Biases from `nn.Linear`'s default.

# %% [markdown] tags=["solution", "questions"]
# ## What interviewers ask next
#
# ### Why is the width 8/3 of d_model, rounded up?
#
# - Three matrices of $\frac83 d^2$ hold $8 d^2$ weights, as many as two of $4 d^2$. So the comparison is fair.
# - Multiples of 64 or more fill the tiles of tensor cores, and divide by the devices that share the layer.
# - Models differ: Llama 7B rounds 10,923 up to 11,008, a multiple of 256, and others choose wider on purpose. Read it
#   from the checkpoint.
#
# Source: Touvron et al. 2023, section 2.2, arXiv:2302.13971.
#
# ### silu, gelu or sigmoid as the gate: which would you choose?
#
# - The paper's differences between silu and gelu are within the noise. Both beat the plain sigmoid a little. It gives
#   no theory for it.
# - For a new model the one that kernels and other models have: silu.
# - For a checkpoint its own. A swap costs quality although every shape fits.
#
# Source: Shazeer 2020, section 3, arXiv:2002.05202.
#
# ### How many MB does eager PyTorch save for the backward of `tokens` tokens with `d_ff` channels, input aside?
#
# - silu saves its input, the product both factors, the last matrix its input: four tensors of $n\, d_{\mathrm{ff}}$,
#   two bytes an entry in bfloat16.
# - A fused kernel saves the two projections and recomputes silu and the product: half of that.
# - Recomputing the whole block saves its input alone, for one more forward.
#
# Answer: `4 * 2 * tokens * d_ff / 1e6` MB, within 5 %. Settings: `tokens` 2048, 8192; `d_ff` 11008, 14336.
#
# Source: Hsu et al. 2024, Liger kernel, arXiv:2410.10989.
#
# ### How many µs does this layer take at least to decode one token at widths `d` and `d_ff`, in bfloat16 on an H100?
#
# - Three matrices of $d\, d_{\mathrm{ff}}$ come from HBM once, at 3.35 TB/s. 2 FLOPs a weight are nothing beside it.
# - A batch shares the reading: up to about 300 sequences a step takes hardly longer.
# - Fewer bits a weight help here, and not in prefill, which is compute-bound.
#
# Answer: `2 * 3 * d * d_ff / 3.35e12 * 1e6` µs, within 10 %. Settings: `d` 4096, 8192; `d_ff` 14336, 28672.
#
# Source: Pope et al. 2022, section 2, arXiv:2211.05102.
#
# ### How is it split over devices?
#
# - `w1` and `w3` by outputs, `w2` by inputs: one all-reduce at the end.
# - Merged into one matrix, gate and value must be cut so that each device holds matching rows of both.
# - A cut through the middle of `(2 * d_ff, d_model)` gives one device all gates and the other all values.
#
# Source: Shoeybi et al. 2019, section 3, arXiv:1909.08053.
