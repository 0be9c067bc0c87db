"""The lesson before a kata: its idea with the figure, and steps to write and check one by one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from nicegui import ui

from dojo.content import files, lessons
from dojo.content.catalog import Kata
from dojo.grading import steps
from dojo.grading.options import Entry
from dojo.web import prose
from dojo.web.editor import Editor
from dojo.web.frame import fold, heading
from dojo.web.verdict_view import VerdictView

Grade = Callable[[Entry, VerdictView, str], Awaitable[object]]


def show(kata: Kata, grade: Grade) -> None:
    """A fold with the lesson, if the kata has one; `grade` shows the verdict on a step, which no history keeps."""
    lesson = lessons.of(kata)
    if lesson is None:
        return
    with fold(f"A lesson first: the idea, then {len(lesson.steps)} small steps") as made:
        place = ui.element("div").classes("lesson")

    def fill() -> None:
        if place.default_slot.children:
            return
        with place:
            heading("The idea", 2)
            ui.html(prose.of(lesson.idea))
            if drawn := lessons.figure(kata):
                ui.html(drawn["text/html"], sanitize=False)
            for step in lesson.steps:
                heading(f"Step {step.number} of {len(lesson.steps)}", 2)
                ui.html(prose.of(step.ask))
                _StepView(kata, step, grade)

    made.on("toggle", fill, [])  # editors are made when they are wanted


def after(kata: Kata) -> None:
    """The experiment for after a pass, if the kata has a lesson."""
    if lesson := lessons.of(kata):
        look, code = lesson.experiment
        with fold("Look at it: an experiment to run and to change, in the notebook"):
            ui.html(prose.of(f"{look}\n\n```python\n{code}\n```"))


class _StepView:
    """One step: a small file of its own, and its check."""

    def __init__(self, kata: Kata, step: lessons.Step, grade: Grade) -> None:
        self.kata, self.step, self._grade, self._busy = kata, step, grade, False
        path = kata.home / "steps" / f"{kata.name}-{step.number}.py"
        if not path.exists():
            files.write_atomic(path, step.begun)
        with ui.element("div").classes("step"):
            said = f"step {step.number} of {kata.name}"
            self.editor = Editor(path, kata.home, f"your {said}", said, self.check, everywhere=False)
            with ui.element("div").classes("row"):
                ui.button("Check the step", on_click=self.check).props("outline")
            self.view = VerdictView(lambda number: self.check(), self.editor, f" on step {step.number}")

    async def check(self) -> None:
        """Save and grade the step."""
        if self._busy or not self.editor.save():
            return
        self._busy = True
        self.view.begin(f"step {self.step.number}")
        try:
            entry = steps.entry(self.kata, self.step.number, self.editor.draft.text)
            await self._grade(entry, self.view, "")
        finally:
            self._busy = False
