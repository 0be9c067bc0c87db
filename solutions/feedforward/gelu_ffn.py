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
# bends it, and narrows it again. It holds about two thirds of the weights of a transformer.
#
# **Write** `FeedForward(d_model, d_ff, dropout=0.0, *, device=None, dtype=None)` with `forward(x)`,
# from `(..., d_model)` to `(..., d_model)`.
#
# - **Parameters**, and no others: `fc1.weight` `(d_ff, d_model)`, `fc1.bias` `(d_ff,)`, `fc2.weight` `(d_model, d_ff)`,
#   `fc2.bias` `(d_model,)`. Initialise them as you like.
# - **gelu** is the exact function, with erf, not the approximation with tanh.
# - **Dropout** acts on the hidden vector, after gelu, and **only in training mode**: each entry is set to 0 with
#   probability `dropout`, and the others are divided by `1 - dropout`. Every call draws anew, and no gradient flows
#   through an entry that was dropped. In evaluation mode nothing is dropped or scaled. Dropout on the result instead,
#   after the second layer, as in BERT and GPT-2, is right too.
# - **`dropout=1.0`** drops every entry: the result and all gradients stay finite.
# - **Dtype.** The result has the dtype of the parameters. With float16 or bfloat16 gelu is computed in float32.
#   float64 in, float64 out; float32 accuracy is enough.
# - **Inputs are not modified**, and may be non-contiguous or expanded. No loops.
# - **Not graded:** a `dropout` outside 0 to 1.
#
# No operation is forbidden.
#
# **Example.** `d_model = d_ff = 1`, all weights 1, `fc1.bias` 0, `fc2.bias` 0.5. Half of a normal distribution lies
# below 0 and 0.841 of it below 1. So `gelu(1)` is 0.841 and the layer gives 1.341 for 1. For -1 it gives
# $-1 \cdot 0.159 + 0.5 = 0.341$. With `dropout=0.5` in training, 1 gives either $0.5$ or $2 \cdot 0.841 + 0.5 = 2.183$.

# %% tags=["active-ipynb", "example"]
# # The example, in numbers
# from statistics import NormalDist
#
# for x in (1.0, -1.0):
#     hidden = x * NormalDist().cdf(x)
#     print(f"x {x:4}: gelu {hidden:.3f}, result {hidden + 0.5:.3f}; with dropout 0.5: 0.5 or {2 * hidden + 0.5:.3f}")

# %% [markdown] tags=["hint"]
# Two `nn.Linear`, an activation between them, and `nn.Dropout`. The names of the attributes are the names in the table.

