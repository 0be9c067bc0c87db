"""The progress bar shown while katas are graded. Rich is imported only where it will be used."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress as Bar


class Progress:
    """A bar while katas are graded, gone afterwards.

    `names` are the katas in the order in which they are begun, `at_once` is how many are graded at a time.
    """

    def __init__(self, names: Sequence[str], console: Callable[[], Console] | None, at_once: int = 1) -> None:
        self._total, self._console = len(names), console
        self._waiting, self._at_once = list(names), at_once
        self._bar: Bar | None = None

    def __enter__(self) -> Progress:
        if self._console:
            import rich.progress as rich

            count = (rich.BarColumn(20), rich.MofNCompleteColumn()) if self._total > 1 else ()
            named = rich.TextColumn("{task.description}", markup=False)
            self._bar = rich.Progress(
                rich.SpinnerColumn(), *count, rich.TimeElapsedColumn(), named, console=self._console(), transient=True,
                redirect_stdout=False, redirect_stderr=False,
            )  # fmt: skip
            self._bar.add_task(**self._now(), total=self._total)
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar:
            self._bar.stop()

    def begin(self, names: Sequence[str], at_once: int) -> None:
        """Say in which order they are graded after all, and how many at a time."""
        self._waiting, self._at_once = list(names), at_once
        self._update()

    def done(self, name: str) -> None:
        """Say that one is done; of a single one, whose checks several judges share, a part of it."""
        if name in self._waiting and self._total > 1:
            self._waiting.remove(name)
        self._update()

    def _update(self) -> None:
        if self._bar:
            self._bar.update(self._bar.task_ids[0], **self._now())

    def _now(self) -> dict[str, Any]:
        """What is graded now, and how many are done."""
        return {
            "description": ", ".join(self._waiting[: self._at_once]),
            "completed": self._total - len(self._waiting),
        }
