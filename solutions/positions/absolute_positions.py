# ---
# jupyter:
#   dojo:
#     title: Sinusoidal and learned positions
#     level: 2
#     minutes: 12
#     builds_on: [embedding]
#     sources:
#       - "Vaswani et al. 2017: Attention is all you need, section 3.5, arXiv:1706.03762"
#       - "Devlin et al. 2018: BERT, arXiv:1810.04805"
# ---

# %% [markdown]
# # Sinusoidal and learned positions
#
# $$y_p = x_p + T_p, \qquad T_{p, 2i} = \sin\!\big(p / 10000^{2i/d}\big), \quad
# T_{p, 2i+1} = \cos\!\big(p / 10000^{2i/d}\big)$$
#
# Attention does not know the order of its tokens. The simplest remedy is to add a vector to each token that says where
# it stands. In 2017 these vectors were sines and cosines of many speeds. BERT and GPT-2 learned them instead.
#
# **Write** two modules whose `forward(x)` adds the first `seq` rows of a table to `x` of shape `(..., seq, d_model)`:
#
# - `SinusoidalPositions(max_len, d_model, *, device=None, dtype=None)`: the table above, without parameters;
# - `LearnedPositions(max_len, d_model, *, device=None, dtype=None)`: the table is the parameter `weight`, of shape
#   `(max_len, d_model)`.
#
# **Example.** With `d_model = 4` the speeds are $1$ and $10000^{-2/4} = 0.01$. Row 0 of the table is $(0, 1, 0, 1)$.
# Row 2 is $(\sin 2, \cos 2, \sin 0.02, \cos 0.02) = (0.909, -0.416, 0.020, 1.000)$.

# %% [markdown] tags=["contract"]
# - **Far positions.** Angles in float32 at least, in a bfloat16 model too. The sum may be rounded as often as you like.
# - **Initialization.** `weight` is drawn from a normal of mean 0 and standard deviation 0.02, not truncated.

# %% [markdown] tags=["hint"]
# Make the angles first, one for each position and each **pair** of columns: `positions[:, None] * speeds[None, :]`.

# %% [markdown] tags=["hint"]
# `torch.arange(0, d_model, 2)` holds the $2i$. Fill `table[:, 0::2]` and `table[:, 1::2]`.

# %% [markdown] tags=["hint"]
# A buffer registered with `persistent=False` moves with the module and stays out of the state dict. A float32 table
# makes a float32 sum: the result goes back to the dtype of `x`.

# %%
import torch
from jaxtyping import Float
from torch import Tensor, nn


