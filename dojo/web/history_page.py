"""The history of a kata: its attempts, what two of them differ in, the verdict on each, and the way back to one."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import urlencode

from nicegui import ui

from dojo.content import catalog
from dojo.content.catalog import Kata, Trouble
from dojo.practice import database, history, progress
from dojo.practice.database import HANDED_OUT, Attempt
from dojo.practice.history import Row
from dojo.practice.schedule.standing import Standing
from dojo.verdict.page import html
from dojo.verdict.types import Tier
from dojo.web import difference
from dojo.web.controls import Choice, Question, text
from dojo.web.follow import PATIENCE, follow, off_loop
from dojo.web.frame import frame, heading, paged, told

LAYOUTS = {"fit": "as there is room", "side": "side by side", "one": "one above the other"}
HEADS = ("", "when", "kind", "verdict", *Tier, "minutes", "help")


def add() -> None:
    """Add the page of each kata."""

    @ui.page("/history/{name}", response_timeout=PATIENCE)
    @told
    async def history_page(name: str, old: str = "", new: str = "", layout: str = "", verdict: str = "") -> None:
        kata = catalog.one(name)
        read = await off_loop(_read, kata)
        paged()
        with frame(f"History of {kata.name}"):
            HistoryPage(kata, *read, old, new, layout, verdict)


def _read(kata: Kata) -> tuple[list[Attempt], list[Row], Standing]:
    attempts = database.recall_all(kata.name)
    return attempts, history.rows(attempts), progress.standings([kata], attempts)[kata.name]


class HistoryPage:
    """The history of one kata, in one tab."""

    def __init__(self, kata: Kata, attempts: list[Attempt], rows: list[Row], standing: Standing, *picked: str) -> None:
        """`picked` are the attempts that are compared, in which layout, and the one whose verdict is shown."""
        self.kata, self.attempts, self.rows, self.standing = kata, attempts, rows, standing
        self.old, self.new, self.layout, self.opened = picked
        heading(f"History of {kata.name}")
        with ui.element("p").classes("row"):
            self.state = text("span", "")
            ui.link(f"{kata.title}: to the kata", f"/kata/{kata.name}")
        self.done = text("p", "", "done").props("role=status")
        self._question = Question()
        self.body = ui.element("div")
        with ui.element("div").classes("row"):
            ui.button("Start afresh …", on_click=self._ask_reset).props("outline")
            text("span", f"writes a fresh stub into {kata.say(kata.stub)}; what you have is kept", "soft")
        self._show()
        self._look = follow(self._follow)

    async def _follow(self) -> None:
        before = len(self.attempts)
        self.attempts, self.rows, self.standing = await off_loop(_read, self.kata)
        self.state.set_text(f"State: {self.standing.label}")
        if before != len(self.attempts):
            self._show()

    def _show(self) -> None:
        """Show the attempts, and below them what is picked."""
        self.state.set_text(f"State: {self.standing.label}")
        self.body.clear()
        with self.body:
            if not self.attempts:
                text("p", f"{self.kata.name} has no history yet. What you grade, here or in a terminal, is kept.")
                return
            self._table()
            with ui.element("section").props('aria-label="Difference"'):
                self._comparison()
            self._verdict_place = ui.element("section").props('aria-label="Verdict" tabindex=-1')
        self._show_verdict(self.opened)

    def _table(self) -> None:
        scrolled = ui.element("div").classes("scrolled").props('role=group aria-label="Attempts" tabindex=0')
        with scrolled, ui.element("table").classes("attempts"):
            with ui.element("thead"), ui.element("tr"):
                for head in (*HEADS, "what to do"):
                    text("th", head).props("scope=col") if head else ui.element("td")
            with ui.element("tbody"):
                for number, row in reversed([*enumerate(self.rows, 1)]):
                    self._row(number, row)

    def _row(self, number: int, row: Row) -> None:
        with ui.element("tr"):
            text("th", str(number)).props("scope=row")
            text("td", row.when)
            text("td", row.kind)
            text("td", row.word, f"state {html.css_class(self.attempts[number - 1].word)}")
            for words in (*row.tiers, row.minutes, row.help):
                text("td", words, "n")
            with ui.element("td"):
                self._button("Verdict", number, lambda: self._show_verdict(str(number), move=True))
                if row.kind not in HANDED_OUT:
                    self._button("Bring back …", number, lambda: self._ask_restore(number))

    def _button(self, words: str, number: int, act: Callable[[], object]) -> None:
        button = text("button", words, "deed").on("click", act, [])
        button.props["aria-label"] = f"{words.removesuffix(' …')} of attempt {number}"

    def _comparison(self) -> None:
        heading("What changed", 2)
        count = len(self.attempts)
        if count < 2:
            text("p", "With two attempts you see here what changed between them.", "soft")
            return
        numbers = {str(n): f"{n}: {row.word}, {row.when}" for n, row in enumerate(self.rows, 1)}
        with ui.element("div").classes("row"):
            old = Choice("from attempt", numbers, self.old or str(count - 1), self._compare)
            new = Choice("to attempt", numbers, self.new or str(count), self._compare)
            layout = Choice("layout", LAYOUTS, self.layout, self._compare)
        self._choices = (old, new, layout)
        self._difference = ui.element("div")
        self._compare(remember=False)

    def _compare(self, remember: bool = True) -> None:
        old, new, layout = (choice.value for choice in self._choices)
        one, other = (self.attempts[int(number) - 1].text for number in (old, new))
        heads = (f"attempt {old}", f"attempt {new}")
        self._difference.clear()
        with self._difference:
            if one == other:
                text("p", f"Attempts {old} and {new} are the same.")
            else:
                for side_by_side in (True, False) if layout == "fit" else (layout == "side",):
                    made = ui.html(difference.table(one, other, heads, side_by_side), sanitize=False)
                    made.classes(("broad" if side_by_side else "narrow") if layout == "fit" else "")
        if remember:
            self.old, self.new, self.layout = old, new, layout
            self._remember()

    def _show_verdict(self, number: str, move: bool = False) -> None:
        """Show the verdict on an attempt; `move` there, and put it into the address."""
        self._verdict_place.clear()
        if not (number.isdigit() and 0 < int(number) <= len(self.attempts)):
            return
        self.opened, attempt = number, self.attempts[int(number) - 1]
        with self._verdict_place:
            heading(f"The verdict on attempt {number}", 2)
            found = html.shown([attempt.details])
            if found:
                ui.html(html.render("web/verdicts.html", verdicts=found), sanitize=False).classes("paged")
            else:
                text("p", "Of this attempt no more than the line above is remembered.")
        if move:
            self._verdict_place.run_method("focus")
            self._remember()

    def _remember(self) -> None:
        picked = {"old": self.old, "new": self.new, "layout": self.layout, "verdict": self.opened}
        words = urlencode({name: value for name, value in picked.items() if value})
        ui.navigate.history.replace(f"/history/{self.kata.name}{'?' * bool(words)}{words}")

    def _ask_restore(self, number: int) -> None:
        attempt = self.attempts[number - 1]
        where = self.kata.say(self.kata.stub)
        question = f"Put attempt {number} of {history.when(attempt)} into {where}? What is there now is kept as a copy."
        self._question.ask(
            question, f"Bring attempt {number} back", lambda: self._do(lambda: history.restore(self.kata, attempt))
        )

    def _ask_reset(self) -> None:
        question = f"Write a fresh stub into {self.kata.say(self.kata.stub)}? What is there now is kept as a copy."
        self._question.ask(question, "Start afresh", lambda: self._do(lambda: progress.reset(self.kata)))

    async def _do(self, deed: Callable[[], str]) -> None:
        self.done.set_text("Working …")
        try:
            self.done.set_text(await off_loop(deed))
        except (Trouble, OSError) as trouble:
            self.done.set_text(f"That could not be done: {trouble}")
        await self._look()
