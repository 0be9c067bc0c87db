"""A page that follows the records: what a terminal or another page writes down shows without a reload."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import ParamSpec, TypeVar

from nicegui import run, ui

from dojo.practice import overview

P = ParamSpec("P")
R = TypeVar("R")
LOOK = 1.0  # seconds between two looks at the records' stamp
PATIENCE = 60.0  # seconds that a page may take to be made, on a busy machine


def follow(show: Callable[[], Awaitable[None]]) -> Callable[[], Awaitable[None]]:
    """Call `show` on this page whenever something has been recorded; returns what does so at once, after own deeds."""
    seen, client = overview.stamp(), ui.context.client

    async def look() -> None:
        nonlocal seen
        # who is away, in a laptop that sleeps, sees it when back
        if client.has_socket_connection and seen != (now := overview.stamp()):
            seen = now
            await show()

    ui.timer(LOOK, look)
    return look


async def off_loop(read: Callable[P, R], *args: P.args, **how: P.kwargs) -> R:
    """What `read` returns, which other pages do not wait for; as the server ends it is canceled."""
    found = await run.io_bound(read, *args, **how)
    if found is None:
        raise asyncio.CancelledError
    return found
