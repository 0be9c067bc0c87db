"""An editor for a file of the user's: it follows the file, keeps what is typed, and shows both where both changed."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from nicegui import ui

from dojo.content.cells import split
from dojo.web.drafts import Draft
from dojo.web.frame import say

if TYPE_CHECKING:
    from nicegui.elements.codemirror.constants import SUPPORTED_THEMES

LOOK = 0.5  # seconds between two looks at the file
THEMES: dict[bool, SUPPORTED_THEMES] = {False: "vscodeLight", True: "vscodeDark"}


@cache
def draft_of(path: Path, home: Path) -> Draft:
    """The draft of a file, the same for every editor that shows it."""
    return Draft(path, home)


class Editor:
    """The editor with what is said above it; `save` writes the file."""

    def __init__(
        self, path: Path, home: Path, label: str, said: str, grade: Callable[[], object], everywhere: bool = True
    ) -> None:
        """`said` is the file as the user would type it.

        `grade` is called for Ctrl+Enter and Ctrl+S, `everywhere` or in this editor alone, beside others on its page.
        """
        self.draft, self.said, self._shown = draft_of(path, home), said, ""
        with suppress(OSError, UnicodeDecodeError):  # which the first `look` tells
            self.draft.look()  # while no page showed the file it may have been written
        with ui.element("div").classes("file"):
            ui.label(said).classes("mono")
            self.state = ui.label().classes("soft").props("role=status")
        self.conflict = ui.element("div").classes("conflict")
        self.area = ui.codemirror(
            self.draft.text,
            language="Python",
            theme=THEMES[False],
            on_change=lambda event: self._typed(event.value),
            keymap=dict.fromkeys(("Mod-Enter", "Mod-s"), lambda _: grade()),
        ).props(f'data-label="{label}"')
        self.draft.listeners[self] = self._take
        ui.context.client.on_delete(lambda: self.draft.listeners.pop(self, None))
        ui.timer(LOOK, self.look)
        ui.timer(0.2, self._open_at_code, once=True)
        if everywhere:
            ui.on("grade", lambda: self.area.is_deleted or grade())
        ui.on("scheme", lambda event: self.area.is_deleted or self.area.set_theme(THEMES[bool(event.args)]))
        self._tell()

    def mark(self, lines: dict[int, str]) -> None:
        """Mark lines where something failed, each with what."""
        self.area.decorations = [{"kind": "line", "line": line, "class": "failing"} for line in lines]
        self.area.line_tooltips = lines

    def _open_at_code(self) -> None:
        """Show the code: the prose that a stub begins with stands beside the editor already."""
        cells = split(self.draft.text)[1]
        first = next((cell for cell in cells if not cell.markdown), None)
        if first and any(cell.markdown for cell in cells):
            # lines beyond what is seen are only guessed at, so that the last ones are asked for first
            self.area.reveal_line(self.draft.text.count("\n") + 1)
            self.area.reveal_line(first.start + 1)

    def _typed(self, text: str) -> None:
        try:
            self.draft.edit(text, by=self)
        except OSError as trouble:
            say(f"What you typed cannot be kept: {trouble}. Copy it elsewhere, then mend that.", "bad")
        self._tell()

    def _take(self, text: str) -> None:
        """Show a text that came from the file, or from another page."""
        if self.area.is_deleted:  # its page shows something else by now
            self.draft.listeners.pop(self, None)
            return
        if self.area.value != text:
            self.area.set_value(text)
        self._tell()

    def look(self) -> None:
        """Follow the file."""
        try:
            self.draft.look()
        except (OSError, UnicodeDecodeError) as trouble:
            say(f"{self.said} cannot be read: {trouble}", "bad")
        self._tell()

    def save(self) -> bool:
        """Write the file; whether that could be done."""
        try:
            done = self.draft.save()
        except (OSError, UnicodeDecodeError) as trouble:
            say(f"{self.said} cannot be saved: {trouble}. What you typed is kept in .dojo/drafts.", "bad")
            return False
        self._tell()
        return done

    def _tell(self) -> None:
        """Say how the editor stands to the file; of two versions that differ, show both."""
        word = "both changed" if self.draft.conflict else "not saved" if self.draft.unsaved else "saved"
        self.state.set_text(word)
        seen = f"{word}{self.draft.disk if self.draft.conflict else ''}"
        if seen != self._shown:
            self._shown = seen
            self.conflict.clear()
            if self.draft.conflict:
                with self.conflict:
                    self._choice()

    def _choice(self) -> None:
        """What stands in the file now, and the two ways on."""
        ui.label(f"{self.said} was changed elsewhere while you edited it here. Below is the file, then your edit.")
        theme: SUPPORTED_THEMES = self.area.theme  # type: ignore[assignment]  # nicegui's getter says str
        shown = ui.codemirror(self.draft.disk, language="Python", theme=theme)
        shown.props(f'data-label="{self.said} as it is now"').disable()
        with ui.element("div").classes("row"):
            ui.button("Keep my edit", on_click=lambda: self._settle(self.draft.keep_mine))
            ui.button("Take the file", on_click=lambda: self._settle(self.draft.take_file))

    def _settle(self, choice: Callable[[], Path]) -> None:
        try:
            copy = choice()
        except OSError as trouble:
            say(f"That could not be done: {trouble}", "bad")
            return
        self._take(self.draft.text)
        say(f"The other version is kept in {copy}")
