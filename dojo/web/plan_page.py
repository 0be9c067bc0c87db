"""The plan until the interview: made here, shown by days with what is done, spread anew, cleared."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta

from nicegui import ui
from nicegui.elements.mixins.text_element import TextElement

from dojo.content.arguments import day_ahead, number_of
from dojo.content.catalog import Trouble, typed
from dojo.practice import outline
from dojo.practice.outline import Outline
from dojo.practice.overview import Practice
from dojo.practice.schedule import plans
from dojo.practice.schedule.asked import TARGETS
from dojo.practice.schedule.plans import Task
from dojo.web.controls import Choice, Field, Question, begun, text
from dojo.web.follow import PATIENCE, follow, off_loop
from dojo.web.frame import fold, frame, heading, told
from dojo.web.home_page import NEXT, card, place_of

HOURS = number_of("hours", 2000)
FIRST = 14  # days until the interview that the form begins with


def add() -> None:
    """Add the page."""

    @ui.page("/plan", response_timeout=PATIENCE)
    @told
    async def plan_page() -> None:
        read = await off_loop(_read)
        with frame("Plan", "/plan"):
            PlanPage(*read)


def _read() -> tuple[Practice, Outline | None]:
    practice = Practice.as_far_as_readable()
    return practice, Outline.of(practice.plan, date.today()) if practice.plan else None


class PlanPage:
    """The plan, in one tab."""

    def __init__(self, practice: Practice, plan: Outline | None) -> None:
        self.practice, self.plan = practice, plan
        heading("Plan")
        self.done = text("p", "", "done").props("role=status")
        self._question = Question()
        self.body = ui.element("div")
        with fold("Make a new plan" if plan else "Make a plan", opened=plan is None):
            self._form()
        self._show()
        self._look = follow(self._follow)

    async def _follow(self) -> None:
        before = (self.practice.troubles, self.practice.proposed, self.plan)
        self.practice, self.plan = await off_loop(_read)
        if before != (self.practice.troubles, self.practice.proposed, self.plan):
            self._show()

    def _show(self) -> None:
        """Show the plan, or that there is none, and what is proposed now."""
        self.body.clear()
        with self.body:
            for trouble in self.practice.troubles:
                text("p", trouble, "trouble").props("role=alert")
            if self.plan:
                self._days(self.plan)
            elif not self.practice.troubles:
                text("p", "There is no plan yet. A plan spreads what is asked most over the days that you have.")
            if self.plan or plans.plan_file().exists():
                with ui.element("div").classes("row"):
                    if self.plan and self.plan.late:
                        spread = "Spread what is late over the days that are left"
                        ui.button(spread, on_click=lambda: self._do(self._spread))
                    ui.button("Clear the plan …", on_click=self._ask_clear).props("outline")
            if not self.plan:
                with ui.element("section").classes("next").props('aria-label="Next"'):
                    heading("Proposed now", 2)
                    with ui.element("ol").props('role="list"'):
                        for due in self.practice.proposed[:NEXT]:
                            card(due)

    def _days(self, plan: Outline) -> None:
        text("p", plan.head)
        with ui.element("p").classes("track whole"):
            text("span", plan.tally, "count")
            with ui.element("span").classes("meter").props("aria-hidden=true"):
                ui.element("span").style(f"width: {plan.done / max(1, plan.count):.0%}")
        with ui.element("ol").classes("days").props('role="list"'):
            for day, tasks in plan.days.items():
                with ui.element("li").classes("today" if day == plan.today else ""):
                    with ui.element("div"):
                        heading(begun(plans.day_of(day, plan.today)), 2)
                        text("span", outline.time_of([task for task, _ in tasks]), "soft")
                    with ui.element("ul").props('role="list"'):
                        for task, ready in tasks:
                            self._task(task, ready, late=day < plan.today)
        for note in plan.notes:
            text("p", note, "soft")

    def _task(self, task: Task, ready: bool, late: bool) -> None:
        with ui.element("li").classes("ready" if ready else "late" if late else "open"):
            ui.link(task.title, place_of(task.how, task.kata))
            text("span", f"{task.minutes} min", "soft")
            text("span", "done" if ready else "late" if late else "", "word")

    def _form(self) -> None:
        today = date.today()
        first, last = today.isoformat(), (today + timedelta(366)).isoformat()
        with ui.element("form").classes("plan").on("submit.prevent", self._make, []):
            day = (today + timedelta(FIRST)).isoformat()
            self.day = Field("Day of the interview", day, kind="date", min=first, max=last)
            said = "Hours until then, all days together"
            self.hours = Field(said, "6", kind="number", min="0.1", max="2000", step="any")
            self.target = Choice("What the position is about", {name: name for name in TARGETS}, "all")
            hint = "katas or tracks, as in: rope, gqa"
            self.known = Field("What you know already", "", placeholder=hint)
            ui.button("Make the plan").props("type=submit")
            self.refused = text("p", "", "trouble").props("role=alert")
        text("p", f"`{typed('plan --place')}` in a terminal finds out what you know, by ten minutes of drills.", "soft")

    async def _make(self) -> None:
        """Make the plan of the form; one that is kept already is replaced, and a copy of it stays."""
        self.refused.set_text("")
        try:
            day, hours = day_ahead(self.day.value), HOURS(self.hours.value)
        except argparse.ArgumentTypeError as refused:
            self.refused.set_text(str(refused))
            return
        known, target = self.known.value, self.target.value
        await self._do(lambda: _made(day, hours, target, known), self.refused)

    def _spread(self) -> str:
        assert self.plan  # the button is shown with one alone
        kept = self.plan.kept
        return _made(kept.date, self.plan.hours_left, kept.target, ",".join(kept.known))

    def _ask_clear(self) -> None:
        self._question.ask("Forget the plan? A copy of it is kept.", "Forget it", lambda: self._do(_forget))

    async def _do(self, deed: Callable[[], str], refused: TextElement | None = None) -> None:
        """Do something to the plan, and say what came of it, or where the form has a place for it why not."""
        self.done.set_text("Working …")
        try:
            said = await off_loop(deed)
        except (Trouble, OSError) as trouble:
            self.done.set_text("")
            (refused or self.done).set_text(str(trouble))
            return
        self.done.set_text(said)
        await self._look()


def _made(day: date, hours: float, target: str, known: str) -> str:
    before = plans.plan_file().exists()
    outline.make(day, hours, target, known, datetime.now(UTC))
    return f"The plan is made{'; a copy of the one before is kept' * before}."


def _forget() -> str:
    copy = plans.forget_plan()
    return f"The plan is forgotten; a copy is {copy}" if copy else "There is no plan to forget."
