"""The losses against PyTorch's own."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from tests.conformance.agreement import agree, integers, normal, solution


@pytest.mark.parametrize("smoothing", [0.0, 0.3])
@pytest.mark.parametrize("ignore_index", [-100, 2])
def test_cross_entropy_is_torchs(smoothing: float, ignore_index: int) -> None:
    logits, targets = normal(4, 5, 7) * 3, integers(7, 4, 5)
    targets[1] = ignore_index
    more = {"ignore_index": ignore_index, "label_smoothing": smoothing}
    ours = solution("cross_entropy").cross_entropy
    agree(
        lambda dtype: F.cross_entropy(logits.to(dtype).flatten(0, 1), targets.flatten(), **more)[None],
        lambda dtype: ours(logits.to(dtype), targets, **more)[None],
    )


def test_cross_entropy_has_its_known_values() -> None:
    logits, targets = torch.tensor([[2.0, 1, 0], [0, 0, 0], [1, 2, 3]]), torch.tensor([0, -100, 2])
    ours = solution("cross_entropy").cross_entropy
    found = [ours(logits, targets, label_smoothing=e, z_loss=z) for e, z in ((0.0, 0.0), (0.1, 0.0), (0.0, 0.01))]
    assert torch.allclose(torch.stack(found), torch.tensor([0.40761, 0.50761, 0.49465]), atol=1e-5)