# %%
class SinusoidalPositions(nn.Module):
    """Add sines and cosines of the position to x. Vaswani et al. 2017, arXiv:1706.03762, section 3.5."""

    def __init__(self, max_len: int, d_model: int, *, device=None, dtype=None):
        ### BEGIN SOLUTION
        super().__init__()
        table = torch.empty(max_len, d_model, device=device, dtype=torch.float32)
        self.register_buffer("table", table, persistent=False)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Fill the table, which no state dict holds."""
        max_len, d_model = self.table.shape
        position = torch.arange(max_len, dtype=torch.float64)
        frequency = 10000.0 ** (-torch.arange(0, d_model, 2, dtype=torch.float64) / d_model)
        angles = torch.outer(position, frequency)
        self.table[:, 0::2] = angles.sin()
        self.table[:, 1::2] = angles.cos()
        ### END SOLUTION

    def forward(self, x: Float[Tensor, "*batch seq d_model"]) -> Float[Tensor, "*batch seq d_model"]:
        """x plus the first rows of the table."""
        ### BEGIN SOLUTION
        return (x + self.table[: x.shape[-2]]).to(x.dtype)
        ### END SOLUTION


# %%
class LearnedPositions(nn.Module):
    """Add a learned vector for each position to x.

    The weight is normal with standard deviation 0.02. Devlin et al. 2018, arXiv:1810.04805.
    """

    def __init__(self, max_len: int, d_model: int, *, device=None, dtype=None):
        ### BEGIN SOLUTION
        super().__init__()
        self.weight = nn.Parameter(torch.empty(max_len, d_model, device=device, dtype=dtype))
        nn.init.normal_(self.weight, mean=0.0, std=0.02)
        ### END SOLUTION

    def forward(self, x: Float[Tensor, "*batch seq d_model"]) -> Float[Tensor, "*batch seq d_model"]:
        """x plus the first rows of the weight."""
        ### BEGIN SOLUTION
        length = x.shape[-2]
        return x + self.weight[:length]
        ### END SOLUTION


# %% [markdown] tags=["solution"]
# ## Why it is done this way
#
# **Why sines of many speeds.** Each pair of columns is the hand of a clock, from a fast one that goes round in 6 tokens
# to one that takes 60,000. RoPE took the idea and rotates queries and keys themselves.
#
# **The table.** A buffer moves with the module, `persistent=False` keeps it out of checkpoints, and `reset_parameters`
# fills it where a model is built on `meta`. In float64 the angles cost nothing, as they are computed once on the CPU;
# in float32 they are off by up to $8 \cdot 10^{-4}$ below position 10,000. In bfloat16 4,096 positions become 769.
#
# **What it costs.** One addition an entry, for one read and one write: 0.25 FLOPs a byte in bfloat16, memory-bound. At
# width 4,096 and 8,192 tokens that is 40 µs on an H100 at 3.35 TB/s, once a model and not once a layer, as RoPE. The
# 1,024 learned rows of GPT-2 small are 0.79 of its 124 million weights.
#
# ## The other formulation
#
# `torch.exp(torch.arange(0, d, 2) * (-math.log(10000.0) / d))` gives the same speeds, and is found in most tutorials.
# Interleaving can also be written `torch.stack([sin, cos], -1).flatten(-2)`. Some libraries put all sines first and all
# cosines second: the same information in another order, and another checkpoint.
#
# ## The usual mistakes
#
# - $10000^{-i/d}$ instead of $10000^{-2i/d}$. `torch.arange(0, d, 2)` already holds the $2i$.
# - Sines in the first half of the columns.
# - The table as a parameter, or saved in the state dict.
# - `x += ...`, which overwrites the caller's tensor.
# - Slicing `table[: x.shape[1]]`, which is the sequence only for inputs of three dimensions.

# %% tags=["active-ipynb", "solution"]
# # The table, and how alike two positions are: the dot product falls off with the distance, wherever the two stand
# import matplotlib.pyplot as plt
#
# table = SinusoidalPositions(64, 32)(torch.zeros(1, 64, 32))[0]
# figure, (left, right) = plt.subplots(1, 2, figsize=(11, 3.8), layout="constrained")
# figure.colorbar(left.imshow(table, aspect="auto"), ax=left, label="value added to the token")
# left.set(xlabel="dimension: sine, cosine, sine, …", ylabel="position")
# for position in (10, 32, 54):
#     right.plot(table @ table[position], label=f"position {position}")
# right.set(xlabel="position", ylabel="dot product")
# right.legend()
# plt.show()

# %% [markdown] tags=["solution", "questions"]
# ## What interviewers ask next
#
# ### Why sines and cosines of many speeds?
#
# - Each pair is the hand of a clock. Fast ones separate neighbors, slow ones distant tokens.
# - $T_{p+k}$ is $T_p$ with every pair rotated by an angle that depends on $k$ alone. So an offset is one linear map.
# - The product $T_p \cdot T_{p+k} = \sum_i \cos(k \omega_i)$ does not depend on $p$.
# - Sine without cosine would give the two sides of a hand's swing the same value.
#
# Source: Vaswani et al. 2017, section 3.5, arXiv:1706.03762.
#
# ### How long, as a vector, is a row of sines and cosines of width `width`?
#
# - Each pair adds $\sin^2 + \cos^2 = 1$ to the square of the length, so the length is $\sqrt{d/2}$ at every position.
# - Token vectors with entries of $1/\sqrt d$ have length 1. So the paper multiplies them by $\sqrt d$.
# - Learned positions start with deviation 0.02, as the token vectors of BERT and GPT-2 do. Training settles the rest.
#
# Answer: `sqrt(width / 2)`, within 5 %. Settings: `width` 128, 512, 2048.
#
# Source: Vaswani et al. 2017, section 3.4, arXiv:1706.03762.
#
# ### By how many bytes do `positions` learned rows of width `width` grow training with Adam in mixed precision?
#
# - 16 bytes a weight: 2 for it and 2 for its gradient in bfloat16, 12 for a float32 copy and two moments.
# - The sinusoidal table takes 4 bytes an entry and has no gradient.
# - Rows that few texts reach are hardly trained: the last positions of a long context are the worst.
#
# Answer: `16 * positions * width` bytes, within 10 %. Settings: `positions` 1024, 131072; `width` 768, 8192.
#
# Source: Rajbhandari et al. 2019, section 3.1, arXiv:1910.02054.
#
# ### What changes with a KV cache?
#
# - A new token gets the row of its own position, not row 0. Forgetting the offset gives every token the first row.
# - Keys in the cache hold their absolute position. Cut the oldest away and the rest cannot be renumbered.
# - Left-padded batches need a row of positions for each sequence.
# - The cost is nothing: one row added at the entrance, and no work in the layers.
#
# Source: Dai et al. 2019, section 3.3, arXiv:1901.02860.
