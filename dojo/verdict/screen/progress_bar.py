"""The progress bar shown while katas are graded. Rich is imported only where it will be used."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress as Bar

PATIENCE = 2.0  # seconds before a single kata shows that something is going on


class Progress:
    """A bar while katas are graded, gone afterwards; at once for several, for one after two seconds, else nothing.

    `names` are the katas in the order in which they are begun, `at_once` is how many are graded at a time.
    """

    def __init__(self, names: Sequence[str], console: Callable[[], Console] | None, at_once: int = 1) -> None:
        self._waiting, self._total, self._console, self._at_once = list(names), len(names), console, at_once
        self._over = False
        self._bar: Bar | None = None
        self._lock = threading.Lock()
        self._timer = threading.Timer(PATIENCE, self._start)
        self._timer.daemon = True

    def __enter__(self) -> Progress:
        if self._console and self._total > 1:
            self._start()
        elif self._console:
            self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()
        with self._lock:  # the timer may be starting the bar just now
            self._over = True
            if self._bar:
                self._bar.stop()

    def done(self, name: str) -> None:
        """Say that one is done; of a single one, whose checks several judges share, a part of it."""
        if name in self._waiting and self._total > 1:
            self._waiting.remove(name)
        if self._bar:
            self._bar.update(self._bar.task_ids[0], **self._now())

    def _now(self) -> dict[str, Any]:
        """What is graded now, and how many are done."""
        return {
            "description": ", ".join(self._waiting[: self._at_once]),
            "completed": self._total - len(self._waiting),
        }

    def _start(self) -> None:
        import rich.progress as rich

        with self._lock:
            if self._over or self._console is None:
                return
            count = (rich.BarColumn(20), rich.MofNCompleteColumn()) if self._total > 1 else ()
            named = rich.TextColumn("{task.description}", markup=False)
            self._bar = rich.Progress(
                rich.SpinnerColumn(), *count, rich.TimeElapsedColumn(), named, console=self._console(), transient=True,
                redirect_stdout=False, redirect_stderr=False,
            )  # fmt: skip
            self._bar.add_task(**self._now(), total=self._total)
            self._bar.start()
