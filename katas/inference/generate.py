# %% [markdown]
# # Greedy decoding of a batch
#
# $$y_t = \operatorname{argmax}_v \; \mathrm{logits}_v(\text{prompt}, y_1 \dots y_{t-1})$$
#
# **Write** `generate(model, input_ids, attention_mask, max_new_tokens, stop_ids, pad_id)`: greedy decoding with a KV
# cache. `input_ids` `(batch, seq)` is left-padded, `attention_mask` `(batch, seq)` is True on real tokens, `stop_ids`
# is a list. Return the new tokens, int64 `(batch, n)`.
#
# The model is given, and causal by itself:
#
# ```python
# logits, cache = model(ids, positions, mask, cache=None)
# ```
#
# `ids` and `positions` are int64 `(batch, new)`; a position is a token's place in its own text, from 0. `mask` is
# boolean `(batch, past + new)`: which cached and new tokens are real. `cache` is None at first. `logits` are
# `(batch, new, vocab)`.
#
# A row ends with its first stop id, which is kept, and gets `pad_id` afterwards. Stop when all rows have ended, or
# after `max_new_tokens`.
#
# **Example.** Prompts `[[P, P, 5], [7, 8, 9]]`, stop id 2. If the model says 4, 2 and 6, 3, 2, the result is
# `[[4, 2, P], [6, 3, 2]]`. Positions are `[[0, 0, 0], [0, 1, 2]]` in the first call, `[[1], [3]]` in the second and
# `[[2], [4]]` in the third, for whose mask row 0 has two False and three True.
#
# **Builds on** kv_cache. **Sources:** Pope et al. 2022: Efficiently Scaling Transformer Inference,
# [arXiv:2211.05102](https://arxiv.org/abs/2211.05102); Hugging Face transformers, Text generation,
# https://huggingface.co/docs/transformers/llm_tutorial.
#
# House rules hold: docs/house_rules.md.

# %% [markdown] tags=["contract"]
# <details><summary>Contract: Padding, Pad id, Stop ids, Calls, Cache, Autograd</summary>
#
# - **Padding.** A row's tokens are those it gets alone and unpadded. Positions of padding may be anything from 0 to
#   `seq - 1`, and what a row is fed after its end anything at all.
# - **Pad id.** `attention_mask` alone says what is padding. `pad_id` may be a token of a prompt, and the model may emit
#   it without ending the row, unless it is a stop id too.
# - **Stop ids.** Each of them ends a row. One in a prompt ends nothing.
# - **Calls.** The prompt goes in one call, then one token a row and call: `n` tokens take `n` calls.
# - **Cache.** It is opaque. The model may change it in place, or return a new object.
# - **Autograd.** The model runs without it.
#
# </details>

# %%
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor


# %%
def generate(
    model: Callable[..., tuple[Float[Tensor, "batch new vocab"], Any]],
    input_ids: Int[Tensor, "batch seq"],
    attention_mask: Bool[Tensor, "batch seq"],
    max_new_tokens: int,
    stop_ids: list[int],
    pad_id: int,
) -> Int[Tensor, "batch n"]:
    """The new tokens of greedy decoding: each row up to its first stop id, then `pad_id`.

    `model` is called as the statement says, and its cache is handed on.
    """
    raise NotImplementedError


# %% tags=["active-ipynb"]
# import sys
#
# sys.path.append("../..")  # the project
# from dojo import check
#
# check("generate")
