# %% [markdown]
# # Packing
#
# $$\mathrm{mask}_{rij} = [\, j \le i \,] \cdot [\, d_{rj} = d_{ri} \,] \cdot [\, d_{ri} \ge 0 \,]$$
#
# Pretraining computes no padding: all documents, each followed by `eos_id`, are one stream that is cut into rows of
# `seq_len`. Only the last row is filled up.
#
# **Write** `pack(documents, seq_len, eos_id, pad_id=0)`: lists of ids in, a dict of int64 `(rows, seq_len)` out.
#
# - `tokens`: the stream, then `pad_id`;
# - `documents`: the index of each token's document in the list, -1 in padding;
# - `positions`: from 0 at the start of each document and of each row;
# - `labels`: the next token if it is in the same document and row, else -100.
#
# And `document_mask(documents)`, from `(rows, seq)` to booleans `(rows, 1, seq, seq)`: True where a query may attend.
#
# **Example.** `pack([[5, 6, 7], [8], [9, 10]], seq_len=4, eos_id=2)`:
#
# ```
# tokens     5 6 7 2 | 8 2  9 10 | 2  0  0  0
# documents  0 0 0 0 | 1 1  2  2 | 2 -1 -1 -1
# positions  0 1 2 3 | 0 1  0  1 | 0  .  .  .
# labels     6 7 2 × | 2 × 10  × | ×  ×  ×  ×      × is -100
# ```
#
# **Builds on** causal_mask, lm_loss. **Sources:** Krell et al. 2021: Efficient Sequence Packing without
# Cross-contamination, [arXiv:2107.02027](https://arxiv.org/abs/2107.02027); Grattafiori et al. 2024: The Llama 3 Herd
# of Models, section 3.2 (a mask of documents), [arXiv:2407.21783](https://arxiv.org/abs/2407.21783).
#
# House rules hold: docs/house_rules.md.

# %% [markdown] tags=["contract"]
# <details><summary>Contract: Rows, End token, Ids, Empty documents, Padding, Cost</summary>
#
# - **Rows.** Each is the next `seq_len` tokens of the stream. No row is dropped, and none is all padding.
# - **End token.** `eos_id` belongs to the document before it: it is its last label, and has no label itself.
# - **Ids.** `eos_id` and `pad_id` may be the same, and may occur inside documents. Places decide, not values.
# - **Empty documents.** One is its `eos_id` alone, and counts.
# - **Padding.** It attends to nothing, and nothing attends to it. Its positions may be anything.
# - **Cost.** No tensor operations for each token in `pack`, and no loop over rows in `document_mask`.
#
# </details>

# %%
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Int
from torch import Tensor


# %%
def pack(
    documents: Sequence[Sequence[int]], seq_len: int, eos_id: int, pad_id: int = 0
) -> dict[str, Int[Tensor, "rows seq_len"]]:
    """The documents, each with eos_id after it, as rows of one stream: tokens, documents, positions and labels.

    In padding documents are -1 and labels -100.
    """
    raise NotImplementedError


# %%
def document_mask(documents: Int[Tensor, "rows seq"]) -> Bool[Tensor, "rows 1 seq seq"]:
    """True where a query may attend to a key: up to its own place, in its own document, and never in padding, -1."""
    raise NotImplementedError


# %% tags=["active-ipynb"]
# import sys
#
# sys.path.append("../..")  # the project
# from dojo import check
#
# check("packing")
