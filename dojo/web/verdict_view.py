"""A verdict on the page: check by check while it comes, then as the terminal tells it, each cause in a fold."""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Event
from typing import TYPE_CHECKING

from nicegui import ui

from dojo.verdict.failures import happened
from dojo.verdict.page import html
from dojo.verdict.screen.terminal import closing
from dojo.verdict.screen.text import readable
from dojo.verdict.types import Label, Outcome
from dojo.web.frame import fold

if TYPE_CHECKING:
    from dojo.verdict.types import Check, Verdict
    from dojo.web.editor import Editor

TICK = 0.25  # seconds between two showings of how long it has taken


class VerdictView:
    """The place below an editor where the verdict stands."""

    def __init__(
        self, again: Callable[[str], object] | None = None, editor: Editor | None = None, of: str = ""
    ) -> None:
        """`again` grades one check alone, by its number, with the verdict's seed; lines are marked in the editor.

        Without it nothing is graded from here, and nothing can be canceled.
        """
        self._again, self._editor, self._begun = again, editor, 0.0
        self.given_up = Event()  # what is being graded
        with ui.element("section").classes("verdict").props(f'aria-label="Verdict{of}"'):
            with ui.element("div").classes("row"):
                self.line = ui.label("Not graded yet.").classes("line").props("role=status aria-live=polite")
                self.stop = ui.button("Cancel", on_click=lambda: self.given_up.set()).props("flat dense")
                self.stop.set_visibility(again is not None)
            self.body = ui.element("div").classes("body")
        self._show_stop(False)
        self.timer = ui.timer(TICK, self._tick, active=False)

    def begin(self, what: str) -> None:
        """Say that something is being graded."""
        self.line.set_text(f"grading {what} …")
        self._begun, self._passed, self._failed = time.monotonic(), 0, 0
        self.given_up = Event()
        self.line.classes(replace="line")
        self._show_stop(True)
        self.timer.activate()
        self._mark({})
        self.body.clear()
        with self.body:
            self.clock = ui.label().classes("soft").props("aria-hidden=true")
            self._coming = ui.element("ul").classes("coming")
        self._tick()

    def heard(self, check: Check) -> None:
        """Take in a check that has ended."""
        if check.outcome.harmless:
            self._passed += 1
        else:
            self._failed += 1
            with self._coming, ui.element("li"):
                ui.label(f"✗ {check.tier} · {readable(check.name, check.outcome is Outcome.WRONG)}")

    def end(self, verdict: Verdict) -> None:
        """Show the verdict."""
        self._rest()
        self.line.set_text(f"{verdict.kata}: {verdict.state}{closing(verdict)}")
        self.line.classes(replace=f"line {html.css_class(verdict.state)}")
        self.body.clear()
        with self.body:
            self._whole(verdict)
        failures = [failure for check in verdict.checks if (failure := check.failure)]
        failures += [verdict.failure] if verdict.failure else []
        self._mark({each.line: happened(each) for each in failures if each.line})

    def _mark(self, lines: dict[int, str]) -> None:
        if self._editor:
            self._editor.mark(lines)

    def tell(self, text: str) -> None:
        """Say why there is no verdict."""
        self._rest()
        self.line.set_text(text)
        self.line.classes(replace="line")
        self.body.clear()

    def _rest(self) -> None:
        self.timer.deactivate()
        self._show_stop(False)

    def _show_stop(self, shown: bool) -> None:
        self.stop.style(f"visibility: {'visible' if shown else 'hidden'}")  # its place stays, and nothing moves

    def _tick(self) -> None:
        counted = f"{self._passed} passed" + (f", {self._failed} failed" if self._failed else "")
        self.clock.set_text(f"{counted} · {time.monotonic() - self._begun:.1f} s")

    def _whole(self, verdict: Verdict) -> None:
        if verdict.message:
            ui.label(verdict.message).classes("pre")
        for remark in verdict.remarks:
            ui.label(remark)
        checks = {check.name: check for check in verdict.checks}
        failed = [check.to_json(pictures=True) for check in verdict.checks if not check.outcome.harmless]
        for number, (check, shared) in enumerate(html.by_cause(failed)):
            with ui.element("details").props("open" if number == 0 else ""):
                with ui.element("summary"):
                    _rendered("heading", check=check)
                _rendered("cause", check=check, shared=shared)
                with ui.element("div").classes("row"):
                    self._buttons(checks[check["name"]])
        if not verdict.checks:
            return
        with fold(f"all {len(verdict.checks)} checks · torch {verdict.torch} · seed {verdict.seed}"):
            _rendered("checks", checks=verdict.checks)  # one element: fifty would hold the verdict up

    def _buttons(self, check: Check) -> None:
        """What can be done about a failed check."""
        if again := self._again:
            ui.button("just this check", on_click=lambda: again(str(check.place + 1))).props("flat dense")
        if check.script:
            ui.button("copy a repro", on_click=lambda: ui.clipboard.write(check.script)).props("flat dense")
        repeat = next((section.text for section in check.sections if section.label is Label.REPEAT), "")
        if repeat:
            ui.button("copy the command", on_click=lambda: ui.clipboard.write(repeat)).props("flat dense")


def _rendered(part: str, **values: object) -> None:
    """A part of a verdict by the templates that pages, notebooks and reports have in common; all in it is escaped."""
    ui.html(html.render("web/part.html", part=part, **values), sanitize=False)
