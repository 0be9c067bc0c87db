"""A kata: what is asked on the left, the user's file on the right, the verdict below it."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from nicegui import run, ui

from dojo.content import catalog, lessons, master, stages, sync
from dojo.content.catalog import Kata, Trouble
from dojo.grading.options import Entry, Options, fresh_seed
from dojo.grading.resident_process import Canceled, ResidentProcess
from dojo.practice import history, progress
from dojo.practice.database import Unreadable
from dojo.verdict.types import Check, Verdict
from dojo.web import lesson_view, prose
from dojo.web.editor import Editor
from dojo.web.follow import off_loop
from dojo.web.frame import fold, frame, heading, say, told
from dojo.web.verdict_view import VerdictView


def add(judge: ResidentProcess) -> None:
    """Add the page of each kata."""

    @ui.page("/kata/{name}")
    @told
    def kata_page(name: str) -> None:
        kata = catalog.one(name)
        if not kata.stub.exists():
            sync.sync(kata)
        with frame(kata.title):
            KataPage(kata, judge)


class KataPage:
    """The page of one kata, in one tab."""

    def __init__(self, kata: Kata, judge: ResidentProcess) -> None:
        self.kata, self.judge, self.busy = kata, judge, False
        self.seed = judge.seed  # the inputs stay the same until a pass, so that the oracles are known
        with ui.element("div").classes("panes"):
            with ui.element("section").classes("ask").props(f'aria-label="What {kata.name} asks for"'):
                self._asked = ui.element("div")
                lesson_view.show(kata, self._check_step)
                self._hints = ui.element("div").props("aria-live=polite")
                with ui.element("div").classes("row"):
                    ui.button("Hint", on_click=self._hint).props("outline")
                    ui.link("History", f"/history/{kata.name}")
                    kind = "ladder" if stages.of(kata) else "mock"
                    ui.link("Interview", f"/interviews?kind={kind}&kata={kata.name}")
                self._after = ui.element("div")
            with ui.element("section").classes("work").props('aria-label="Your file"'):
                self.editor = Editor(kata.stub, kata.home, f"your {kata.name}", kata.say(kata.stub), self.grade)
                with ui.element("div").classes("row"):
                    ui.button("Save and grade", on_click=self.grade)
                    ui.label("Ctrl+Enter or Ctrl+S grades. Esc, then Tab leaves the editor.").classes("soft")
                self.view = VerdictView(self.grade, self.editor)
        self._show_asked()
        self._show_explained()
        ui.timer(0.1, lambda: run.io_bound(judge.prepare, kata), once=True)

    def _show_asked(self) -> None:
        """The ask; of a kata with stages what every stage that is open in the file asks."""
        kata, several = self.kata, stages.of(self.kata)
        self._asked.clear()
        with self._asked:
            first = master.scenario(kata) if several else master.ask(kata)
            ui.html(prose.of(first.replace("docs/house_rules.md", "[docs/house_rules.md](/rules)")))
            ui.label(f"Level {kata.level} · {kata.minutes} min · {kata.track}").classes("soft")
            if not several:
                self._contract(master.contract(kata), "Contract")
                return
            opened = stages.open_in(kata, self.editor.draft.text)
            for stage in several[:opened]:
                heading(f"Stage {stage.number}", 2)
                ui.html(prose.of(stage.prompt))
                self._contract(master.topics_of(stage.contract), f"Contract of stage {stage.number}")
            if opened < len(several):
                button = f"Open stage {opened + 1} of {len(several)} in my file"
                ui.button(button, on_click=self._open_stage).props("outline")

    def _contract(self, topics: dict[str, str], title: str) -> None:
        if topics:
            with fold(f"{title}: {', '.join(topics)}"):
                ui.html(prose.of("\n".join(f"- {bullet}" for bullet in topics.values())))

    def _open_stage(self) -> None:
        try:
            if self.editor.save():
                progress.open_stage(self.kata)
        except Trouble as trouble:
            say(str(trouble), "bad")
        self.editor.look()
        self._show_asked()

    def _hint(self) -> None:
        with self._hints, ui.element("div").classes("hint"):
            ui.html(prose.of(progress.next_hint(self.kata)))

    def _show_explained(self, passed: tuple[str, Kata | None] | None = None) -> None:
        """The explanation, once the kata has passed, and after a pass what comes next."""
        self._after.clear()
        if progress.stays_hidden(self.kata, spoil=False):
            return
        with self._after:
            if passed:
                summary, upcoming = passed
                ui.label(summary)
                if upcoming:
                    ui.link(f"Next: {upcoming.title}", f"/kata/{upcoming.name}")
            with fold("The solution, explained") as shown:
                place = ui.element("div")
            # to be looked at counts as help with what is written afterwards, so it is not sent before
            shown.on("toggle", lambda: self._explain(place), [])
            lesson_view.after(self.kata)

    def _pass(self) -> tuple[str, Kata | None] | None:
        """What a pass comes to, and the kata that comes next."""
        with suppress(Unreadable):  # who records the verdict says why
            return progress.pass_of(self.kata, catalog.katas())
        return None

    def _explain(self, place: ui.element) -> None:
        if not place.default_slot.children:
            with place:
                ui.html(prose.of(progress.revealed(self.kata)))
                if drawn := lessons.figure_of_explanation(self.kata):
                    ui.html(drawn.html, sanitize=False)

    async def grade(self, only: str = "") -> None:
        """Save and grade; `only` one check, by its number, with the inputs of the verdict that is shown."""
        if self.busy:
            return
        if not self.editor.save():
            if self.editor.draft.conflict:
                say("The file has changed elsewhere: choose above which version to keep, then grade.", "bad")
            return
        self.busy = True
        self.view.begin(self.kata.name)
        try:
            passed = await self._graded(only)
        finally:
            self.busy = False
        if passed:
            self.seed = fresh_seed()
            self._show_explained(await run.io_bound(self._pass))  # meanwhile the verdict is sent

    async def _graded(self, only: str) -> bool:
        """Grade, record and show; whether all of it passed."""
        try:
            entry = await off_loop(self._entry)
        except Trouble as trouble:
            self.view.tell(f"dojo: {trouble}")
            return False
        verdict = await self._judged(entry, self.view, only)
        if verdict is None:
            return False
        if not only:
            await run.io_bound(self._record, entry, verdict)
        self.view.end(verdict)
        return verdict.verdict == "passed" and not only

    async def _judged(self, entry: Entry, view: VerdictView, only: str) -> Verdict | None:
        """The verdict, which the view then waits for; None where there is none, and the view has said why."""
        loop = asyncio.get_running_loop()

        def heard(news: object) -> None:
            if isinstance(news, Check):
                loop.call_soon_threadsafe(view.heard, news)

        options = Options(self.seed, keyword=only, scripts=True)
        try:
            return await run.io_bound(self.judge.grade, entry, options, heard, given_up=view.given_up)
        except Canceled:
            view.tell(f"{self.kata.name}: canceled, and not judged")
        except (Trouble, RuntimeError) as trouble:
            view.tell(f"dojo: {trouble}")
        return None

    async def _check_step(self, entry: Entry, view: VerdictView, only: str) -> None:
        if verdict := await self._judged(entry, view, only):
            view.end(verdict)

    def _entry(self) -> Entry:
        """The user's file, after a notebook that was saved since has been taken over. Raises Trouble."""
        if "notebook" in sync.pending(self.kata):
            sync.sync(self.kata, opened=True)
        return Entry.of_stub(self.kata)

    def _record(self, entry: Entry, verdict: Verdict) -> None:
        verdict.help = progress.aid(self.kata, entry.source).words
        verdict.remarks += progress.regressions(self.kata, verdict)
        if verdict.verdict != "empty" and (trouble := history.keep([(self.kata, entry.source, verdict)])):
            verdict.remarks.append(trouble)
