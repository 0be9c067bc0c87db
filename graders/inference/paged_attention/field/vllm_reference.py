"""As the tests of vLLM have it: each sequence by itself, its pages cut to its length. Fast it is not."""

import torch


def slot_indices(block_table, positions, page_size):
    block_numbers = torch.gather(block_table, 1, positions // page_size)
    return block_numbers * page_size + positions % page_size


def paged_attention(q, k_pages, v_pages, block_table, lengths):
    num_seqs, num_query_heads, head_size = q.shape
    _, block_size, num_kv_heads, _ = k_pages.shape
    if num_query_heads % num_kv_heads:
        raise ValueError(f"num_heads ({num_query_heads}) must be divisible by num_kv_heads ({num_kv_heads})")
    outputs = []
    for i, kv_len in enumerate(lengths.tolist()):
        num_kv_blocks = (kv_len + block_size - 1) // block_size
        block_indices = block_table[i, :num_kv_blocks]
        k = k_pages[block_indices].reshape(-1, num_kv_heads, head_size)[:kv_len]
        v = v_pages[block_indices].reshape(-1, num_kv_heads, head_size)[:kv_len]
        if num_query_heads != num_kv_heads:
            k = torch.repeat_interleave(k, num_query_heads // num_kv_heads, dim=1)
            v = torch.repeat_interleave(v, num_query_heads // num_kv_heads, dim=1)
        attn = torch.einsum("hd,khd->hk", q[i] * head_size**-0.5, k)
        attn = torch.softmax(attn.to(torch.promote_types(attn.dtype, torch.float32)), dim=-1).to(v.dtype)
        outputs.append(torch.einsum("hk,khd->hd", attn, v))
    return torch.stack(outputs)
