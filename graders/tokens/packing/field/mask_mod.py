# robust: Padding: the document -1 attends to itself.
"""Rows made in lists, as Hugging Face's collators do it, and a mask_mod under vmap, as FlexAttention has it."""

import torch


def pack(documents, seq_len, eos_id, pad_id=0):
    batch = {"tokens": [], "documents": [], "positions": [], "labels": []}
    for idx, document in enumerate(documents):
        ids = list(document) + [eos_id]
        batch["tokens"] += ids
        batch["labels"] += ids[1:] + [-100]
        batch["documents"] += [idx] * len(ids)
    pad_len = (seq_len - len(batch["tokens"]) % seq_len) % seq_len
    batch["tokens"] += [pad_id] * pad_len
    batch["labels"] += [-100] * pad_len
    batch["documents"] += [-1] * pad_len
    for i, idx in enumerate(batch["documents"]):
        first = i % seq_len == 0 or idx != batch["documents"][i - 1]
        batch["positions"].append(0 if first else batch["positions"][-1] + 1)
    batch = {k: torch.tensor(v, dtype=torch.int64).view(-1, seq_len) for k, v in batch.items()}
    batch["labels"][:, -1] = -100
    return batch


def document_mask(documents):
    def mask_mod(b, h, q_idx, kv_idx):
        return (q_idx >= kv_idx) & (documents[b, q_idx] == documents[b, kv_idx])

    for dims in ((None, None, None, 0), (None, None, 0, None), (None, 0, None, None), (0, None, None, None)):
        mask_mod = torch.vmap(mask_mod, in_dims=dims)
    sizes = (documents.size(0), 1, documents.size(1), documents.size(1))
    return mask_mod(*(torch.arange(size, device=documents.device) for size in sizes))
