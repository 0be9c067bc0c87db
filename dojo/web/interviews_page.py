"""Interviews: what can be held, what goes on, and how those that are over went."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from nicegui import app, ui

from dojo.content import catalog, stages
from dojo.content.catalog import Kata, Trouble
from dojo.practice import progress
from dojo.practice.hunt import bug_hunt, planting
from dojo.practice.interview.status_line import clock
from dojo.practice.interview.timed_session import End, TimedSession
from dojo.practice.schedule import drills
from dojo.practice.schedule.asked import most_asked_first
from dojo.web import live, preparing
from dojo.web.controls import begun, text
from dojo.web.frame import frame, heading, told
from dojo.web.preparing import Preparing

SHOWN = 12  # sessions that are over
BY_CHANCE = "any, by chance"


@dataclass(frozen=True)
class Kind:
    """A kind of interview: how it is called, what it is, the words of its command, and which katas it is about."""

    name: str
    about: str
    words: tuple[str, ...]
    fits: Callable[[Kata], bool] = lambda kata: not stages.of(kata)
    wait: str = ""  # what takes a while before it begins


PLANTING = "Bugs are planted, and it is checked that each of them shows: 10 to 80 seconds."
KINDS = {
    "ladder": Kind(
        "Interview in stages",
        "One file that is asked for more and more, as labs hold it. Ask the interviewer what you need to know.",
        ("mock",),
        lambda kata: bool(stages.of(kata)),
        "A stage may begin with a program that has bugs: choosing them takes up to a minute.",
    ),
    "mock": Kind("Mock interview", "A kata against the clock, then questions.", ("mock",)),
    "loop": Kind("Loop", "Several mocks of a track, one after the other, with breaks.", ("mock",), lambda kata: False),
    "hunt": Kind("Bug hunt", "A solution with bugs in it: find and mend them.", ("hunt", "--yes"), wait=PLANTING),
    "assistant": Kind(
        "Assistant's patch",
        "An assistant has refactored a solution, with bugs or without: accept or reject it, then mend it.",
        ("hunt", "--yes", "--assistant"),
        wait=PLANTING,
    ),
    "review": Kind(
        "Review",
        "A pull request with bugs, to be read: say which line is wrong and why.",
        ("review", "--yes"),
        wait=PLANTING,
    ),
    "drill": Kind("Drill", "A short kata from memory, in five to ten minutes.", ("drill",), drills.fits),
}


def add() -> None:
    """Add the page."""
    app.on_shutdown(preparing.cancel_all)

    @ui.page("/interviews")
    @told
    def interviews(kind: str = "ladder", kata: str = "") -> None:
        with frame("Interviews", "/interviews"):
            heading("Interviews")
            ui.label(
                "The clock of an interview runs while it is open, here or in a terminal. It stops 10 seconds after its "
                "last page is closed, and while the machine sleeps: go on when you like, here or there."
            ).classes("ask")
            Going()
            Chooser(kind if kind in KINDS else "ladder", kata)
            _over()


class Going:
    """What is being made and what can be gone on with."""

    def __init__(self) -> None:
        self._place, self._shown = ui.element("div"), ""
        self._show()
        ui.timer(1.0, self._show)

    def _show(self) -> None:
        open_ = [(folder, rounds) for folder, rounds in sessions() if not all(held.concluded for held in rounds)]
        seen = str([*(each.command for each in preparing.MAKING), *(standing(rounds) for _, rounds in open_)])
        if seen == self._shown:
            return
        self._shown = seen
        self._place.clear()
        if not open_ and not preparing.MAKING:
            return
        with self._place:
            heading("Go on", 2)
            with ui.element("ul").classes("sessions"):
                for each in preparing.MAKING:
                    with ui.element("li"):
                        ui.label(f"{each.command} is being prepared …").classes("plain")
                        cancel = ui.button("Cancel", on_click=each.cancel)
                        cancel.props(f'flat dense aria-label="Cancel {each.command}"')
                for folder, rounds in open_:
                    with ui.element("li"):
                        ui.link(title(rounds), preparing.address(folder))
                        ui.label(standing(rounds)).classes("soft plain")


class Chooser:
    """What is held next: its kind, its kata and how."""

    def __init__(self, kind: str, kata: str) -> None:
        self._busy: Preparing | None = None
        heading("Begin", 2)
        with ui.element("div").classes("chooser"):
            with ui.element("fieldset").classes("kinds"):
                text("legend", "What kind")
                self.kind = ui.radio({key: each.name for key, each in KINDS.items()}, value=kind).props("dense")
                self.kind.on_value_change(lambda: self._show(""))
            with ui.element("section").classes("card").props('aria-label="How"'):
                self._how = ui.element("div")
                self._line = ui.label().classes("mono soft")
                with ui.element("div").classes("row"):
                    self._go = ui.button("Prepare it", on_click=self._prepare)
                    self._stop = ui.button("Cancel", on_click=lambda: self._busy and self._busy.cancel()).props("flat")
                    self._state = ui.label().props("role=status aria-live=polite")
        self._stop.set_visibility(False)
        ui.timer(1.0, self._tick)
        self._show(kata)

    def _show(self, kata: str) -> None:
        kind = KINDS[self.kind.value]
        self._how.clear()
        self._state.set_text("")
        names = [each.name for each in catalog.katas().values() if kind.fits(each)]
        planted = self.kind.value in ("hunt", "assistant", "review")
        with self._how:
            heading(kind.name, 3)
            ui.label(kind.about)
            self._kata = self._track = self._minutes = self._bugs = self._test = self._how_real = None
            if self.kind.value == "loop":
                self._track = ui.select([*catalog.TRACKS, "all"], value="attention", label="Track")
            else:
                options = {"": BY_CHANCE, **{name: name for name in names}} if planted else names
                given = kata if kata in names else "" if planted else self._proposed(names)
                self._kata = ui.select(options, value=given, label="Kata", with_input=True)
            usual = "60" if self.kind.value == "loop" else "the kata's own"
            self._minutes = ui.number("Minutes", min=1, max=1440, placeholder=usual).props("stack-label")
            if self.kind.value in ("mock", "loop"):
                options = {
                    "": "Every save is graded",
                    "--silent": "Silent: a save runs the file, the verdict comes at the end",
                    "--real": "Real: silent, no hints, no contract in the file; ask for it",
                }
                self._how_real = ui.radio(options, value="").props("dense")
            if self.kind.value == "hunt":
                counts = {0: "as usual", **{n: str(n) for n in range(1, planting.MOST + 1)}}
                self._bugs = ui.select(counts, value=0, label="Bugs")
            if self.kind.value in ("hunt", "assistant"):
                self._test = ui.checkbox("Write a test too, that would have caught them")
            self._warning = ui.label().classes("note")
            if kind.wait:
                ui.label(kind.wait).classes("soft")
            for each in filter(None, (self._kata, self._track, self._minutes, self._bugs, self._test, self._how_real)):
                each.on_value_change(self._changed)
        self._changed()

    def _proposed(self, names: list[str]) -> str:
        """Of these katas the one that is asked most and not solved yet."""
        known = catalog.katas()
        found = progress.standings(known[name] for name in names)
        first = [*most_asked_first(known[name] for name in names)]
        return next((kata.name for kata in first if not found[kata.name].solved), names[0])

    def _changed(self) -> None:
        self._line.set_text(f"In a terminal: {Preparing(self._words()).command}")
        name, kind = self._kata.value if self._kata else "", self.kind.value
        about = ""
        if name and kind in ("hunt", "assistant", "review"):
            about = bug_hunt.handed_over([catalog.katas()[name]], "review" if kind == "review" else "hunt")
        self._warning.set_text(f"{begun(about)}." if about else "")

    def _words(self) -> list[str]:
        """The words of the command that makes it."""
        first, *flags = KINDS[self.kind.value].words
        words = [first]
        if self._track:
            words += ["--track", str(self._track.value)]
        elif self._kata:
            words += [self._kata.value or "--random"]
        words += flags
        if self._minutes and self._minutes.value:
            words += ["--minutes", f"{self._minutes.value:g}"]
        words += [self._how_real.value] if self._how_real and self._how_real.value else []
        words += ["--bugs", str(self._bugs.value)] if self._bugs and self._bugs.value else []
        words += ["--with-test"] if self._test and self._test.value else []
        return words

    async def _prepare(self) -> None:
        if self._busy:
            return
        self._busy = Preparing(self._words())
        self._go.disable()
        self._stop.set_visibility(True)
        self._tick()
        try:
            ui.navigate.to(await self._busy.make())
        except Trouble as trouble:
            self._state.set_text(str(trouble))
        finally:
            self._busy = None
            self._go.enable()
            self._stop.set_visibility(False)

    def _tick(self) -> None:
        if self._busy:
            self._state.set_text(f"preparing … {time.monotonic() - self._busy.since:.0f} s. You may leave this page.")


def _over() -> None:
    """How those went that are over."""
    found = [(folder, rounds) for folder, rounds in sessions() if all(held.concluded for held in rounds)]
    if not found:
        return
    heading("Over", 2)
    with ui.element("ul").classes("sessions"):
        for folder, rounds in found[:SHOWN]:
            with ui.element("li"):
                ui.link(title(rounds), preparing.address(folder))
                ui.label(standing(rounds)).classes("soft plain")


def sessions() -> list[tuple[Path, list[TimedSession]]]:
    """Every session of the project that can be read, the latest first."""
    found = []
    for kind in live.KINDS:
        for folder in (catalog.ROOT / f"{kind}s").glob("*/"):
            try:
                rounds = live.rounds_in(folder)
                if all(name in catalog.katas() for held in rounds for name in held.katas):
                    found.append((folder, rounds))
            except Trouble:
                continue
    return sorted(found, key=lambda each: each[1][0].begun, reverse=True)


def title(rounds: list[TimedSession]) -> str:
    """What a session is about."""
    names = [catalog.katas()[name].title for held in rounds for name in held.katas]
    kind = {"review": "Review", "drill": "Drill", "hunt": "Hunt", "mock": "Mock"}[rounds[0].kind]
    kind = "Assistant's patch" if rounds[0].kind == "hunt" and rounds[0].change else kind
    return f"{kind}: {', '.join(names)}"


def standing(rounds: list[TimedSession]) -> str:
    """How far a session is."""
    day = time.strftime("%d %B, %H:%M", time.localtime(rounds[0].begun))
    if all(held.concluded for held in rounds):
        return f" · {day} · {rounds[-1].end}"
    held = live.current(rounds)
    where = f"round {rounds.index(held) + 1} of {len(rounds)}, " if len(rounds) > 1 else ""
    if held.end is not End.OPEN:
        return f" · {day} · {where}questions and scorecard are left"
    return f" · {day} · {where}{clock(held.left)} left"
