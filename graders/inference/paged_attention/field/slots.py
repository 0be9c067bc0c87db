# robust: Unused entries, Unused places, Errors: it trusts the table and what memory holds, and asserts.
"""As small serving engines write it: slots of all positions, gathered from the flattened pool, and an additive mask."""

import math

import torch
import torch.nn.functional as F


def slot_indices(block_table, positions, page_size):
    rows = torch.arange(block_table.shape[0], device=block_table.device)[:, None]
    return block_table[rows, positions // page_size] * page_size + positions % page_size


def paged_attention(q, k_pages, v_pages, block_table, lengths):
    bsz, n_heads, head_dim = q.shape
    _, page_size, n_kv_heads, _ = k_pages.shape
    assert n_heads % n_kv_heads == 0
    max_len = int(lengths.max())
    positions = torch.arange(max_len, device=q.device)
    slots = slot_indices(block_table, positions.expand(bsz, -1), page_size)
    keys = k_pages.reshape(-1, n_kv_heads, head_dim)[slots].transpose(1, 2)
    values = v_pages.reshape(-1, n_kv_heads, head_dim)[slots].transpose(1, 2)
    n_rep = n_heads // n_kv_heads
    keys, values = (x.repeat_interleave(n_rep, dim=1) for x in (keys, values))
    scores = torch.matmul(q.unsqueeze(2), keys.transpose(2, 3)) / math.sqrt(head_dim)
    mask = torch.zeros(bsz, max_len, dtype=scores.dtype, device=q.device)
    mask = mask.masked_fill(positions >= lengths[:, None], float("-inf"))
    scores = F.softmax((scores + mask[:, None, None]).float(), dim=-1).type_as(q)
    return torch.matmul(scores, values).squeeze(2)
