"""Where the wrong elements lie: on which places of each axis, on which side of the diagonal."""

from __future__ import annotations

import torch

from dojo.verdict.mismatch.comparison import Mismatch, enumerated, singular


def places(m: Mismatch) -> str | None:
    """Which places on each axis the wrong elements lie at: `only heads 1 and 3`."""
    count = int(m.wrong.sum())
    if count < 2:
        return None
    parts, room = [], 1
    for a in range(m.got.ndim - 2 if band(m) else m.got.ndim):  # a band has said all of the last two axes
        rest = tuple(b for b in range(m.got.ndim) if b != a)
        hit = m.wrong.any(rest) if rest else m.wrong
        places = hit.nonzero().flatten().tolist()
        room *= len(places)
        if len(places) < m.got.shape[a]:
            parts.append(_subset(places, m.got.shape[a], m.axes[a]))
    whole = " (there, every element)" if room == count else ""
    return ", ".join(parts) + whole if parts else None


def _subset(places: list[int], n: int, axis: str) -> str:
    """A set of places on an axis of size n, in the shortest words that are exactly true of it."""
    name, first, last, half = singular(axis), places[0], places[-1], n // 2
    others = sorted(set(range(n)) - set(places))
    if len(places) == 1:
        return f"only the last {name}, {last}" if first == n - 1 and n > 2 else f"only {name} {first}"
    if len(places) > 2 and places == list(range(first, last + 1)):
        if n % 2 == 0 and n >= 4 and len(places) == half and (first == 0 or last == n - 1):
            return f"only the {'second' if first else 'first'} half of {axis}"
        if others == [n - 1]:
            return f"every {name} but the last"
        if last == n - 1:
            return f"only {name} ≥ {first}"
        return f"only {name} {first} to {last}" if first else f"only {name} ≤ {last}"
    for step in range(2, n // 2 + 1):
        if places == list(range(first, n, step)) and first < step and len(places) > 2:
            if step == 2:
                return f"only {('even', 'odd')[first]} {axis}"
            return f"only {name} {first}, {first + step}, … in steps of {step}"
    if len(others) <= 2 < len(places):
        return f"every {name} but {enumerated([str(i) for i in others])}"
    if len(places) <= 4:
        return f"only {axis} {enumerated([str(i) for i in places])}"
    return f"only {len(places)} of {n} {axis}: {', '.join(map(str, places[:4]))}, …"


def band(m: Mismatch) -> str | None:
    """Where the wrong elements lie with respect to the diagonals of the last two axes."""
    if m.got.ndim < 2 or min(m.got.shape[-2:]) < 2:
        return None
    grid = m.wrong.flatten(0, -3).any(0) if m.got.ndim > 2 else m.wrong
    rows, columns = grid.shape
    diagonal = torch.arange(columns) - torch.arange(rows)[:, None]
    hit = diagonal[grid]
    low, high = int(hit.min()), int(hit.max())
    band = int(((diagonal >= low) & (diagonal <= high)).sum())
    block = int(grid.any(0).sum()) * int(grid.any(1).sum())
    # Said only of a band that is mostly wrong and that tells more than the rows and the columns do.
    if len(hit) < 2 or 2 * len(hit) < band or 4 * band > 3 * block:
        return None
    return _band_name(low, high, 1 - rows, columns - 1, m.axes[-2], m.axes[-1])


def _band_name(low: int, high: int, least: int, most: int, row: str, column: str) -> str:
    def plus(k: int) -> str:
        return f"{row} {'+' if k > 0 else '−'} {abs(k)}" if k else row

    if low == high:
        return "only on the diagonal" if low == 0 else f"only where {column} = {plus(low)}"
    if high == most:
        words = {1: "only above the diagonal", 0: "only on and above the diagonal"}
        return words.get(low, f"only where {column} ≥ {plus(low)}")
    if low == least:
        words = {-1: "only below the diagonal", 0: "only on and below the diagonal"}
        return words.get(high, f"only where {column} ≤ {plus(high)}")
    return f"only where {column} − {row} is from {low} to {high}"


def one_sided(m: Mismatch) -> str | None:
    """Which of the two errors a mask has: True for False, or False for True."""
    if not m.boolean or int(m.wrong.sum()) < 2:
        return None
    values = m.raw_got[m.wrong]
    if not (values == values[0]).all():
        return None
    return f"{bool(values[0])} where {not bool(values[0])} is expected, never the other way round"
