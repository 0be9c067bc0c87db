"""What the wrong elements of a failed comparison have in common: the detectors, and which of them are told."""

from __future__ import annotations

from dojo.verdict.mismatch.comparison import Detector, Mismatch, value_range
from dojo.verdict.mismatch.places import band, one_sided, places
from dojo.verdict.mismatch.relations import RELATIONS, rounded

MAX_PATTERNS = 3
# Below this many times the allowed error, "twice the expected" and "the expected plus a little" cannot be told apart.
CLEAR = 8.0


def patterns(m: Mismatch) -> list[str]:
    """What the wrong elements have in common, a sentence each, at most three."""
    found: list[str] = []
    for family in FAMILIES:
        if family is RELATIONS and (int(m.wrong.sum()) < 2 or float(m.excess.max()) < CLEAR):
            family = (rounded,)
        found.extend(next(([text] for detect in family if (text := detect(m))), []))
    return found[:MAX_PATTERNS]


def dead_rows(m: Mismatch) -> str | None:
    """nan in the rows of attention weights that are all zero."""
    nan = m.got.isnan() & ~m.expected.isnan()
    if not m.long_axes or not nan.any():
        return None
    axis = m.long_axes[0]
    dead = (m.expected == 0).all(axis)
    if (nan.any(axis) & ~dead).any() or dead.all():
        return None
    return "nan only in rows that are all zero in the expected: those that may attend to nothing"


def sums(m: Mismatch) -> str | None:
    """Rows of attention weights that do not sum to 1."""
    if m.exact or not (m.expected >= 0).all():
        return None
    for a in m.long_axes:
        want, have = m.expected.sum(a), m.got.sum(a)
        slack = 1e-6 + 2 * m.allowed.sum(a)
        ones = (want - 1).abs() <= 1e-6
        if not (ones | (want == 0)).all() or not ones.any():
            continue
        off = ~((have - want).abs() <= slack) & have.isfinite()
        if not off.any():
            return None
        if not (off & ones).any():
            return f"rows along {m.axes[a]} that should be all zero have a sum ({value_range(have[off])})"
        off &= ones
        instead = [b for b in m.long_axes if b != a and ((m.got.sum(b) - 1).abs() <= 1e-6 + m.allowed.sum(b)).all()]
        otherwise = f"; those along {m.axes[instead[0]]} are" if instead else f", but {value_range(have[off])}"
        return f"the sums along {m.axes[a]} are not 1{otherwise}"
    return None


# In the order in which they are told; of a family only the first that fits, for the others follow from it.
FAMILIES: tuple[tuple[Detector, ...], ...] = ((dead_rows,), RELATIONS, (sums,), (band,), (places,), (one_sided,))
