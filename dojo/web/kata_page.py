"""A kata: what is asked on the left, the user's file on the right, the verdict below it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from nicegui import run, ui

from dojo.content import catalog, master, sync
from dojo.content.catalog import Kata, Trouble
from dojo.grading.options import Entry, Options, fresh_seed
from dojo.grading.resident_process import Canceled, ResidentProcess
from dojo.practice import history, progress
from dojo.web import prose
from dojo.web.editor import Editor
from dojo.web.frame import frame, say, told
from dojo.web.verdict_view import VerdictView

if TYPE_CHECKING:
    from dojo.verdict.types import Check, Verdict


def add(judge: ResidentProcess) -> None:
    """Add the page of each kata."""

    @ui.page("/kata/{name}")
    @told
    def kata_page(name: str) -> None:
        kata = catalog.one(name)
        with frame(kata.title):
            KataPage(kata, judge)


class KataPage:
    """The page of one kata, in one tab."""

    def __init__(self, kata: Kata, judge: ResidentProcess) -> None:
        self.kata, self.judge, self.seed = kata, judge, 0
        self.busy = False
        with ui.element("div").classes("panes"):
            with ui.element("section").classes("ask").props(f'aria-label="What {kata.name} asks for"'):
                self._statement()
            with ui.element("section").classes("work").props('aria-label="Your file"'):
                if not kata.stub.exists():
                    sync.sync(kata)
                self.editor = Editor(kata.stub, kata.home, f"your {kata.name}", kata.say(kata.stub), self.grade)
                with ui.element("div").classes("row"):
                    ui.button("Save and grade", on_click=self.grade)
                    ui.label("Ctrl+Enter grades, Ctrl+S too. Esc, then Tab leaves the editor.").classes("soft")
                self.view = VerdictView(judge.cancel, lambda number: self.grade(number))
        ui.timer(0.1, lambda: run.io_bound(judge.prepare, kata), once=True)

    def _statement(self) -> None:
        kata = self.kata
        ui.html(prose.of(master.ask(kata)))
        about = f"level {kata.level} · {kata.minutes} min · {kata.track}"
        ui.label(about).classes("soft")
        if topics := master.contract(kata):
            with ui.element("details").classes("contract"):
                with ui.element("summary"):
                    ui.label(f"Contract: {', '.join(topics)}").classes("plain")
                for bullet in topics.values():
                    ui.html(prose.of(bullet))
        self.helps = ui.element("div")
        with ui.element("div").classes("row"):
            ui.button("Hint", on_click=self._hint).props("flat")
        with ui.element("ul").classes("sources"):
            for source in kata.sources:
                with ui.element("li"):
                    ui.html(prose.inline(master.ARXIV.sub(r"[arXiv:\1](https://arxiv.org/abs/\1)", source)))
        self.after = ui.element("div")
        self._explained()

    def _hint(self) -> None:
        text = progress.next_hint(self.kata)
        with self.helps, ui.element("div").classes("hint"):
            ui.html(prose.of(text))

    def _explained(self) -> None:
        """The explanation, once the kata has passed."""
        self.after.clear()
        if not progress.stays_hidden(self.kata, spoil=False):
            with self.after, ui.element("details"):
                with ui.element("summary"):
                    ui.label("The solution, explained").classes("plain")
                ui.html(prose.of(progress.revealed(self.kata)))

    async def grade(self, only: str = "") -> None:
        """Save and grade; `only` one check, by its number, with the inputs of the verdict that is shown."""
        if self.busy:
            return
        if not self.editor.save():
            say("The file has changed elsewhere: choose above which version to keep, then grade.", "bad")
            return
        self.busy = True
        self.view.begin(self.kata.name)
        try:
            await self._graded(only)
        finally:
            self.busy = False

    async def _graded(self, only: str) -> None:
        loop = asyncio.get_running_loop()

        def heard(check: Check) -> None:
            loop.call_soon_threadsafe(self.view.heard, check)

        try:
            entry = await run.io_bound(self._entry)
            self.seed = self.seed if only else fresh_seed()
            options = Options(self.seed, keyword=only, scripts=True)
            verdict = await run.io_bound(self.judge.grade, entry, options, heard)
        except Canceled:
            self.view.tell("canceled, and not judged")
            return
        except (Trouble, RuntimeError) as trouble:
            self.view.tell(f"dojo: {trouble}")
            return
        if not only:
            await run.io_bound(self._record, entry, verdict)
        self.view.end(verdict)
        if verdict.verdict == "passed":
            self._explained()

    def _entry(self) -> Entry:
        """The user's file, after a notebook that was saved since has been taken over. Raises Trouble."""
        if "notebook" in sync.pending(self.kata):
            sync.sync(self.kata, opened=True)
        return Entry.of_stub(self.kata)

    def _record(self, entry: Entry, verdict: Verdict) -> None:
        verdict.help = progress.aid(self.kata, entry.source).words
        if verdict.verdict != "empty" and (trouble := history.keep([(self.kata, entry.source, verdict)])):
            verdict.remarks.append(trouble)
