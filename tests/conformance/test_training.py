"""The loader against PyTorch's own sampler and loader."""

from __future__ import annotations

import json

import pytest
import torch
from torch.utils import data
from torch.utils.data.distributed import DistributedSampler

from tests.conformance.agreement import integers, solution

SETTINGS = [(101, 3, 4, 1), (144, 2, 5, 3), (97, 2, 3, 4)]  # tokens, batch_size, seq_len, ranks
EPOCHS = 3


def theirs(tokens: torch.Tensor, batch_size: int, seq_len: int, seed: int, rank: int, ranks: int) -> list[list]:
    """The batches of three epochs."""
    windows = [tokens[at : at + seq_len + 1] for at in range(0, len(tokens) - seq_len, seq_len)]
    pairs = [(window[:-1], window[1:]) for window in windows]
    sampler = DistributedSampler(pairs, num_replicas=ranks, rank=rank, seed=seed, drop_last=True)
    loader, found = data.DataLoader(pairs, batch_size, sampler=sampler, drop_last=True), []
    for epoch in range(EPOCHS):
        sampler.set_epoch(epoch)
        found += [[inputs.tolist(), labels.tolist()] for inputs, labels in loader]
    return found


@pytest.mark.parametrize(("size", "batch_size", "seq_len", "ranks"), SETTINGS)
def test_data_loader_gives_the_batches_of_torch_and_resumes_at_each(
    size: int, batch_size: int, seq_len: int, ranks: int
) -> None:
    tokens = integers(1000, size)
    for rank in range(ranks):
        sizes, expected = (batch_size, seq_len, 5, rank, ranks), theirs(tokens, batch_size, seq_len, 5, rank, ranks)
        loader, states, found = solution("data_loader").DataLoader(tokens, *sizes), [], []
        for _ in expected:
            states.append(json.dumps(loader.state_dict()))
            found.append([each.tolist() for each in next(loader)])
        assert len(expected) == EPOCHS * ((size - 1) // seq_len // (batch_size * ranks)) > EPOCHS
        assert found == expected
        for at, state in enumerate(states):
            loader.load_state_dict(json.loads(state))
            assert [each.tolist() for each in next(loader)] == expected[at]
