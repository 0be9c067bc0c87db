"""What `cross_entropy` must do. The oracle adds up -q log p class by class, position by position."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from dojo.contracts import (
    Attempt,
    Ban,
    Call,
    Draw,
    RoundedOnceContract,
    fast,
    match,
    robust,
    too_much,
)

SMOOTH, PENALISED = {"label_smoothing": 0.3}, {"z_loss": 0.2}


def by_definition(logits: Tensor, targets: Tensor, ignore_index: int, label_smoothing: float, z_loss: float) -> Tensor:
    rows, kept = logits.flatten(0, -2) if logits.dim() > 1 else logits[None], []
    for row, target in zip(rows, targets.flatten().tolist(), strict=True):
        if target != ignore_index:
            q = [label_smoothing / len(row) + (1 - label_smoothing) * (place == target) for place in range(len(row))]
            log_p = torch.log_softmax(row, -1)
            loss = -sum(share * log_p[place] for place, share in enumerate(q) if share)
            kept.append(loss + z_loss * (row[target] - log_p[target]) ** 2)
    return torch.stack(kept).mean() if kept else 0 * logits.sum()


def library(logits: Tensor, targets: Tensor, ignore_index: int, label_smoothing: float, z_loss: float) -> Tensor:
    x, flat = logits.reshape(-1, logits.shape[-1]), targets.reshape(-1).long()
    kept = flat != ignore_index
    total = F.cross_entropy(x, flat, ignore_index=ignore_index, label_smoothing=label_smoothing, reduction="sum")
    return (total + z_loss * x.logsumexp(-1)[kept].square().sum()) / kept.sum().clamp_min(1)


def by_gathering(logits: Tensor, targets: Tensor, ignore_index: int, label_smoothing: float, z_loss: float) -> Tensor:
    kept, top = targets != ignore_index, logits.detach().amax(-1, keepdim=True)
    log_z = ((logits - top).exp().cumsum(-1)[..., -1]).log() + top[..., 0]  # one term after the other
    loss = log_z - logits.gather(-1, targets.where(kept, 0).long()[..., None])[..., 0]
    if label_smoothing:
        loss = (1 - label_smoothing) * loss + label_smoothing * (log_z - logits.mean(-1))
    return torch.where(kept, loss + z_loss * log_z**2, 0.0).sum() / kept.sum().clamp_min(1)


def of_kept_rows(logits: Tensor, targets: Tensor, ignore_index: int, label_smoothing: float, z_loss: float) -> Tensor:
    kept = targets != ignore_index
    x, classes = logits[kept], targets[kept].long()
    log_p = x - x.logsumexp(-1, keepdim=True)  # off by as much as the largest logit rounds
    loss = -(1 - label_smoothing) * log_p[torch.arange(len(x)), classes]
    loss = loss - label_smoothing * log_p.mean(-1) if label_smoothing else loss
    return (loss + z_loss * x.logsumexp(-1) ** 2).sum() / max(1, len(x))


class TestCrossEntropy(RoundedOnceContract):
    name = "cross_entropy"
    oracle = by_definition
    variants = (library, by_gathering, of_kept_rows)
    ban = Ban(
        r"softmax|nll_loss|cross_entropy",
        ("torch.nn.functional.cross_entropy", "torch.nn.functional.nll_loss", "torch.nn.functional.log_softmax",
         "torch.nn.functional.softmax", "torch._refs.softmax", "torch._refs.log_softmax"),
    )  # fmt: skip
    cases = {
        "a_batch": {},
        "some_ignored": {"ignored": 0.5},
        "smoothed": {"ignored": 0.3, **SMOOTH},
        "a_z_loss": {"ignored": 0.3, "scale": 3.0, **PENALISED},
        "smoothed_with_a_z_loss": {"ignored": 0.3, **SMOOTH, **PENALISED},
        "another_ignore_index": {"ignored": 0.5, "ignore_index": -1},
        "rows_of_a_sequence": {"shape": (2, 3), "ignored": 0.3, **SMOOTH},
    }
    more_shapes = {
        "one_position": {"shape": ()},
        "one_row": {"shape": (1,)},
        "one_class": {"vocab": 1, "ignored": 0.3},
        "four_leading_dimensions": {"shape": (2, 1, 3, 2), "ignored": 0.3},
    }
    hard_cases = {
        "an_ignored_class_of_the_vocabulary": {"shape": (12,), "vocab": 4, "ignore_index": 2, "ignored": 0.3},
        "an_ignore_index_beyond_the_vocabulary": {"ignored": 0.4, "ignore_index": 1000},
        "all_smoothing": {"label_smoothing": 1.0},
        "int32_targets": {"ignored": 0.3, "dtype": torch.int32},
    }
    representative = ("a_batch", "some_ignored", "smoothed_with_a_z_loss", "rows_of_a_sequence")
    near_300 = {"shape": (3,), "vocab": 70_001, "scale": 0.1, "offset": 300.0}
    growth_sizes = (8, 20)
    timed = {"shape": (256,), "vocab": 2048, "ignored": 0.3}

    @classmethod
    def call(
        cls, d: Draw, shape: tuple = (5,), vocab: int = 7, ignored: float = 0.0,
        scale: float = 2.0, offset: float = 0.0, dtype: torch.dtype = torch.int64, **settings: float,
    ) -> Call:  # fmt: skip
        """Normal logits and random targets, of which about a share is ignored, but never the first."""
        index = int(settings.get("ignore_index", -100))
        targets = d.integers(0, vocab, *shape)
        if ignored:
            gone = (d.uniform(*shape) < ignored).flatten()
            gone[0], gone[-1] = False, True
            targets = targets.masked_fill(gone.view(shape), index)
            targets.view(-1)[0] = 0
        logits = offset + d.normal(*shape, vocab, scale=scale)
        return Call({"logits": logits, "targets": targets.to(dtype), **settings})

    @robust
    def test_nothing_kept_gives_zero_with_gradients_of_zero(self, attempt: Attempt, draw: Draw) -> None:
        """A batch of prompts alone makes the loss nan, and with it every weight."""
        for more in ({}, SMOOTH, PENALISED):
            call = self.call(draw, **more)
            ignored = call.with_inputs(targets=torch.full_like(call.inputs["targets"], -100))
            self.verify(attempt, draw, "all targets ignored", ignored, gradients=True)

    @robust
    def test_large_logits_give_finite_losses_and_gradients(self, attempt: Attempt, draw: Draw) -> None:
        """Early in training, or behind a bug, a logit of some thousands turns the loss into inf or nan."""
        logits = torch.tensor([[1e4, 0.0, -1e4], [-1e4, -1e4 + 1, -2e4], [112.0, 100.0, 0.0]])
        for number, targets in enumerate(([0, 1, 0], [2, 2, 1], [1, 0, 2])):
            call = Call({"logits": logits, "targets": torch.tensor(targets)})
            self.verify(attempt, draw, f"large logits, targets {number + 1}", call, gradients=True)

    @robust
    def test_a_logit_of_minus_infinity_beside_the_target_has_no_weight(self, attempt: Attempt, draw: Draw) -> None:
        """A token that is masked out of the vocabulary makes the loss nan."""
        call = self.call(draw, shape=(6,), ignored=0.3)
        logits, targets = call.inputs["logits"], call.inputs["targets"]
        gone = F.one_hot((targets.clamp_min(0) + 1) % logits.shape[-1], logits.shape[-1]).bool()
        for more in ({}, PENALISED):
            masked = call.with_inputs(logits=logits.masked_fill(gone, -math.inf), **more)
            self.verify(attempt, draw, "one token masked out", masked, gradients=True)

    @robust
    def test_half_precision_neither_sums_nor_counts_positions(self, attempt: Attempt, draw: Draw) -> None:
        """float16 ends at 65504: the sum of a long batch's losses is inf there, and so is the number of its tokens."""
        logits, count = torch.arange(3).half(), 70_001
        call = Call({"logits": logits.expand(count, 3), "targets": torch.ones(count, dtype=torch.int64)})
        told, exact = f"{count} positions that all lose ln(1/e + 1 + e)", logits.double().logsumexp(-1) - 1
        match(self.run(attempt, told, call).double(), exact, 2e-3 * exact, "the mean of equal losses is that loss", "")

    @robust
    def test_wrong_arguments_are_refused(self, attempt: Attempt, draw: Draw) -> None:
        """A target that is no class reads another row, or the loss goes on with the wrong sign."""
        call = self.call(draw)
        logits, targets = call.inputs["logits"], call.inputs["targets"]
        for wrong in (7, -1, -101):
            bad = targets.clone()
            bad[1], bad[3] = -100, wrong
            sentence = f"a target of {wrong} with 7 classes is refused"
            self.refuses(attempt, call.with_inputs(targets=bad), wrong, sentence=sentence)
        bad = torch.stack([targets, targets])
        bad[1, 3] = -100
        other = call.with_inputs(logits=torch.stack([logits, logits]), targets=bad, ignore_index=-1)
        sentence = "a target of -100 in the second row is refused when ignore_index is another number"
        self.refuses(attempt, other, -100, sentence=sentence)
        self.refuses_each(attempt, call, targets=(targets[:4], targets[:, None], logits.argmax(-1)[None]))
        for some in (targets, torch.full_like(targets, -100)):  # or where nothing is kept
            kept = call.with_inputs(targets=some)
            self.refuses_each(attempt, kept, label_smoothing=(-0.1, 1.5), z_loss=(-0.5,))

    @fast
    def test_no_tensor_has_more_elements_than_logits(self, attempt: Attempt, draw: Draw) -> None:
        call = self.call(draw, shape=(64,), vocab=512, ignored=0.3, **SMOOTH, **PENALISED).cast(torch.float64)
        callee, args, kwargs = self.prepare_call(attempt, call)
        found, most = callee.largest(*args, **kwargs), 8 * call.inputs["logits"].numel()
        name, size = max(found.items(), key=lambda item: item[1])
        if size > most:
            seen = f"{name} made {size} bytes for logits of {most // 8} elements"
            too_much("no tensor has more elements than logits", seen)
