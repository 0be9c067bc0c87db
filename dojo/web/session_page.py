"""A session that is held: what is asked, the files, what the interviewer says, the questions, the scorecard."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from nicegui import app, ui

from dojo.content import catalog, master, stages
from dojo.content.catalog import Kata, typed
from dojo.grading.resident_process import ResidentProcess
from dojo.practice.database import RATINGS
from dojo.practice.hunt import reading
from dojo.practice.hunt.reading import ACCEPT, DONE, REJECT, Remark
from dojo.practice.interview import ladder
from dojo.practice.interview.runner import SHOWN, SILENT
from dojo.practice.interview.status_line import clock, spoken
from dojo.verdict.screen.text import clean, last_of
from dojo.web import live, prose
from dojo.web.diff_view import diff
from dojo.web.editor import Editor
from dojo.web.frame import fold, frame, heading, say, told
from dojo.web.interviews_page import title
from dojo.web.live import Live, Phase
from dojo.web.session_card import card
from dojo.web.verdict_view import VerdictView

if TYPE_CHECKING:
    from pathlib import Path

    from dojo.practice.interview.questions import Posed
    from dojo.verdict.types import Verdict

TICK = 0.5  # seconds between two showings of the clock
SCHEME = 'emitEvent("scheme", matchMedia("(prefers-color-scheme: dark)").matches)'  # for editors that come later
WORDS = {
    Phase.OPENING: "Getting ready …",
    Phase.LAST: "The last saved files are graded once more, with fresh inputs …",
    Phase.LEFT: "Nobody looked for a while, so the clock stands still. Reload the page to go on.",
}


def add(judge: ResidentProcess) -> None:
    """Add the page of each session."""
    app.on_shutdown(live.close_all)

    @ui.page("/session/{kind}/{name}")
    @told
    def session(kind: str, name: str) -> None:
        held = live.find(judge, kind, name)
        with frame(title(held.rounds)):
            SessionPage(held)


class SessionPage:
    """The page of one session, in one tab."""

    def __init__(self, held: Live) -> None:
        self.live = held
        self._key: tuple[Phase, Path, Posed | None] | None = None
        self._update: Callable[[], None] = lambda: None
        client = ui.context.client
        with ui.element("div").classes("bar"):
            heading(title(held.rounds))
            self._where = ui.label().classes("soft")
            with ui.element("div").classes("clock"):
                self._clock = ui.label().props("role=timer aria-live=off")
                self._hide = ui.button(on_click=self._toggle).props("flat dense")
        self._body = ui.element("div")
        held.listeners[self] = self._show
        client.on_delete(lambda: held.listeners.pop(self, None))
        client.on_connect(lambda: held.attend(client))
        ui.timer(TICK, self._tick)
        self._tick()
        self._show()

    def _toggle(self) -> None:
        self.live.hidden_clock = not self.live.hidden_clock
        self._tick()

    def _tick(self) -> None:
        held, runs = self.live.held, self.live.phase in (Phase.CODE, Phase.READING)
        left = f"{clock(held.left)} left"
        self._clock.set_text("" if self.live.hidden_clock else left if runs else f"{left}, the clock stands still")
        self._clock.set_visibility(self.live.phase is not Phase.OVER)
        self._hide.set_visibility(self.live.phase is not Phase.OVER)
        self._hide.set_text("Show the clock" if self.live.hidden_clock else "Hide the clock")
        where = [f"Round {self.live.round} of {len(self.live.rounds)}"] if len(self.live.rounds) > 1 else []
        where += [f"Stage {held.stage} of {held.stages}"] if held.stage else []
        self._where.set_text(" · ".join(where))

    def _show(self) -> None:
        """Show what has changed; another phase has another page."""
        self._tick()
        held = self.live
        key = held.phase, held.held.folder, held.posed if held.phase is Phase.QUESTION else None
        if key != self._key:
            self._key = key
            self._body.clear()
            with self._body:
                self._update = self._made()
        self._update()

    def _made(self) -> Callable[[], None]:
        """Make what the phase shows; returns what keeps it up to date."""
        held = self.live
        views: dict[Phase, type[ReadingView | CodeView | QuestionView]]
        views = {Phase.READING: ReadingView, Phase.CODE: CodeView, Phase.QUESTION: QuestionView}
        if held.phase in views:
            return views[held.phase](held).update
        if held.phase is Phase.BEGIN:
            _beginning(held)
        elif held.phase is Phase.OVER:
            card(held)
        elif held.phase is Phase.TROUBLE:
            ui.label(held.trouble).classes("pre").props("role=alert")
            ui.button("Try again", on_click=lambda: ui.navigate.reload())
        else:
            ui.label(WORDS[held.phase]).props("role=status")
        return lambda: None


def _beginning(held: Live) -> None:
    """What is held next; the clock stands still until its user begins."""
    session = held.held
    katas = [catalog.katas()[name] for name in session.katas]
    with ui.element("section").classes("card start").props('aria-label="Before it begins"'):
        if len(held.rounds) > 1:
            what = f"Round {held.round} of {len(held.rounds)}"
            heading(f"{what}: {', '.join(kata.title for kata in katas)}", 2)
            if held.round > 1:
                ui.label(f"Round {held.round - 1} is over. The clock stands still: get up, drink something.")
        ui.label(f"{spoken(session.left)} from when you begin.")
        if session.change:
            ui.label("You read a change first. Nothing is graded before you have judged it.")
        else:
            ui.html(prose.inline(SILENT if session.silent else "Every save is graded."), sanitize=False)
        if session.can_ask and session.kind == "mock":
            ui.label("The contract is not in the file: ask the interviewer what you need to know.")
        stops = "The clock stops while no page of this interview is open, and while the machine sleeps."
        ui.label(stops).classes("soft")
        ui.button("Begin", on_click=lambda: held.wish(("begin",)))
        folder = katas[0].say(held.folder)
        with fold("In a terminal"):
            there = f"{typed(f'{held.kind} --resume {folder}')} holds it there; close this page first."
            ui.label(there).classes("mono")


class Talk:
    """What was said, and the box to ask in."""

    def __init__(self, held: Live, asking: bool) -> None:
        self.live, self._asking, self._count = held, asking, 0
        with ui.element("section").classes("talk").props('aria-label="The interviewer"') as self._place:
            self._said = ui.element("div").props('role=log aria-live=polite aria-label="What was said"')
            if asking:
                with ui.element("form").classes("asking").on("submit.prevent", self._ask):
                    self._box = ui.input("Ask the interviewer").props("outlined")
                    ui.button("Ask").props("type=submit outline")

    def _ask(self) -> None:
        if text := " ".join((self._box.value or "").split()):
            self.live.wish(("hear", f"ask {text}"))
            self._box.set_value("")

    def update(self) -> None:
        """Show what was said since."""
        with self._said:
            for each in self.live.said[self._count :]:
                with ui.element("div").classes("said " + ("hint" if each.who.startswith("Hint") else "")):
                    if each.who:
                        ui.label(each.who).classes("who")
                    _prose(each.text) if each.markdown else ui.label(each.text).classes("pre-line")
        self._count = len(self.live.said)
        self._place.set_visibility(self._asking or bool(self._count))


class CodeView:
    """The time in which code is written."""

    def __init__(self, held: Live) -> None:
        self.live, self.session = held, held.held
        self._stage = 0
        known = catalog.katas()
        with ui.element("div").classes("panes"):
            with ui.element("section").classes("ask").props('aria-label="What is asked"'):
                self._asked = ui.element("div")
                self.talk = Talk(held, asking=self.session.kind == "mock" and self.session.can_ask)
            with ui.element("section").classes("work").props('aria-label="Your files"'):
                names = self.session.katas
                if len(names) > 1:
                    chosen = ui.toggle({name: name for name in names}, value=names[0]).props('aria-label="Which file"')
                self.files = {}
                for name in names:
                    with ui.element("div") as place:
                        self.files[name] = FileView(held, known[name], self.save)
                    if len(names) > 1:
                        place.bind_visibility_from(chosen, "value", value=name)
                with ui.element("div").classes("row"):
                    verb = "Save and run" if self.session.silent else "Save and grade"
                    ui.button(verb, on_click=self.save)
                    if not self.session.real:
                        ui.button("Hint", on_click=lambda: held.wish(("hear", "hint"))).props("outline")
                    self._next = ui.button("Next stage", on_click=self._next_stage).props("outline")
                    self._next.set_visibility(bool(self.session.stage))
                    ui.button("End it", on_click=lambda: self._dialog.open()).props("flat")
                ui.label("Ctrl+Enter or Ctrl+S saves. Esc, then Tab leaves the editor.").classes("soft")
                for name, file in self.files.items():
                    with ui.element("div") as place:
                        file.below()
                    if len(names) > 1:
                        place.bind_visibility_from(chosen, "value", value=name)
        self._dialog: ui.dialog = self._ending()
        ui.run_javascript(SCHEME)

    def save(self) -> None:
        """Save what is edited: the session sees that."""
        for file in self.files.values():
            if file.editor.draft.unsaved and not file.editor.save():
                say("The file has changed elsewhere: choose above which version to keep, then save.", "bad")
        if all(file.as_handed_out for file in self.files.values()):
            say("Nothing is written yet, so there is nothing to grade.")

    def _next_stage(self) -> None:
        self.save()
        self.live.wish(("hear", "next"))

    def _ending(self) -> ui.dialog:
        def end() -> None:
            dialog.close()
            self.live.wish(("hear", "q"))

        with ui.dialog().props('aria-label="End it?"') as dialog, ui.card():
            ui.label("The files are graded once more as they were saved last, and the clock stops for good.")
            with ui.element("div").classes("row"):
                ui.button("End it", on_click=end)
                ui.button("Go on", on_click=dialog.close).props("flat")
        return dialog

    def update(self) -> None:
        """Show what has happened."""
        if self._stage != self.session.stage or not self._asked.default_slot.children:
            self._stage = self.session.stage
            self._show_asked()
            self._next.set_visibility(0 < self.session.stage < self.session.stages)
        self.talk.update()
        for file in self.files.values():
            file.update()

    def _show_asked(self) -> None:
        session, known = self.session, catalog.katas()
        self._asked.clear()
        with self._asked:
            if kata := ladder.of(session):
                several = stages.of(kata)[: session.stage]
                for stage in several[:-1]:
                    with fold(f"Stage {stage.number}"):
                        _prose(ladder.prompt(kata, stage))
                _prose(ladder.prompt(kata, several[-1]))
                return
            for name in session.katas:
                if len(session.katas) > 1 or session.kind == "hunt":
                    heading(f"{known[name].title}: {session.asks(name)} {name}.py", 2)
                with fold("What the kata asks", opened=session.change is None):
                    _prose(master.ask(known[name]))
            if session.change:
                heading("Your remarks", 3)
                _remarked(reading.remarks(session))
                with fold("The change as it was handed out"):
                    diff(reading.changed_lines(session))


class FileView:
    """A file of a session in its editor, and what came of the last save."""

    def __init__(self, held: Live, kata: Kata, save: Callable[[], object]) -> None:
        self.live, self.kata = held, kata
        path = held.held.path(kata.name)
        first = kata.name == held.held.katas[0]  # a save saves all
        self.editor = Editor(path, kata.home, f"your {kata.name}", kata.say(path), save, everywhere=first)
        self._heard, self._runs = 0, 0
        self._busy: float | None = None  # since when
        self._seen: tuple[Verdict, float] | None = None

    @property
    def as_handed_out(self) -> bool:
        """Whether nothing was written."""
        text = self.editor.draft.text
        return text == self.live.held.handed_out.get(self.kata.name) or master.is_untouched(self.kata, text)

    def below(self) -> None:
        """Make the place for what comes of a save."""
        if self.live.held.silent:
            with ui.element("section").classes("verdict").props('aria-label="Last run"'):
                self._line = ui.label("Not run yet: the verdict comes at the end.").classes("line").props("role=status")
                self._ran = ui.element("div")
        else:
            self.view = VerdictView(editor=self.editor, of=f" of {self.kata.name}")
            if event := self.live.held.last(self.kata.name):
                self.view.tell(f"{self.kata.name}: {event.word}, saved at {clock(event.at)}")

    def update(self) -> None:
        """Show what has come since."""
        name, busy = self.kata.name, self.live.grading == self.kata.name
        if self.live.held.silent:
            self._show_run(busy)
            return
        key = self.live.graded_since if busy else None
        if busy and key != self._busy:
            self.view.begin(name)
            self._heard = 0
        self._busy = key
        if busy:
            for check in self.live.coming[self._heard :]:
                self._heard += 1
                self.view.heard(check)
        given = self.live.verdicts.get(name)
        if not busy and given and given is not self._seen:
            self._seen = given
            self.view.end(given[0])

    def _show_run(self, busy: bool) -> None:
        if busy:
            self._line.set_text(f"running {self.kata.name} …")
        mine = [run for run in self.live.runs if run[0] == self.kata.name]
        if not mine or (len(mine) == self._runs and not busy):
            return
        self._runs = len(mine)
        name, at, run = mine[-1]
        word = "is wrong on the example you gave" if run.outcome == "wrong" else run.outcome
        self._line.set_text(" ".join(clean(f"{clock(at)} · {name} {word}{run.error and ': ' + run.error}")))
        self._ran.clear()
        printed = [line for line in clean(f"{run.printed}\n{run.lines}") if line]
        if printed:
            with self._ran:
                ui.label("\n".join(last_of(printed, SHOWN))).classes("pre printed")


class ReadingView:
    """The time in which a change is read: its lines, remarks beside them, and the words that end it."""

    def __init__(self, held: Live) -> None:
        self.live, self.session = held, held.held
        self._seen: list[Remark] | None = None
        self._inline: list[ui.label] = []
        words = held.reading.words if held.reading else ()
        kata = catalog.katas()[self.session.katas[0]]
        ui.label(held.about).classes("ask")
        with fold(f"What {kata.name} asks for"), ui.element("div").classes("ask"):
            _prose(master.ask(kata))
        with ui.element("div").classes("reading"):
            with ui.element("section").props('aria-label="The change"'):
                self._below = diff(reading.changed_lines(self.session), self._pick)
            with ui.element("section").classes("card notes").props('aria-label="Remarks"'):
                heading("Remarks", 2)
                self._list = ui.element("div")
                self._home = ui.element("div")
                with self._home, ui.element("form").classes("remark") as self._form:
                    self._number = ui.number("Line", format="%d").props("outlined")
                    self._reason = ui.input("What is wrong there").props("outlined")
                    ui.button("Add").props("type=submit outline")
                self._form.on("submit.prevent", self._remark)
                self.talk = Talk(held, asking=False)
                with ui.element("div").classes("row"):
                    for word in words:
                        end = ui.button(_ENDS[word], on_click=lambda word=word: held.wish(("hear", word)))
                        end.props("outline" if word == ACCEPT else "")
                    if REJECT in words:
                        ui.label("Who rejects says why, and mends the file next.").classes("soft")

    def _pick(self, number: int) -> None:
        """Write a remark right below a line."""
        self._form.move(self._below[number])
        self._number.set_value(number)
        self._reason.run_method("focus")

    def _remark(self) -> None:
        reason = " ".join((self._reason.value or "").split())
        if self._number.value and reason:
            self.live.wish(("hear", f"{self._number.value:.0f}: {reason}"))
            self._reason.set_value("")
            self._form.move(self._home)

    def update(self) -> None:
        """Show the remarks, and what was said to them."""
        self.talk.update()
        remarks = reading.remarks(self.session)
        if remarks == self._seen:
            return
        self._seen = remarks
        taken = self.session.change.remarks if self.session.change else []
        self._list.clear()
        with self._list:
            _remarked(remarks, lambda each: self._back(each[0]) if each in taken else None)
        for label in self._inline:
            label.delete()
        self._inline = []
        for line, reason in remarks:
            if line in self._below:
                with self._below[line]:
                    self._inline.append(ui.label(reason).classes("pre-line"))

    def _back(self, number: int) -> None:
        button = ui.button("Take back", on_click=lambda: self.live.wish(("hear", f"{number}:")))
        button.props(f'flat dense aria-label="Take back the remark on line {number}"')


_ENDS = {ACCEPT: "Accept the patch", REJECT: "Reject the patch", DONE: "The review is done"}


def _remarked(remarks: list[Remark], after: Callable[[Remark], object] = lambda remark: None) -> None:
    if not remarks:
        ui.label("No remarks yet.").classes("soft")
        return
    with ui.element("ul").classes("remarks"):
        for each in remarks:
            with ui.element("li"):
                ui.label(f"Line {each[0]}: {each[1]}").classes("plain")
                after(each)


class QuestionView:
    """One question after the code: asked, answered, its points shown, and rated by who answered."""

    def __init__(self, held: Live) -> None:
        self.live, self._shown = held, ""
        posed = held.posed
        assert posed is not None
        with ui.element("section").classes("card question").props('aria-label="Question"'):
            several = len(held.held.katas) > 1
            heading(f"Question {held.number} of {held.count}" + f" · {posed.card.kata.title}" * several, 2)
            with ui.element("div").classes("ask asked"):
                _prose(posed.text)
            self._place = ui.element("div").props("aria-live=polite")
        with self._place, ui.element("form").on("submit.prevent", self._show):
            self._box: ui.input | ui.textarea = (
                ui.input(posed.how).props("outlined autofocus")
                if posed.number
                else ui.textarea(posed.how).props("outlined autogrow autofocus")
            )
            with ui.element("div").classes("row"):
                ui.button("Show the points").props("type=submit")
                self._others()
        ui.label("The clock stands still. What you answer is kept as it comes.").classes("soft")

    def _others(self) -> None:
        ui.button("Skip", on_click=lambda: self.live.wish(("skip", ""))).props("flat")
        ui.button("Leave the rest", on_click=lambda: self.live.wish(("leave", ""))).props("flat")

    def _show(self) -> None:
        self.live.wish(("show", " ".join((self._box.value or "").split())))

    def update(self) -> None:
        """Show the points once they are asked for."""
        held = self.live
        if not held.shown or self._shown or held.posed is None:
            return
        self._shown = held.shown
        self._place.clear()
        with self._place:
            with ui.element("div").classes("answer"):
                ui.label("Your number" if held.posed.number else "You").classes("who")
                ui.label(held.shown).classes("pre-line")
            ui.label("Points of a good answer").classes("who")
            with ui.element("div").classes("ask"):
                _prose(held.posed.points)
            with ui.element("div").classes("row").props('role=group aria-label="How well did you know it?"'):
                ui.label("How well did you know it?")
                for word in RATINGS:
                    ui.button(word, on_click=lambda word=word: held.wish(("rate", word))).props("outline")
                self._others()


def _prose(text: str) -> None:
    """Markdown of the project's own, without its title: the page has one."""
    text = text.replace("docs/house_rules.md", "[docs/house_rules.md](/rules)")
    title, _, rest = text.lstrip().partition("\n")
    ui.html(prose.of(rest if title.startswith("# ") else text), sanitize=False)
