"""A page that follows the records: what a terminal or another page writes down shows without a reload."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from nicegui import ui

from dojo.practice import overview

LOOK = 1.0  # seconds between two looks at the records' stamp


def follow(show: Callable[[], Awaitable[None]]) -> None:
    """Call `show` on this page whenever something has been recorded since it was made."""
    seen = overview.stamp()

    async def look() -> None:
        nonlocal seen
        if seen != (now := overview.stamp()):
            seen = now
            await show()

    ui.timer(LOOK, look)
