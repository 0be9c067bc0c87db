"""Whether a known bug fails a check in the way an attempt does."""

from __future__ import annotations

from torch import Tensor

from dojo.contracts.checks.assertions import Wrong
from dojo.contracts.checks.tolerance import error_ratio
from dojo.verdict.failures import UNKNOWN, Fault, Raised
from dojo.verdict.mismatch.plain import first_difference, within


def same_failure(attempt: Fault | None, bug: Fault | None) -> bool:
    """Whether a known bug fails a check in the way the attempt does: same place, same values within the tolerance.

    Two that pass it do so in the same way.
    """
    if attempt is None or bug is None or attempt.outcome is not bug.outcome:
        return attempt is bug
    if isinstance(attempt, Wrong) and isinstance(bug, Wrong) and isinstance(attempt.got, Tensor):
        return attempt.where == bug.where and isinstance(bug.got, Tensor) and _same_values(attempt, bug)
    if isinstance(attempt, Wrong) and isinstance(bug, Wrong) and attempt.got is not None:
        return attempt.where == bug.where and first_difference(bug.got, attempt.got, within(1e-6, 1e-9)) is None
    if isinstance(attempt, Raised) and isinstance(bug, Raised):
        return (attempt.kind, attempt.text) == (bug.kind, bug.text) and _same_operation(attempt, bug)
    return attempt.failure.seen == bug.failure.seen


def _same_operation(attempt: Raised, bug: Raised) -> bool:
    """Whether two exceptions come of one operation on operands of the same shapes, as far as both are known.

    `x - x.amax(-1)` and `x / x.sum(-1)` raise the same text, and are two mistakes.
    """
    if not attempt.operation or not bug.operation:
        return True
    pairs = zip(attempt.operation, bug.operation, strict=False)
    return attempt.operation[0] == bug.operation[0] and all(a == b or UNKNOWN in (a, b) for a, b in pairs)


def _same_values(attempt: Wrong, bug: Wrong) -> bool:
    got, other = attempt.got.cpu(), bug.got.cpu()
    if got.shape != other.shape or got.dtype is not other.dtype:
        return False
    if got.is_complex() or attempt.allowed is None or attempt.allowed.shape != got.shape:
        return bool(((got == other) | (got != got) & (other != other)).all())
    ratio = error_ratio(got, other, attempt.allowed)
    return not ratio.numel() or float(ratio.max()) <= 1
