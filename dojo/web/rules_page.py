"""The house rules, as the project's docs have them."""

from __future__ import annotations

from nicegui import ui

from dojo.content.catalog import ROOT, Trouble
from dojo.web import prose
from dojo.web.frame import frame, told

PAGE = ROOT / "docs" / "house_rules.md"


def add() -> None:
    """Add the page."""

    @ui.page("/rules")
    @told
    def rules() -> None:
        try:
            markdown = PAGE.read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise Trouble(f"{PAGE} cannot be read: {error}; `git checkout docs` brings it back") from None
        with frame("House rules", "/rules"), ui.element("article").classes("ask"):
            ui.html(prose.of(markdown))
