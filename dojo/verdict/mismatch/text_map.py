"""A heat map in characters: where the wrong elements lie on the two axes that show it best, and how wrong they are."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import combinations

import torch
from torch import Tensor

from dojo.verdict.mismatch.comparison import Mismatch, multiple

MAP_ROWS, MAP_COLUMNS = 16, 32
SHADES = "█▓▒░"  # each a tenth of the one before, counted from the worst element


def text_map(m: Mismatch) -> str:
    """The excess over two axes, or nothing where a map would add nothing to the words."""
    axes = sorted(m.long_axes)
    if len(axes) < 2 or m.wrong.all() or int(m.wrong.sum()) < 2:
        return ""
    pair = max(combinations(axes, 2), key=lambda p: (_purity(m, p), p))
    rest = tuple(a for a in range(m.got.ndim) if a not in pair)
    # nan and infinity count as more than any number.
    strange = m.wrong & ~(m.got.isfinite() & m.expected.isfinite())
    level = torch.where(strange, math.inf, m.excess.clamp(max=1e300))
    grid = level.amax(rest) if rest else level
    marked = grid > 0
    if (marked == marked[:1]).all() or (marked == marked[:, :1]).all():  # stripes, which a line of words tells better
        return ""
    return "\n".join(_draw(grid, [m.axes[a] for a in pair], m.exact))


def _purity(m: Mismatch, pair: tuple[int, ...]) -> float:
    """Of the elements under the cells that would be marked, the share that is wrong."""
    rest = tuple(a for a in range(m.got.ndim) if a not in pair)
    cells = m.wrong.any(rest) if rest else m.wrong
    return round(float(m.wrong.sum()) / float(cells.sum()) / (m.wrong.numel() / cells.numel()), 6)


def _draw(grid: Tensor, names: list[str], exact: bool) -> Iterator[str]:
    down, across = -(-grid.shape[0] // MAP_ROWS), -(-grid.shape[1] // MAP_COLUMNS)
    pool = torch.nn.functional.max_pool2d
    cells = pool(grid[None, None], (down, across), ceil_mode=True)[0, 0]
    finite = cells[cells.isfinite()]
    worst = float(finite.max()) if len(finite) else 0.0
    rows = ["".join(_shade(x, worst, exact) for x in row) for row in cells.tolist()]
    margin = max(len(str(grid.shape[0])), 2)
    yield f"{names[0]} ↓ {names[1]} →"
    yield f"{'':{margin}} {_ticks(cells.shape[1], across)}"
    for i, row in enumerate(rows):
        yield f"{i * down:{margin}} {row}"
    yield _legend(set("".join(rows)), worst, exact, down * across > 1 and f"{down} × {across}")


def _shade(x: float, worst: float, exact: bool) -> str:
    if x == 0:
        return "·"
    if math.isinf(x):
        return "!"
    return SHADES[0] if exact else SHADES[min(3, int(math.log10(worst / x)))]


def _ticks(columns: int, across: int) -> str:
    step = 4 if columns * across < 1000 else 8
    return "".join(f"{i * across:<{step}}" for i in range(0, columns, step)).rstrip()


def _down(x: float) -> float:
    """Rounded down to two digits, so that what is over x is over this too."""
    unit = 10.0 ** (math.floor(math.log10(x)) - 1)
    return math.floor(x / unit) * unit


def _legend(used: set[str], worst: float, exact: bool, block: str | bool) -> str:
    words = {"·": "right", "!": "nan or inf", SHADES[0]: "wrong"}
    if not exact and worst < 1e300:
        borders = [max(1.0, worst / 10 ** (i + 1)) for i in range(3)]
        words |= {c: f"over {multiple(_down(border))}×" for c, border in zip(SHADES, borders, strict=False)}
        words[SHADES[3]] = f"less, but over {multiple(1.0)}×"
    shown = ", ".join(f"{c} {words[c]}" for c in [*SHADES, "!", "·"] if c in used and c in words)
    unit = "" if exact or not used & set(SHADES) else " the allowed error"
    return f"{shown}{unit and f' (×: {unit.strip()})'}{f'; one sign is the worst of {block}' if block else ''}"
