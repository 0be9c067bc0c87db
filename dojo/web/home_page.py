"""Home: the katas by track, how they stand, and what is next."""

from __future__ import annotations

from nicegui import ui

from dojo.content import catalog
from dojo.practice import progress
from dojo.web.frame import frame, heading, told


def add() -> None:
    """Add the page."""

    @ui.page("/")
    @told
    def home() -> None:
        katas = catalog.katas()
        standings = progress.standings(katas.values())
        with frame("dojo", "/"):
            heading("Katas")
            ui.label(progress.tally(standings.values()))
            for track in dict.fromkeys(kata.track for kata in katas.values()):
                heading(track, 2)
                with ui.element("ul"):
                    for kata in katas.values():
                        if kata.track == track:
                            with ui.element("li"):
                                ui.link(kata.name, f"/kata/{kata.name}")
                                ui.label(f"{kata.title} · {standings[kata.name].label}")
