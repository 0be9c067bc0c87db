"""Watches a file for saves."""

from __future__ import annotations

import time
from pathlib import Path

CALM = 0.02  # seconds that a file must have stayed as it is before it counts as saved
TICK = 0.005


class Saves:
    """Tells when a file has been saved with another content than before."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._stamp: tuple[int, int, int] | None = None
        self._since, self._seen = 0.0, b""

    def new(self) -> bytes | None:
        """The content of the file, if it is another one than last time and has come to rest."""
        try:
            state = self.path.stat()
        except OSError:
            return None  # an editor may be replacing it
        stamp = state.st_mtime_ns, state.st_size, state.st_ino
        now = time.monotonic()
        if stamp != self._stamp:
            self._stamp, self._since = stamp, now
            return None
        if not self._since or now - self._since < CALM:
            return None
        self._since = 0.0
        try:
            content = self.path.read_bytes()
        except OSError:
            return None
        if content == self._seen:
            return None
        self._seen = content
        return content
