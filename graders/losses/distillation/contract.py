"""What `distillation_loss` must do. The oracle adds up position by position and class by class."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from dojo.contracts import Attempt, Call, Draw, Formula, RoundedOnceContract, core, robust


def class_by_class(
    student_logits: Tensor, teacher_logits: Tensor, targets: Tensor, temperature: float, alpha: float, ignore_index: int
) -> Tensor:
    vocab, total, kept = student_logits.shape[-1], 0 * student_logits.sum(), 0
    pairs = zip(student_logits.reshape(-1, vocab), teacher_logits.detach().reshape(-1, vocab), strict=True)
    for (student, teacher), target in zip(pairs, targets.flatten().tolist(), strict=True):
        if target == ignore_index:
            continue
        kept += 1
        ours, theirs = (row / temperature - torch.logsumexp(row / temperature, 0) for row in (student, teacher))
        for mine, own in zip(ours, theirs, strict=True):
            total = total + alpha * temperature**2 * own.exp() * (own - mine)
        total = total - (1 - alpha) * (student[target] - torch.logsumexp(student, 0))
    return total / kept


def library(student: Tensor, teacher: Tensor, targets: Tensor, t: float, alpha: float) -> Tensor:
    log_q, log_p = F.log_softmax(student / t, -1), F.log_softmax(teacher / t, -1)
    soft = F.kl_div(log_q, log_p, reduction="batchmean", log_target=True)
    return alpha * t * t * soft + (1 - alpha) * F.cross_entropy(student, targets)


def less_the_entropy(student: Tensor, teacher: Tensor, targets: Tensor, t: float, alpha: float) -> Tensor:
    p = F.softmax(teacher / t, -1)
    entropy, cross = (F.cross_entropy(each / t, p, reduction="none") for each in (teacher, student))
    hard = student.logsumexp(-1) - student[torch.arange(len(student)), targets]
    return (t**2 * alpha * (cross - entropy) + (1 - alpha) * hard).mean()


def normalizers_last(student: Tensor, teacher: Tensor, targets: Tensor, t: float, alpha: float) -> Tensor:
    student, teacher, top = student / t, teacher / t, teacher.amax(-1, keepdim=True) / t
    p = (teacher - top).exp()
    moved = (p * (teacher - student)).sum(-1) / p.sum(-1)
    soft = moved - teacher.logsumexp(-1) + student.logsumexp(-1)
    hard = -(student * t).log_softmax(-1).gather(-1, targets[:, None])[:, 0]
    return torch.lerp(hard, t**2 * soft, alpha).cumsum(0)[-1] / len(hard)


def of_kept_rows(formula: Formula) -> Formula:
    """The formula of rows that are kept, whose teacher is constant."""

    def whole(
        student_logits: Tensor, teacher_logits: Tensor, targets: Tensor, temperature: float, alpha: float,
        ignore_index: int,
    ) -> Tensor:  # fmt: skip
        kept = targets != ignore_index
        return formula(student_logits[kept], teacher_logits.detach()[kept], targets[kept], temperature, alpha)

    return whole


class TestDistillationLoss(RoundedOnceContract):
    name = "distillation_loss"
    oracle = class_by_class
    variants = tuple(map(of_kept_rows, (library, less_the_entropy, normalizers_last)))
    constants = ("teacher_logits",)
    holds = {
        "Teacher": ("test_constants_get",),
        "Ignored positions": ("test_ignored_positions", "test_the_ignored"),
        "Stability": ("test_hard_cases",),
        "Half precision": ("test_half_precision", "test_float16_values"),
        "Errors": ("test_another_shape",),
    }
    cases = {
        "a_batch": {},
        "another_temperature": {"temperature": 4.0, "alpha": 0.3, "scale": 4.0},
        "the_teacher_alone": {"temperature": 1.0, "alpha": 1.0},
        "a_sequence": {"shape": (2, 3), "alpha": 0.9},
        "a_student_that_is_near": {"vocab": 40, "apart": 0.4, "alpha": 1.0},
        "padded_rows": {"shape": (2, 5), "ignored": 0.5},
    }
    hard_cases = {
        "logits_in_the_hundreds": {"scale": 200.0, "temperature": 1.0},
        "a_temperature_below_1": {"scale": 30.0, "temperature": 0.25},
        # Divided in half precision, the teacher's move apart.
        "logits_far_from_zero": lambda d: TestDistillationLoss.call(d, (1,), 2, temperature=0.7, alpha=1.0).with_inputs(
            student_logits=torch.zeros(1, 2), teacher_logits=torch.tensor([[100.0, 99.5]])
        ),
    }
    representative = (*cases, "logits_far_from_zero")
    near_300 = {"shape": (200,), "scale": 300.0}  # losses whose sum is beyond float16
    timed = {"shape": (32,), "vocab": 1024}
    memory_in = "shape"

    @classmethod
    def call(
        cls, d: Draw, shape: tuple = (5,), vocab: int = 7, ignored: float = 0.0, scale: float = 2.0,
        apart: float | None = None, **settings: float,
    ) -> Call:  # fmt: skip
        """Normal logits and random targets, of which about a share is ignored: the last is, the first half never.

        The student's are `apart` from the teacher's, or have nothing to do with them.
        """
        targets = d.integers(1, vocab, *shape) if vocab > 1 else torch.zeros(shape, dtype=torch.int64)
        if ignored:
            gone = (d.uniform(*shape) < ignored).flatten()
            gone[: len(gone) // 2], gone[-1] = False, True
            targets = targets.masked_fill(gone.view(shape), int(settings.get("ignore_index", -100)))
        teacher, student = d.normal(2, *shape, vocab, scale=scale)
        if apart is not None:
            student = teacher + apart / scale * student
        return Call({"student_logits": student, "teacher_logits": teacher, "targets": targets, **settings})

    @core
    def test_ignored_positions_count_in_neither_term(self, attempt: Attempt, draw: Draw) -> None:
        """The student learns what the teacher says of padding, and the loss measures how much of it there is."""
        calls = {f"alpha {alpha}": self.call(draw, (9,), ignored=0.5, alpha=alpha) for alpha in (0.5, 1.0, 0.0)}
        self.verify_all(attempt, draw, calls.items(), gradients=True)

    @robust
    def test_the_ignored_index_may_be_any(self, attempt: Attempt, draw: Draw) -> None:
        """Data with another index than -100 trains on padding, or fails in a gather."""
        calls = {f"ignore_index {one}": self.call(draw, (9,), ignored=0.5, ignore_index=one) for one in (0, -1, 9)}
        self.verify_all(attempt, draw, calls.items(), gradients=True)

    @robust
    def test_another_shape_of_the_teacher_is_refused(self, attempt: Attempt, draw: Draw) -> None:
        """A vocabulary padded to a multiple of 64 fails deep in a kernel, and a size of 1 broadcasts."""
        self.refuses_each(attempt, self.call(draw), teacher_logits=[draw.normal(*s) for s in ((5, 9), (5, 1), (1, 7))])
