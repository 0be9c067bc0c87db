# %% [markdown]
# # Ladder: attention, from one product to a bounded cache
#
# An hour with one file. It starts with attention itself, and every stage asks for a little more of it, until the layer
# decodes with a bounded cache. What earlier stages asked for stays true. Write attention out: fused calls such as
# `F.scaled_dot_product_attention` are not allowed.
#
# **Builds on** sdpa, mha, gqa, window_attention. **Sources:** Vaswani et al. 2017: Attention is all you need,
# [arXiv:1706.03762](https://arxiv.org/abs/1706.03762); Ainslie et al. 2023: GQA,
# [arXiv:2305.13245](https://arxiv.org/abs/2305.13245); Jiang et al. 2023: Mistral 7B, section 2,
# [arXiv:2310.06825](https://arxiv.org/abs/2310.06825).
#
# House rules hold: docs/house_rules.md.

# %% [markdown] tags=["stage"]
# ## Stage 1 · 10 min
#
# "Write scaled dot-product attention. Any number of leading axes; the mask is optional and broadcasts against the
# scores."
#
# ```python
# def attention(q, k, v, mask=None):
#     """Attention of `q (..., q_len, d)` to `k` and `v (..., k_len, d)`, which gives `(..., q_len, d)`."""
#     ...
# ```

# %% [markdown] tags=["contract"]
# <details><summary>Contract: Mask, Masked rows, Half precision, Scale</summary>
#
# - **Mask.** Boolean, True = may attend. A masked key has no influence, however large or small the scores are.
# - **Masked rows.** A query that may attend to nothing gets exact zeros, and all gradients stay finite.
# - **Half precision.** Softmax in float32. Scores and weights may be rounded to the dtype of the inputs.
# - **Scale.** One over the root of `d`.
#
# </details>

# %%
import math

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn


# %%
def attention(q, k, v, mask=None):
    """Attention of `q (..., q_len, d)` to `k` and `v (..., k_len, d)`, which gives `(..., q_len, d)`."""
    raise NotImplementedError


# %% tags=["active-ipynb"]
# import sys
#
# sys.path.append("../..")  # the project
# from dojo import check
#
# check("attention_ladder")
