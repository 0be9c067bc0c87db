"""Three orders through the katas, with how far the user is on each."""

from __future__ import annotations

from nicegui import ui

from dojo.practice.overview import Practice
from dojo.practice.schedule.paths import ROUTES, Route
from dojo.web.controls import text
from dojo.web.follow import PATIENCE, off_loop
from dojo.web.frame import frame, heading, told


def add() -> None:
    """Add the page."""

    @ui.page("/paths", response_timeout=PATIENCE)
    @told
    async def paths() -> None:
        practice = await off_loop(Practice.as_far_as_readable)
        with frame("Orders", "/paths"):
            heading("Three orders through the katas")
            for route in ROUTES:
                _show(route, practice)


def _show(route: Route, practice: Practice) -> None:
    katas, standings = {kata.name: kata for kata in practice.katas}, practice.standings
    heading(route.title, 2)
    text("p", f"{route.about} {route.hours(katas)} hours at par; {route.tally(standings)}.")
    with ui.element("ol").classes("route"):
        for sitting in route.sittings:
            with ui.element("li"):
                for name in sitting:
                    ui.link(name, f"/kata/{name}").tooltip(katas[name].title)
                    text("span", f"{standings[name].label} " if standings[name].solved else "", "ok word")
                text("span", f"{sum(katas[name].minutes for name in sitting)} min", "soft")
