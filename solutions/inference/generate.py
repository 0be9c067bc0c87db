# ---
# jupyter:
#   dojo:
#     title: Greedy decoding of a batch
#     level: 3
#     minutes: 25
#     builds_on: [kv_cache]
#     sources:
#       - "Pope et al. 2022: Efficiently Scaling Transformer Inference, arXiv:2211.05102"
#       - "Hugging Face transformers, Text generation, https://huggingface.co/docs/transformers/llm_tutorial"
# ---

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

# %% [markdown] tags=["contract"]
# - **Padding.** A row's tokens are those it gets alone and unpadded. Positions of padding may be anything from 0 to
#   `seq - 1`, and what a row is fed after its end anything at all.
# - **Pad id.** `attention_mask` alone says what is padding. `pad_id` may be a token of a prompt, and the model may emit
#   it without ending the row, unless it is a stop id too.
# - **Stop ids.** Each of them ends a row. One in a prompt ends nothing.
# - **Calls.** The prompt goes in one call, then one token a row and call: `n` tokens take `n` calls.
# - **Cache.** It is opaque. The model may change it in place, or return a new object.
# - **Autograd.** The model runs without it.

# %% [markdown] tags=["hint"]
# What does the model need for a new token that it cannot find in the token? Write down positions and mask of the second
# call for the example. Which of the two is the same for all rows?

# %% [markdown] tags=["hint"]
# Positions are a running count of real tokens, less 1. From then on each row's last position grows by 1, and the mask
# by a column of True. `finished` is a boolean `(batch,)`; the loop ends when all of it is True.

# %% [markdown] tags=["hint"]
# `positions = (attention_mask.cumsum(dim=1) - 1).clamp(min=0)`. In each round
# `new = logits[:, -1].argmax(dim=-1).masked_fill(finished, pad_id)`, and only then
# `finished = finished | torch.isin(new, stops)`.

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
    ### BEGIN SOLUTION
    stops = torch.tensor(stop_ids, device=input_ids.device)
    finished = torch.zeros(len(input_ids), dtype=torch.bool, device=input_ids.device)
    ids, mask, cache = input_ids, attention_mask, None
    positions = (mask.cumsum(dim=1) - 1).clamp(min=0)
    tokens = input_ids[:, :0]
    for _ in range(max_new_tokens):
        with torch.no_grad():
            logits, cache = model(ids, positions, mask, cache)
        new = logits[:, -1].argmax(dim=-1).masked_fill(finished, pad_id)
        tokens = torch.cat([tokens, new[:, None]], dim=1)
        finished = finished | torch.isin(new, stops)
        if finished.all():
            break
        ids, positions = new[:, None], positions[:, -1:] + 1
        mask = F.pad(mask, (0, 1), value=True)
    return tokens
    ### END SOLUTION


# %% [markdown] tags=["solution"]
# ## Why it is done this way
#
# **Left padding.** The last place of every row is its last real token, so `logits[:, -1]` is right for all, and new
# tokens line up in one column. With right padding each row's logits stand elsewhere, and padding lies between its
# prompt and its answer.
#
# **Positions and mask are two things.** The mask hides padding from attention; a key's index in the cache is not its
# position. A row with two pads has its first token in column 2 at position 0. In decoding the mask grows alike for all
# rows, positions do not.
#
# **Finished rows** go on through the model, at full price, for the batch is one tensor. What they see and write is
# thrown away.
#
# **What it costs.** $n$ calls and $\text{batch} \cdot (\text{seq} + n - 1)$ token positions; the last token is never
# fed. Padding takes its place in the cache too, 131 kB a token in Llama 3 8B. Each round waits for the device, to learn
# whether all rows have ended: little beside the 4.8 ms of a step, and servers launch the next step before they look.
#
# ## The other formulation
#
# transformers keeps `attention_mask` alone and computes `cumsum` anew in each round, with positions of padding filled
# by 1. A static cache has its full length from the start: then the mask does too, and no shape changes, as CUDA graphs
# and `torch.compile` want it.
#
# ## The usual mistakes
#
# - Positions from `arange`: padded rows come out a little different, and nobody notices.
# - `input_ids != pad_id` for the mask, where padding and the end of a text share an id: it stands in chat prompts as a
#   real token.
# - `finished = new == stop`: a row that emits `pad_id` the next time is alive again.
# - The graph of every step kept alive, since nobody said `no_grad`.

# %% [markdown] tags=["solution", "questions"]
# ## What interviewers ask next
#
# ### Prompts of `long` and of `short` tokens share a batch of 2. What percentage of prefill is padding?
#
# - Both rows are `long` tokens wide, and one is filled up.
# - It costs FLOPs, and memory too: the cache holds keys and values of padding.
# - Sorting requests by length helps. Packed sequences (`cu_seqlens`) and paged caches have no padding at all.
#
# Answer: `100 * (long - short) / (2 * long)` %, within 5 %. Settings: `long` 1000, 4000; `short` 10, 200, 500.
#
# Source: Yu et al. 2022, Orca, section 3, https://www.usenix.org/conference/osdi22/presentation/yu.
#
# ### Why is padding on the left when decoding, and mostly on the right in training?
#
# - Training takes a loss at every place: with right padding positions are `arange`, a causal mask alone keeps real
#   tokens from the padding after them, and only the loss needs a mask.
# - Decoding goes on where the prompt ends, and on the left all prompts end in one column.
#
# Source: Hugging Face transformers, Text generation, Padding side,
# https://huggingface.co/docs/transformers/llm_tutorial.
#
# ### How many ms does a step take at least with `billions` billion weights in `bytes` bytes each, on one H100?
#
# - Every weight is read once a step, at 3.35 TB/s, whatever the batch: decoding is memory-bound.
# - 8 billion in bfloat16: 4.8 ms, 209 tokens a second for one row, 6,700 for 32.
# - At 989 TFLOPS a row takes two FLOPs a weight. Some 295 rows are needed before arithmetic is the limit.
#
# Answer: `billions * bytes / 3.35` ms, within 5 %. Settings: `billions` 1, 8, 32; `bytes` 1, 2.
#
# Source: Pope et al. 2022, section 2, arXiv:2211.05102.
#
# ### 32 rows end after 10 to 500 tokens, each length as likely. What is wasted, and what would you do?
#
# - The batch lives as long as its longest row, nearly 500 steps. A row uses 255 of them on average: half of the row
#   steps make padding.
# - A new request waits for all of it, too.
# - Continuous batching: a row that has ended leaves after its step, and a waiting request takes its place.
#
# Source: Yu et al. 2022, Orca, section 3, https://www.usenix.org/conference/osdi22/presentation/yu.
