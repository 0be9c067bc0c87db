"""The losses against PyTorch's own and that of transformers."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from transformers.loss.loss_utils import ForCausalLMLoss

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


@pytest.mark.parametrize("ignore_index", [-100, 2])
@pytest.mark.parametrize("chunk_size", [1, 5, 64])
def test_linear_cross_entropy_is_torchs(ignore_index: int, chunk_size: int) -> None:
    targets = integers(11, 4, 6)
    targets[1] = ignore_index
    options = torch.nn.LinearCrossEntropyOptions(batch_chunk_size=chunk_size)

    def theirs(hidden: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        rows, flat = hidden.flatten(0, 1), targets.flatten()
        return F.linear_cross_entropy(rows, weight, flat, ignore_index=ignore_index, options=options)

    def ours(hidden: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return solution("linear_cross_entropy").linear_cross_entropy(hidden, weight, targets, ignore_index, chunk_size)

    found = []
    for loss in (theirs, ours):
        leaves = [each.requires_grad_() for each in (normal(4, 6, 8), normal(11, 8, seed=2))]
        value = loss(*leaves)
        (value * 3).backward()
        found.append([value.detach(), *(each.grad for each in leaves)])
    assert all(torch.allclose(*pair, atol=1e-15, rtol=1e-13) for pair in zip(*found, strict=True))


@pytest.mark.parametrize("count", [None, 23])
def test_lm_loss_is_that_of_transformers(count: int | None) -> None:
    logits, ids, learnt = normal(4, 6, 7) * 3, integers(7, 4, 6), integers(2, 4, 6, seed=2).bool()
    labels, many = ids.masked_fill(~learnt, -100), None if count is None else torch.tensor(count)
    ours = solution("lm_loss").lm_loss
    found = ours(logits.float(), ids, learnt, count)
    theirs = ForCausalLMLoss(logits, labels, vocab_size=7, num_items_in_batch=many)  # in float32 whatever it is given
    assert torch.allclose(found, theirs, atol=0, rtol=1e-6)


def test_lm_losses_of_microbatches_add_up() -> None:
    logits, ids, learnt = normal(5, 6, 7), integers(7, 5, 6), integers(2, 5, 6, seed=2).bool()
    ours, count = solution("lm_loss").lm_loss, learnt[:, 1:].sum()
    for cut in range(1, 5):
        parts = [ours(logits[rows], ids[rows], learnt[rows], count) for rows in (slice(0, cut), slice(cut, 5))]
        assert torch.allclose(sum(parts), ours(logits, ids, learnt), atol=1e-12)


def test_lm_loss_has_its_known_values() -> None:
    logits, ids = torch.tensor([3.0, 1.0]).log().expand(1, 4, 2), torch.tensor([[0, 1, 1, 0]])
    learnt = torch.tensor([[True, False, True, True]])
    ours = solution("lm_loss").lm_loss
    found = [ours(logits, ids), ours(logits, ids, learnt), ours(logits, ids, learnt, 4)]
    assert torch.allclose(torch.stack(found), torch.tensor([1.02009, 0.83699, 0.41849]), atol=1e-5)


@pytest.mark.parametrize("temperature", [0.5, 1.0, 4.0])
def test_distillation_is_torchs_kl_div_and_cross_entropy_of_kept_rows(temperature: float) -> None:
    student, teacher, targets = normal(4, 5, 7) * 3, normal(4, 5, 7, seed=2) * 3, integers(7, 4, 5)
    targets[1, 2:] = -100
    kept = targets != -100

    def theirs(dtype: torch.dtype) -> torch.Tensor:
        log_q, log_p = ((x[kept].to(dtype) / temperature).log_softmax(-1) for x in (student, teacher))
        soft = F.kl_div(log_q, log_p, reduction="batchmean", log_target=True)
        return (0.3 * temperature**2 * soft + 0.7 * F.cross_entropy(student[kept].to(dtype), targets[kept]))[None]

    ours = solution("distillation").distillation_loss
    agree(theirs, lambda dtype: ours(student.to(dtype), teacher.to(dtype), targets, temperature, 0.3)[None])


def test_distillation_has_its_known_value() -> None:
    logits = torch.tensor([0.0, 0.0]), torch.tensor([2.0, 0.0])
    found = solution("distillation").distillation_loss(*logits, torch.tensor(0))
    assert torch.allclose(found, torch.tensor(0.5685), atol=5e-5)
