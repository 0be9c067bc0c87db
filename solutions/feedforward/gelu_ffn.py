# ---
# jupyter:
#   dojo:
#     title: Feed-forward layer with GELU
#     level: 1
#     minutes: 10
#     builds_on: [linear, activations]
#     sources:
#       - "Vaswani et al. 2017: Attention is all you need, section 3.3, arXiv:1706.03762"
#       - "Hendrycks, Gimpel 2016: Gaussian error linear units, arXiv:1606.08415"
#       - "Srivastava et al. 2014: Dropout, https://jmlr.org/papers/v15/srivastava14a.html"
# ---

# %% [markdown]
# # Feed-forward layer with GELU
#
# $$\mathrm{ffn}(x) = W_2\, \mathrm{dropout}\big(\mathrm{gelu}(W_1 x + b_1)\big) + b_2, \qquad
# \mathrm{gelu}(z) = z \cdot \tfrac12 \Big(1 + \mathrm{erf}\big(z / \sqrt 2\big)\Big)$$
#
# Attention moves information between tokens. The feed-forward layer works on each token alone: it widens the vector,
# applies an activation, and narrows it again. BERT and GPT-2 are built so.
#
# **Write** `FeedForward(d_model, d_ff, dropout=0.0, *, device=None, dtype=None)` with `forward(x)`, from
# `(..., d_model)` to the same shape.
#
# Its parameters are `fc1.weight` `(d_ff, d_model)`, `fc1.bias` `(d_ff,)`, `fc2.weight` `(d_model, d_ff)` and `fc2.bias`
# `(d_model,)`. No operation is forbidden.
#
# **Example.** `d_model = d_ff = 1`, all weights 1, `fc1.bias` 0, `fc2.bias` 0.5. Half of a normal distribution lies
# below 0 and 0.841 of it below 1. So `gelu(1)` is 0.841 and the layer gives 1.341 for 1. For -1 it gives
# $-1 \cdot 0.159 + 0.5 = 0.341$. With `dropout=0.5` in training, 1 gives either $0.5$ or $2 \cdot 0.841 + 0.5 = 2.183$.

# %% [markdown] tags=["contract"]
# - **GELU.** The exact function with erf, not the tanh approximation.
# - **Dropout.** In training mode alone, each entry on its own: 0 with probability `dropout`, else divided by
#   `1 - dropout`. Every call draws anew, and no gradient flows through an entry that was dropped. It acts after gelu,
#   or after `fc2` as in BERT and GPT-2.
# - **Dropout of 1.** It drops everything; values and gradients stay finite.
# - **Half precision.** erf and `1 + erf` in float32. The product with `z` may be rounded once more.

# %% [markdown] tags=["hint"]
# `F.gelu` is exact by default. `nn.Dropout` knows the mode of its module; `F.dropout` takes it as an argument:
# `F.dropout(h, p, self.training)`.

# %% [markdown] tags=["hint"]
# The order is fc1, gelu, dropout, fc2. The second layer follows the dropout, so its bias is never dropped.

# %%
import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn


