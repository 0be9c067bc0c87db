# ---
# jupyter:
#   dojo:
#     title: Packing
#     level: 3
#     minutes: 20
#     builds_on: [causal_mask, lm_loss]
#     sources:
#       - "Krell et al. 2021: Efficient Sequence Packing without Cross-contamination, arXiv:2107.02027"
#       - "Grattafiori et al. 2024: The Llama 3 Herd of Models, section 3.2 (a mask of documents), arXiv:2407.21783"
# ---

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

# %% [markdown] tags=["contract"]
# - **Rows.** Each is the next `seq_len` tokens of the stream. No row is dropped, and none is all padding.
# - **End token.** `eos_id` belongs to the document before it: it is its last label, and has no label itself.
# - **Ids.** `eos_id` and `pad_id` may be the same, and may occur inside documents. Places decide, not values.
# - **Empty documents.** One is its `eos_id` alone, and counts.
# - **Padding.** It attends to nothing, and nothing attends to it. Its positions may be anything.
# - **Cost.** No tensor operations for each token in `pack`, and no loop over rows in `document_mask`.

# %% [markdown] tags=["hint"]
# Which document does each token of the stream belong to? Once you have that as a second stream, cut it into the same
# rows. Positions, labels and the mask follow from it.

# %% [markdown] tags=["hint"]
# A token has a label where its right neighbor in the row is of the same document, which is not padding. A position is
# the place in the row less the place where the document, or the row, began.

# %% [markdown] tags=["hint"]
# `torch.repeat_interleave(lengths)` is that second stream. `F.pad(...).view(-1, seq_len)` cuts both, and
# `(place * starts).cummax(dim=1).values` is where the latest document began.

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
    ### BEGIN SOLUTION
    stream = torch.tensor([token for document in documents for token in (*document, eos_id)])
    owner = torch.repeat_interleave(torch.tensor([len(document) + 1 for document in documents]))
    padding = -len(stream) % seq_len
    tokens = F.pad(stream, (0, padding), value=pad_id).view(-1, seq_len)
    number = F.pad(owner, (0, padding), value=-1).view(-1, seq_len)

    goes_on = number[:, 1:] == number[:, :-1]
    starts = F.pad(~goes_on, (1, 0), value=True)  # a row starts anew
    place = torch.arange(seq_len)
    positions = place - (place * starts).cummax(dim=1).values

    learned = goes_on & (number[:, 1:] >= 0)
    labels = F.pad(tokens[:, 1:].masked_fill(~learned, -100), (0, 1), value=-100)
    return {"tokens": tokens, "documents": number, "positions": positions, "labels": labels}
    ### END SOLUTION


# %%
def document_mask(documents: Int[Tensor, "rows seq"]) -> Bool[Tensor, "rows 1 seq seq"]:
    """True where a query may attend to a key: up to its own place, in its own document, and never in padding, -1."""
    ### BEGIN SOLUTION
    place = torch.arange(documents.shape[1], device=documents.device)
    causal = place <= place[:, None]
    same = documents[:, :, None] == documents[:, None, :]
    real = documents[:, :, None] >= 0
    return (causal & same & real)[:, None]
    ### END SOLUTION


# %% [markdown] tags=["solution"]
# ## Why it is done this way
#
# **One number for each token.** Which document it belongs to decides all: two neighbors of the same document make a
# label, two that differ a start. Ids decide nothing: text may hold `<|endoftext|>`, and most models pad with it.
#
# **Positions restart in each row**, for a row is all that the model sees. With RoPE and the mask that changes nothing,
# since scores depend on distances alone; a learned position table does see the difference.
#
# **The end token** is a label, so that the model learns to stop. Its own successor begins some other document: noise.
#
# **What it costs.** `pack` takes $O(n)$: 0.3 s for a million tokens, half of it in Python's list of them. Data loaders
# keep the stream on disk and cut windows from it. The mask takes $O(r s^2)$: 32 rows of 8,192 are 2.1 GB of booleans,
# read from HBM in each layer. So kernels take the borders: `cu_seqlens`, int32, in FlashAttention's varlen calls, or a
# block mask in FlexAttention. They also skip what is masked: with documents of 600 tokens in rows of 4,096 a query sees
# 300 keys on average instead of 2,048.
#
# ## The other formulation
#
# Lists: append token by token, and call `torch.tensor` once at the end. About as fast here, and easier to change.
# Hugging Face gives the model `labels` that are not shifted, with -100 at the *first* token of each document, and
# shifts them inside; it reads the borders from `position_ids`, wherever they do not go up by one.
#
# ## The usual mistakes
#
# - Borders or padding recognized by ids, and -1 == -1: padding attends to padding.
# - `torch.cat` or `+` on the whole stream for each document, which is quadratic.

# %% tags=["active-ipynb", "solution"]
# # Three rows of one stream: blocks along the diagonal, and padding that sees nothing
# import matplotlib.pyplot as plt
#
# packed = pack([[1] * 4, [1] * 9, [1] * 2, [1] * 5], seq_len=10, eos_id=0)
# figure, axes = plt.subplots(1, 3, figsize=(11, 3.6), layout="constrained")
# for axis, mask, row in zip(axes, document_mask(packed["documents"]), packed["documents"].tolist()):
#     axis.imshow(mask[0], vmin=0, vmax=1, cmap="Blues")
#     axis.set(title=f"documents {' '.join(map(str, row))}", xlabel="key", ylabel="query")
# plt.show()

# %% [markdown] tags=["solution", "questions"]
# ## What interviewers ask next
#
# ### Not packed, one document of `mean` tokens a row of `seq`: what percent of the tokens is padding?
#
# - All that the document does not fill. Norms, projections and the MLP compute it, and MFU counts it as useful.
# - Packed, padding is less than a row in the whole data set.
#
# Answer: `100 * (1 - mean / seq)` percent, within 2 %. Settings: `mean` 300, 600, 1200; `seq` 2048, 4096, 8192.
#
# Source: Krell et al. 2021, section 2, arXiv:2107.02027.
#
# ### How many GB does the mask of `rows` rows of `seq` tokens take in booleans?
#
# - A byte for each query and key. Heads and layers share it.
# - The borders of documents say the same in four bytes a document: `cu_seqlens`, `(0, 4, 6, 9)` for lengths 4, 2, 3.
# - With borders a kernel also skips other documents' tiles. A mask tensor saves no FLOPs, and rules out FlashAttention.
#
# Answer: `rows * seq**2 / 1e9` GB, within 5 %. Settings: `rows` 8, 32; `seq` 4096, 8192, 32768.
#
# Source: FlashAttention, `flash_attn_varlen_func`, https://github.com/Dao-AILab/flash-attention.
#
# ### Does it hurt to attend across documents?
#
# - Little at ordinary lengths: GPT-2 and GPT-3 did without a mask, and the end token tells the model to forget.
# - Llama 3 masks: it saw little effect in standard pretraining, and found it important for very long sequences.
# - In fine-tuning it leaks one conversation into another, and results depend on who shares a row.
#
# Source: Grattafiori et al. 2024, section 3.2, arXiv:2407.21783.
#
# ### What do rows of a stream do to documents, and what would you do instead?
#
# - They cut them: what follows a cut is learned without its context, which teaches to make things up.
# - Best-fit packing puts whole documents into the row with the least room that is enough, and cuts only those that are
#   longer than a row. Padding stays far below a percent.
# - It has to know the lengths beforehand. Rows of a stream can be read in one pass.
#
# Source: Ding et al. 2024, arXiv:2404.10830.