# %% [markdown] tags=["hint"]
# `F.gelu` is exact by default. `nn.Dropout` knows the mode of its module; `F.dropout` has to be told:
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
    """fc2(dropout(gelu(fc1 x))), each token for itself; dropout in training mode alone.

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
# **Between two matrices stands a bend.** Without one, $W_2 W_1$ would be a single matrix, and the width would buy
# nothing. GELU weights its input by the share of a normal distribution below it. It is smooth, and slightly negative
# for small negative inputs, so its gradient does not vanish below 0 as that of ReLU does.
#
# **Dropout divides by $1 - p$ while training.** The expected value is then the same in both modes, and evaluation needs
# no correction. It is called inverted dropout.
#
# **Half precision.** PyTorch computes gelu of a half tensor in float32 and rounds once.
#
# **What it costs.** $O(n\, d\, d_{\mathrm{ff}})$ time for $n$ tokens: $4\, n\, d\, d_{\mathrm{ff}}$ operations. The
# weights take $8\, d\, d_{\mathrm{ff}}$ bytes in float32. The hidden vectors take $4\, n\, d_{\mathrm{ff}}$ bytes, and
# the backward pass keeps them before and after gelu.
#
# ## The other formulation
#
# $\tfrac12 z (1 + \tanh(\sqrt{2/\pi}\,(z + 0.044715 z^3)))$ is the approximation of GPT-2,
# from a time when erf was slow.
# It differs by up to $5 \cdot 10^{-4}$: enough to matter when a checkpoint is loaded with the wrong one.
#
# ## The usual mistakes
#
# - Dropout in evaluation mode: `F.dropout(h, p)` is in training mode unless told otherwise.
# - Dropout before gelu.
# - The tanh approximation for weights that were trained with the exact function.
# - A mask drawn without dividing by $1 - p$: the mean shrinks in training only.

# %% [markdown] tags=["solution", "questions"]
# ## What interviewers ask next
#
# ### Why is there an activation, and why four times the width?
#
# - Without a bend $W_2 W_1$ is one matrix of rank at most $d$, and the width buys nothing.
# - Four is a habit since 2017. Two matrices of $4 d^2$ hold twice what the attention's $4 d^2$ do.
# - The loss depends little on the ratio, over a wide range of it.
#
# Source: Kaplan et al. 2020, section 3.1, arXiv:2001.08361.
#
# ### What does the layer store?
#
# - Seen as a memory: rows of $W_1$ recognise patterns in a token, columns of $W_2$ are what is added when they fire.
# - It is attention with fixed keys and values and gelu in place of softmax.
# - No token sees another here. Whatever moves between tokens has moved before.
#
# Source: Geva et al. 2020, arXiv:2012.14913.
#
# ### What does it cost in time and memory?
#
# - $4\, n\, d\, d_{\mathrm{ff}}$ operations, with $d_{\mathrm{ff}} = 4d$ twice those of the four projections.
# - For the backward pass: the input, $2 n d$ bytes in bfloat16, and the hidden vectors before and after gelu,
#   $2\, n\, d_{\mathrm{ff}}$ each, with dropout a mask besides.
# - Recomputing gelu from its input saves one of the two for almost no time.
# - In decoding the weights are the cost: two thirds of the bytes of each layer are here.
#
# Source: Korthikanti et al. 2022, section 4.1, arXiv:2205.05198.
#
# ### Why divide by 1 - p in training, and how would you test dropout?
#
# - The expected value is then the same in both modes, and evaluation does nothing. The variance still grows.
# - Statistics over many draws: the share of zeros is $p$, the mean is kept, two calls differ, a seed repeats them.
# - In evaluation mode the result equals that without dropout exactly.
# - `p = 1` divides 0 by 0 if written naively.
#
# Source: Srivastava et al. 2014, section 10, https://jmlr.org/papers/v15/srivastava14a.html.
#
# ### Dropout together with recomputed activations: what can go wrong?
#
# - The recomputation must draw the same mask, or the gradient belongs to another function.
# - So the state of the random generator is saved and restored, for the device too. That costs a little time.
# - A seed kept for each layer, or a mask kept as bits, also does.
#
# Source: PyTorch documentation of `torch.utils.checkpoint`, https://docs.pytorch.org/docs/stable/checkpoint.html.
#
# ### What breaks in half precision?
#
# - gelu in half precision is rounded at each step if written out. PyTorch's own goes through float32.
# - float16 loses the tail: $-4\, \Phi(-4)$ is $-1.3 \cdot 10^{-4}$, of which `1 + erf` in float16 leaves 0.
# - The sum of $4d$ products in the second matrix needs a float32 accumulator. Its result may overflow float16 in a
#   model trained in bfloat16.
#
# Source: Micikevicius et al. 2017, section 3.3, arXiv:1710.03740.
#
# ### Do large language models use dropout here?
#
# - Hardly. With one pass over the data there is little to overfit, and dropout slows learning.
# - It comes back in fine-tuning on little data, and where data are repeated many times.
# - It costs a random number for each entry, and a mask to keep.
#
# Source: Chowdhery et al. 2022, section 5, arXiv:2204.02311.
#
# ### How is it split over devices, and what would a profiler show?
#
# - $W_1$ by outputs and $W_2$ by inputs: gelu acts on each part alone, and one sum at the end joins them.
# - $b_2$ is added once, after the sum. Dropout inside needs other seeds on each device, dropout after the sum the same.
# - In a trace the sum stands between the products and the arithmetic waits for it, unless it overlaps with other work.
#
# Source: Shoeybi et al. 2019, section 3, arXiv:1909.08053.
