"""Packed rows against the collator, the borders and the Llama of transformers."""

from __future__ import annotations

import random

import pytest
import torch

from tests.conformance.agreement import randomised, solution

transformers = pytest.importorskip("transformers", reason="transformers is part of the test extra")
masking = pytest.importorskip("transformers.masking_utils", reason="transformers has had packed masks since 4.53")


def drawn(seed: int, count: int = 7) -> list[list[int]]:
    pick = random.Random(seed)
    return [pick.choices(range(3, 90), k=pick.randint(0, 20)) for _ in range(count)]


@pytest.mark.parametrize("seed", range(10))
def test_one_row_is_what_a_flattening_collator_makes_of_it(seed: int) -> None:
    ended = [[*document, 2] for document in drawn(seed)]
    collate = transformers.DataCollatorWithFlattening(return_seq_idx=True, return_tensors="pt")
    theirs = collate([{"input_ids": ids} for ids in ended])
    ours = solution("packing").pack(drawn(seed), sum(map(len, ended)), eos_id=2)
    assert torch.equal(ours["tokens"], theirs["input_ids"])
    assert torch.equal(ours["positions"], theirs["position_ids"])
    assert torch.equal(ours["documents"], theirs["seq_idx"].long())
    assert torch.equal(ours["labels"][:, :-1], theirs["labels"][:, 1:])  # theirs are shifted by the model


@pytest.mark.parametrize("seed", range(5))
def test_a_llama_gives_each_piece_of_a_row_what_it_gives_it_alone(seed: int) -> None:
    config = transformers.LlamaConfig(
        vocab_size=90, hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=1, attn_implementation="sdpa",
    )  # fmt: skip
    llama = randomised(transformers.LlamaForCausalLM(config), seed)
    packing = solution("packing")
    packed = packing.pack(drawn(seed), 12, eos_id=2)
    mask = packing.document_mask(packed["documents"])
    borders = masking.find_packed_sequence_indices(packed["positions"])
    for row, theirs, numbers in zip(mask, borders, packed["documents"], strict=True):
        if (numbers >= 0).all():
            assert torch.equal(row[0], (theirs[:, None] == theirs).tril())
    with torch.no_grad():
        rows = llama(packed["tokens"], attention_mask=mask, position_ids=packed["positions"]).logits
        parts = (packed[name] for name in ("tokens", "documents", "labels"))
        for tokens, numbers, labels, logits in zip(*parts, rows, strict=True):
            for number in numbers[numbers >= 0].unique():
                own = numbers == number
                alone = llama(tokens[own][None]).logits[0]
                assert (logits[own] - alone).abs().max() < 1e-10
                assert torch.equal(labels[own][:-1], tokens[own][1:])


def test_packing_has_its_known_values() -> None:
    packed = solution("packing").pack([[5, 6, 7], [8], [9, 10]], 4, eos_id=2)
    assert packed["tokens"].tolist() == [[5, 6, 7, 2], [8, 2, 9, 10], [2, 0, 0, 0]]
    assert packed["documents"].tolist() == [[0, 0, 0, 0], [1, 1, 2, 2], [2, -1, -1, -1]]
    assert packed["labels"].tolist() == [[6, 7, 2, -100], [2, -100, 10, -100], 4 * [-100]]
