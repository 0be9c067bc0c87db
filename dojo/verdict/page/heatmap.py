"""A failed comparison to look at: expected, got and error of the slice around the worst element, as plain numbers."""

from __future__ import annotations

import base64
import colorsys
import math
import struct
import zlib
from itertools import chain
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

ROWS, COLUMNS = 24, 32
KINDS = ("expected", "got", "error")
NOT_FINITE = (216, 27, 154)
WITHIN = (159, 216, 180)  # an error that is allowed
SATURATED = 1e4  # times the allowed error: no error is redder, so that pictures can be compared
Colour = tuple[int, int, int]


def picture(got: Tensor, expected: Tensor, ratio: Tensor, axes: tuple[str, ...]) -> dict[str, Any] | None:
    """Two axes of a comparison around its worst element; `ratio` is the error in units of the allowed error.

    None where shapes differ or numbers are complex, so that there is nothing to lay beside each other.
    """
    import torch

    from dojo.verdict.mismatch.comparison import index_of

    if got.shape != expected.shape or got.is_complex() or expected.is_complex() or not got.numel():
        return None
    got, expected, error = (t.detach().cpu().double() for t in (got, expected, ratio))
    while got.dim() < 2:
        got, expected, error, axes = got[None], expected[None], error[None], ("", *axes)
    where = index_of(error.nan_to_num(nan=torch.inf).argmax(), error.shape)
    windows = [slice(start := max(0, min(at - most // 2, size - most)), start + most) for at, most, size in (
        (where[-2], ROWS, got.shape[-2]), (where[-1], COLUMNS, got.shape[-1]),
    )]  # fmt: skip
    cut: tuple[int | slice, ...] = (*where[:-2], *windows)
    return {
        "axes": list(axes[-2:]),
        "at": {name: index for name, index in zip(axes[:-2], where[:-2], strict=True)},
        "first": [window.start for window in windows],
        "worst": list(where[-2:]),
        "expected": _numbers(expected[cut]),
        "got": _numbers(got[cut]),
        "error": _numbers(error[cut]),
    }


def images(picture: dict[str, Any]) -> dict[str, str]:
    """Expected, got and error as PNG files in `data:` addresses, one pixel an element, values on one scale."""
    tables = {kind: [[float(value) for value in row] for row in picture[kind]] for kind in KINDS}
    scale = max((abs(v) for v in chain(*tables["expected"]) if math.isfinite(v)), default=0.0) or 1.0
    found = {kind: [[_signed(v, scale) for v in row] for row in tables[kind]] for kind in KINDS[:2]}
    found["error"] = [[_error(v) for v in row] for row in tables["error"]]
    return {kind: _png(rows) for kind, rows in found.items()}


def beyond(picture: dict[str, Any]) -> int:
    """How many of the elements shown are off by more than is allowed."""
    return sum(not float(value) <= 1 for value in chain(*picture["error"]))


def _signed(value: float, scale: float) -> Colour:
    """Blue below zero, orange above, white at it."""
    if not math.isfinite(value):
        return NOT_FINITE
    t = max(-1.0, min(1.0, value / scale))
    return _hsl(215, 0.75, 0.95 + 0.55 * t) if t < 0 else _hsl(25, 0.85, 0.95 - 0.5 * t)


def _error(value: float) -> Colour:
    """Green where it is allowed; beyond that from yellow to red by its order of magnitude, up to SATURATED."""
    if not math.isfinite(value):
        return NOT_FINITE
    if value <= 1:
        return WITHIN
    t = min(1.0, math.log10(value) / math.log10(SATURATED))
    return _hsl(45 - 45 * t, 0.9, 0.62 - 0.24 * t)


def _hsl(hue: float, saturation: float, lightness: float) -> Colour:
    red, green, blue = colorsys.hls_to_rgb(hue / 360, lightness, saturation)
    return round(255 * red), round(255 * green), round(255 * blue)


def _png(rows: list[list[Colour]]) -> str:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", len(rows[0]), len(rows), 8, 2, 0, 0, 0)
    lines = b"".join(b"\0" + bytes(chain(*row)) for row in rows)
    parts = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(lines)) + chunk(b"IEND", b"")
    return "data:image/png;base64," + base64.b64encode(b"\x89PNG\r\n\x1a\n" + parts).decode()


def _numbers(table: Tensor) -> list[list[float | str]]:
    """Four digits of each; what JSON has no number for, as a word."""
    return [[float(f"{v:.4g}") if math.isfinite(v) else str(v) for v in row] for row in table.tolist()]