# %%
class FeedForward(nn.Module):
    """fc2(dropout(gelu(fc1 x))) for each token alone; dropout in training mode alone.

    Vaswani et al. 2017, arXiv:1706.03762, section 3.3, with the exact gelu of Hendrycks, Gimpel 2016.
    """

    def __init__(self, d_model: int, d_ff: int, dropout: float = 0.0, *, device=None, dtype=None):
        ### BEGIN SOLUTION
        super().__init__()
        self.fc1 = nn.Linear(d_model, d_ff, device=device, dtype=dtype)
        self.dropout = nn.Dropout(dropout)
        self.fc2 = nn.Linear(d_ff, d_model, device=device, dtype=dtype)
        ### END SOLUTION

    def forward(self, x: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch d_model"]:
        """The layer applied to each vector of x."""
        ### BEGIN SOLUTION
        hidden = F.gelu(self.fc1(x))
        hidden = self.dropout(hidden)
        return self.fc2(hidden)
        ### END SOLUTION


# %% [markdown] tags=["solution"]
# ## Why it is done this way
#
# **Why an activation.** Without one $W_2 W_1$ is a single matrix of rank at most $d$, and the width buys nothing. GELU
# weights its input by the share of a normal distribution below it. It is smooth, and slightly negative for small
# negative inputs, so its gradient does not vanish below 0 as that of ReLU does.
#
# **Half precision.** PyTorch computes gelu of a half tensor in float32 and rounds once. Written out in float16,
# `1 + erf` at $-4$ is 0, where $-4\, \Phi(-4)$ is $-1.3 \cdot 10^{-4}$.
#
# **What it costs.** $4\, n\, d\, d_{\mathrm{ff}}$ FLOPs for $n$ tokens. In GPT-2 XL ($d$ 1,600, $d_{\mathrm{ff}}$
# 6,400) a layer has 20.5 million weights, 41 MB in bfloat16. 8,192 tokens take 336 GFLOPs, 0.34 ms on an H100. gelu as
# a kernel of its own reads and writes the hidden vectors, 210 MB, 0.06 ms: a fifth more, unless it is fused into the
# epilogue of the GEMM. To decode one token the weights come from HBM once: 12 µs, memory-bound.
#
# ## The other formulation
#
# $\tfrac12 z (1 + \tanh(\sqrt{2/\pi}\,(z + 0.044715 z^3)))$ is GPT-2's approximation, from a time when erf was slow.
# It differs by up to $5 \cdot 10^{-4}$: enough to matter when a checkpoint is loaded with the wrong one.
#
# ## The usual mistakes
#
# - Dropout in evaluation mode: `F.dropout(h, p)` has `training=True` as its default.
# - Dropout before gelu.
# - A mask drawn without dividing by $1 - p$: the mean shrinks in training only.

# %% [markdown] tags=["solution", "questions"]
# ## What interviewers ask next
#
# ### Why four times the width?
#
# - A habit since 2017. Two matrices of $4 d^2$ hold twice what the attention's $4 d^2$ do.
# - The loss depends little on the ratio, over a wide range of it.
# - With three matrices the same weights give 8/3, which is where SwiGLU's width comes from.
#
# Source: Kaplan et al. 2020, section 3.1, arXiv:2001.08361.
#
# ### How many MB does the backward need of `tokens` tokens at width `d`, 4 · d inside, in bfloat16 without dropout?
#
# - The input of each matrix and that of gelu: $2d + 8d + 8d$ bytes a token. Dropout adds a mask of one byte an entry.
# - Recomputing gelu from its input saves $8d$ of $18d$ for almost no time.
# - Nothing of it is kept in inference.
#
# Answer: `18 * d * tokens / 1e6` MB, within 5 %. Settings: `d` 1600, 4096; `tokens` 2048, 8192.
#
# Source: Korthikanti et al. 2022, section 4.1, arXiv:2205.05198.
#
# ### By how many percent does dropout of rate `p` raise the mean square of an entry in training?
#
# - A share $1 - p$ is kept and multiplied by $1/(1-p)$: the mean is that of evaluation, the mean square $1/(1-p)$ of
#   it.
# - So a norm after dropout sees other statistics in training than in evaluation.
# - Test it by many draws: the share of zeros, the mean, two calls that differ. In evaluation mode it is the identity.
#
# Answer: `100 * p / (1 - p)` percent, within 3 %. Settings: `p` 0.1, 0.2, 0.5.
#
# Source: Srivastava et al. 2014, section 10, https://jmlr.org/papers/v15/srivastava14a.html.
#
# ### How is it split over devices?
#
# - $W_1$ by outputs and $W_2$ by inputs: gelu acts on each part alone, and one all-reduce at the end joins them.
# - $b_2$ is added once, after the all-reduce.
# - Dropout inside needs other seeds on each device, dropout after the all-reduce the same.
#
# Source: Shoeybi et al. 2019, section 3, arXiv:1909.08053.
