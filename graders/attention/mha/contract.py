"""What `MultiHeadAttention` must do. The oracle computes one head at a time with torch's own attention, in float64."""

from __future__ import annotations

import torch
from torch import Tensor

from dojo.contracts import FUSED, AttentionContract, Call, Draw

NO_KEY_FOR_THE_SECOND = torch.tensor([True, False])[:, None, None, None]


def cross_attention(d: Draw, q_len: int, k_len: int, *mask: int) -> Call:
    """A call with a context of a length of its own."""
    call = TestMultiHeadAttention.call(d, 2, q_len, context=d.normal(2, k_len, 12))
    return call.with_inputs(mask=d.mask(*mask)) if mask else call


def masked(d: Draw, mask: Tensor, seq: int = 5) -> Call:
    return TestMultiHeadAttention.call(d, 2, seq, mask=mask)


def one_head_blind(d: Draw) -> Tensor:
    """A mask (1, heads, 5, 5) by which some queries see nothing in one head and something in the others."""
    mask = d.mask(1, 3, 5, 5)
    mask[..., 0] = True
    mask[0, 0, 1] = mask[0, -1, 3] = False
    return mask


class TestMultiHeadAttention(AttentionContract):
    name = "MultiHeadAttention"
    ban = FUSED
    holds = {
        "Masks": ("test_no_key_behind", "test_hard_cases"),
        "Masked rows": ("test_a_query_that_may",),
        "Half precision": ("test_half_precision", "test_softmax_is", "test_float16"),
        "Errors": ("test_heads_must",),
    }
    cases = {
        "a_context_as_long_as_the_queries": lambda d: cross_attention(d, 5, 5),
        "a_context": lambda d: cross_attention(d, 5, 7),
        "a_context_and_a_mask": lambda d: cross_attention(d, 5, 7, 5, 7),
        "a_context_with_padding": lambda d: cross_attention(d, 5, 7, 2, 1, 1, 7),
        "a_context_as_long_as_the_queries_and_a_mask": lambda d: cross_attention(d, 5, 5, 5, 5),
        "a_shorter_context": lambda d: cross_attention(d, 5, 3, 2, 3, 5, 3),
    }
    dead_rows = {
        "one_query_of_each_head": lambda d: masked(d, d.mask(2, 3, 5, 5, dead_row=True)),
        "one_query_of_all": lambda d: masked(d, d.mask(5, 5, dead_row=True)),
        "one_entry_is_all_padding": lambda d: masked(d, NO_KEY_FOR_THE_SECOND.expand(2, 1, 1, 5) & d.mask(5, 5)),
        "queries_hidden_in_one_head_alone": lambda d: masked(d, one_head_blind(d)),
        "one_token_that_sees_nothing": lambda d: masked(d, NO_KEY_FOR_THE_SECOND, seq=1),
    }
    more_shapes = {"one_query": lambda d: cross_attention(d, 1, 7), "one_key": lambda d: cross_attention(d, 5, 1)}
    growth = {"context": lambda d, n: cross_attention(d, 5, n)}
