"""The report about all practice, as `report` writes it: its tables, charts and last verdicts."""

from __future__ import annotations

from nicegui import ui

from dojo.practice import database, report
from dojo.verdict.page import html
from dojo.web.follow import PATIENCE, follow, off_loop
from dojo.web.frame import frame, heading, paged, told

SCRIPT = f"(() => {{{html.render('verdict/page/page.js')}}})()"


def add() -> None:
    """Add the page."""

    @ui.page("/report", response_timeout=PATIENCE)
    @told
    async def report_page() -> None:
        parts = await off_loop(_parts)
        paged()
        with frame("Report", "/report"):
            heading("Report")
            shown = ui.html(parts, sanitize=False).classes("paged")

            async def show() -> None:
                shown.set_content(await off_loop(_parts))
                ui.run_javascript(SCRIPT)

            follow(show)
        await ui.context.client.connected()
        ui.run_javascript(SCRIPT)


def _parts() -> str:
    return report.parts_of_history(database.recall_all())
