"""The progress bar shown while katas are graded. Rich is imported only where it will be used."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress as Bar

PATIENCE = 2.0  # seconds before a single kata shows that something is going on


class Progress:
    """A bar while katas are graded, gone afterwards; at once for several, for one after two seconds, else nothing."""

    def __init__(self, total: int, console: Callable[[], Console] | None) -> None:
        self._total, self._console = total, console
        self._done, self._text, self._over = 0, "", False
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

    def __call__(self, text: str) -> None:
        """Say what is graded now."""
        self._text = text
        self._show()

    def advance(self) -> None:
        """Say that one is done."""
        self._done += 1
        self._show()

    def _start(self) -> None:
        import rich.progress as rich

        with self._lock:
            if self._over or self._console is None:
                return
            columns = (rich.TextColumn("{task.description}", markup=False), rich.BarColumn(), rich.MofNCompleteColumn())
            self._bar = rich.Progress(
                rich.SpinnerColumn(), *columns, rich.TimeElapsedColumn(), console=self._console(), transient=True,
                redirect_stdout=False, redirect_stderr=False,
            )  # fmt: skip
            self._bar.add_task(self._text, total=self._total, completed=self._done)
            self._bar.start()

    def _show(self) -> None:
        if self._bar:
            self._bar.update(self._bar.task_ids[0], description=self._text, completed=self._done)
