"""Known bugs: mistakes that people make, planted in the master one line at a time, and recognised by what they give."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from dojo import rule
from dojo.expect import Wrong
from dojo.judge.faults import Fault


@dataclass(frozen=True)
class Bug:
    """A mistake by its name in the field, one sentence that explains it, and the edit of the master that makes it."""

    name: str
    why: str
    old: str
    new: str

    def plant(self, master: str) -> str:
        """The master's source with this mistake in it.

        Raises:
            ValueError: the line to edit does not stand exactly once in the master.
        """
        if master.count(self.old) != 1:
            raise ValueError(f"the bug {self.name!r} edits {self.old!r}, which stands {master.count(self.old)} times")
        return master.replace(self.old, self.new)


@dataclass(frozen=True)
class Equivalent:
    """A change of the master that is no mistake: what "line  →  changed line" must match, and why it is none."""

    change: str  # a regular expression
    why: str


WIDER = Equivalent(r"float32.*→.*float64", "float64 is wider than the float32 that is asked for.")


def same_failure(attempt: Fault, bug: Fault) -> bool:
    """Whether a known bug fails a check in the way the attempt does: same place, same values within the budget."""
    if attempt.outcome is not bug.outcome:
        return False
    if isinstance(attempt, Wrong) and isinstance(bug, Wrong) and isinstance(attempt.got, Tensor):
        return attempt.where == bug.where and isinstance(bug.got, Tensor) and _same_values(attempt, bug)
    return _told(attempt) == _told(bug)


def _same_values(attempt: Wrong, bug: Wrong) -> bool:
    got, other = attempt.got, bug.got
    if got.shape != other.shape or got.dtype is not other.dtype:
        return False
    if got.is_complex() or attempt.allowed is None or attempt.allowed.shape != got.shape:
        return torch.equal(got, other)
    used = rule.usage(got.cpu(), other.cpu(), attempt.allowed)
    return not used.numel() or float(used.max()) <= 1


def _told(fault: Fault) -> list[str]:
    """What a fault says, less what depends on how the file is written."""
    return [s.text for s in fault.sections if s.label.value in ("contract", "facts")]
