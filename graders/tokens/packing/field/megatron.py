# robust: Ids, Padding: documents end where the stream holds `eos_id`, and -1 attends to -1.
"""In the style of Megatron's GPT dataset: a stream of tokens in blocks, ids of positions reset after each EOD."""

import torch


def pack(documents, seq_len, eos_id, pad_id=0):
    stream = []
    for document in documents:
        stream += [*document, eos_id]
    length = len(stream)
    data = torch.tensor(stream + [pad_id] * (-length % seq_len)).reshape(-1, seq_len)
    document_ids = torch.full_like(data, -1)
    position_ids = torch.arange(seq_len).repeat(data.size(0), 1)
    labels = torch.cat([data[:, 1:], torch.full((data.size(0), 1), -100)], dim=1)
    eod_index = [j for j, token in enumerate(stream) if token == eos_id]
    prev_index = 0
    for i, j in enumerate(eod_index):
        document_ids.view(-1)[prev_index : j + 1] = i
        if (j + 1) % seq_len and j + 1 < length:
            position_ids[(j + 1) // seq_len, (j + 1) % seq_len :] = torch.arange(seq_len - (j + 1) % seq_len)
        prev_index = j + 1
    labels.view(-1)[eod_index] = -100
    labels[document_ids == -1] = -100
    return {"tokens": data, "documents": document_ids, "positions": position_ids, "labels": labels}


def document_mask(documents):
    seq = documents.size(1)
    attention_mask = torch.tril(torch.ones((documents.size(0), 1, seq, seq), device=documents.device))
    attention_mask = attention_mask * (documents[:, None, :, None] == documents[:, None, None, :])
    return attention_mask > 0.5
