"""What `cross_entropy` must do. The oracle adds up -q log p class by class, position by position."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from dojo.contracts import Attempt, Ban, Call, Draw, RoundedOnceContract, core, match, robust

BOTH = {"label_smoothing": 0.3, "z_loss": 0.2}
TARGETS = [0, 1, 0, 2], [2, 2, 1, 0], [1, 0, 2, 0]  # of logits at the extremes


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
    x, flat = logits.reshape(-1, logits.shape[-1]), targets.reshape(-1)
    kept = flat != ignore_index
    total = F.cross_entropy(x, flat, ignore_index=ignore_index, label_smoothing=label_smoothing, reduction="sum")
    return (total + z_loss * x.logsumexp(-1)[kept].square().sum()) / kept.sum().clamp_min(1)


def by_gathering(logits: Tensor, targets: Tensor, ignore_index: int, label_smoothing: float, z_loss: float) -> Tensor:
    kept, top = targets != ignore_index, logits.detach().amax(-1, keepdim=True)
    log_z = ((logits - top).exp().cumsum(-1)[..., -1]).log() + top[..., 0]  # one term after the other
    loss = log_z - logits.gather(-1, targets.where(kept, 0)[..., None])[..., 0]
    if label_smoothing:
        loss = (1 - label_smoothing) * loss + label_smoothing * (log_z - logits.mean(-1))
    return torch.where(kept, loss + z_loss * log_z**2, 0.0).sum() / kept.sum().clamp_min(1)


def of_kept_rows(logits: Tensor, targets: Tensor, ignore_index: int, label_smoothing: float, z_loss: float) -> Tensor:
    kept = targets != ignore_index
    x, classes = logits[kept], targets[kept]
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
    holds = {
        "Smoothing": ("test_smoothing",),
        "Padding": ("test_hard_cases",),
        "Nothing kept": ("test_nothing_kept",),
        "Extremes": ("test_large_logits",),
        "Half precision": ("test_half_precision", "test_float16"),
    }
    cases = {
        "a_batch": {},
        "some_ignored": {"ignored": 0.5},
        "another_ignore_index": {"ignored": 0.5, "ignore_index": -1},
        "a_sure_model": {"margin": 9.0, "scale": 0.3},
        "a_sequence_with_a_z_loss": {"shape": (2, 3), "ignored": 0.3, "scale": 3.0, **BOTH},
    }
    hard_cases = {"the_padding_ignored": {"shape": (12,), "vocab": 4, "ignore_index": 2, "ignored": 0.3}}
    near_300 = {"shape": (3,), "vocab": 70_001, "scale": 0.1, "offset": 300.0}
    memory_in = "shape"

    @classmethod
    def call(
        cls, d: Draw, shape: tuple = (5,), vocab: int = 7, ignored: float = 0.0, scale: float = 2.0,
        offset: float = 0.0, margin: float = 0.0, **settings: float,
    ) -> Call:  # fmt: skip
        """Normal logits and random targets, of which about a share is ignored: the last is, and the first never.

        By a margin logits of targets are larger: of a loss near 0 little is left where the sum is rounded to bfloat16.
        """
        targets = d.integers(0, vocab, *shape)
        logits = offset + d.normal(*shape, vocab, scale=scale) + margin * F.one_hot(targets, vocab)
        if ignored:
            gone = (d.uniform(*shape) < ignored).flatten()
            gone[0], gone[-1] = False, True
            targets = targets.masked_fill(gone.view(shape), int(settings.get("ignore_index", -100)))
            targets.view(-1)[0] = 0
        return Call({"logits": logits, "targets": targets, **settings})

    @core
    def test_smoothing_spreads_over_all_classes(self, attempt: Attempt, draw: Draw) -> None:
        """Another ε than everybody else's, and a loss that compares with nobody's."""
        calls = {f"smoothing {share}": self.call(draw, ignored=0.3, label_smoothing=share) for share in (0.3, 1.0)}
        self.verify_all(attempt, draw, calls.items(), gradients=True)

    @robust
    def test_nothing_kept_gives_zero_with_gradients_of_zero(self, attempt: Attempt, draw: Draw) -> None:
        """A batch of prompts alone makes the loss nan, and with it every weight."""
        for more in ({}, BOTH):
            call = self.call(draw, **more)
            ignored = call.with_inputs(targets=torch.full_like(call.inputs["targets"], -100))
            self.verify(attempt, draw, "all targets ignored", ignored, gradients=True)

    @robust
    def test_large_logits_and_minus_infinity_give_finite_losses(self, attempt: Attempt, draw: Draw) -> None:
        """A logit of some thousands, or a token that is masked out of the vocabulary, makes the loss inf or nan."""
        rows = torch.tensor([[1e4, 0.0, -1e4], [-1e4, -1e4 + 1, -2e4], [112.0, 100.0, 0.0], [5.0, -math.inf, 1.0]])
        calls = {str(targets): Call({"logits": rows, "targets": torch.tensor(targets)}) for targets in TARGETS}
        self.verify_all(attempt, draw, calls.items(), gradients=True)

    @robust
    def test_half_precision_neither_sums_nor_counts_positions(self, attempt: Attempt, draw: Draw) -> None:
        """float16 ends at 65504: the sum of a long batch's losses is inf there, and so is the number of its tokens."""
        logits, count = torch.arange(3).half(), 70_001
        call = Call({"logits": logits.expand(count, 3), "targets": torch.ones(count, dtype=torch.int64)})
        told, exact = f"{count} positions that all lose ln(1/e + 1 + e)", logits.double().logsumexp(-1) - 1
        match(self.run(attempt, told, call).double(), exact, 2e-3 * exact, "the mean of equal losses is that loss", "")
