"""Home: where the user stands, what is next and why, and the katas by track, to be searched."""

from __future__ import annotations

from urllib.parse import urlencode

from nicegui import ui

from dojo.content import master, stages
from dojo.content.catalog import Kata
from dojo.practice import history
from dojo.practice.database import Unreadable
from dojo.practice.overview import Practice
from dojo.practice.schedule.plans import Due
from dojo.practice.schedule.standing import Standing, State
from dojo.web.controls import Choice, Field, begun, text
from dojo.web.follow import PATIENCE, follow, off_loop
from dojo.web.frame import frame, heading, told

NEXT = 3  # proposals that are shown
HELD = ("drill", "hunt", "mock", "ladder")  # what the page of interviews begins
ANY = {"": "any"}
LEVELS = ANY | {str(level): f"level {level}" for level in range(1, 6)}
MINUTES = ANY | {str(most): f"up to {most} min" for most in (10, 15, 20, 30, 45)}
STATES = ANY | {word: word for word in ("not started", "started", "right", "passed", "due or planned")}
# "/" goes to the search, and arrows walk from kata to kata, as on the terminal's home screen.
KEYS = """<script>
addEventListener("keydown", event => {
  const box = document.querySelector(".katas input[type=search]"), at = document.activeElement;
  if (!box || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "/" && !at.matches("input, select, textarea")) { box.focus(); event.preventDefault(); }
  const step = {ArrowDown: 1, ArrowUp: -1}[event.key];
  const links = [...document.querySelectorAll(".katas li:not(.hidden) a.kata")].filter(link => link.offsetParent);
  const from = at === box ? -1 : links.indexOf(at);
  if (step && links.length && (at === box || from >= 0)) {
    (links[from + step] ?? (from + step < 0 ? box : at)).focus();
    event.preventDefault();
  }
});
</script>"""


def add() -> None:
    """Add the page."""

    @ui.page("/", response_timeout=PATIENCE)
    @told
    async def home(q: str = "", level: str = "", minutes: str = "", state: str = "") -> None:
        practice, topics = await off_loop(_read)
        ui.add_head_html(KEYS)
        with frame("dojo", "/"):
            HomePage(practice, topics, q, level, minutes, state)


def _read() -> tuple[Practice, dict[str, list[str]]]:
    """The practice, and the topics of each kata's contract; of one with stages those of the first alone."""
    practice = Practice.as_far_as_readable()
    return practice, {kata.name: _topics(kata) for kata in practice.katas}


def _topics(kata: Kata) -> list[str]:
    first = stages.of(kata)[:1]
    return list(master.topics_of(first[0].contract) if first else master.contract(kata))


class HomePage:
    """Home, in one tab."""

    def __init__(self, practice: Practice, topics: dict[str, list[str]], q: str, *picked: str) -> None:
        """`q` is what is searched for, `picked` the level, the minutes and the state that are filtered by."""
        self.practice = practice
        self.rows, self._proposed = dict[str, Row](), list[Due]()
        heading("Katas")
        self.tally = text("p", "", "tally")
        self.troubles = ui.element("div").props("role=alert")
        self.next = ui.element("section").classes("next").props('aria-label="Next"')
        with ui.element("div").classes("home"):
            with ui.element("nav").classes("tracks").props('aria-label="Tracks"'):
                self.bars = {track: [Track(track, len(own))] for track, own in practice.tracks.items()}
            with ui.element("div").classes("katas"):
                self._filters(q, *picked)
                self.sections = dict[str, ui.element]()
                for track, own in practice.tracks.items():
                    section = ui.element("section").props(f'id=track-{track} aria-label="{named(track)}"')
                    self.sections[track] = section
                    with section:
                        self.bars[track].append(Track(track, len(own), head=True))
                        with ui.element("ul").props('role="list"'):
                            self.rows |= {kata.name: Row(kata, topics[kata.name]) for kata in own}
        self._show()
        self._filter(remember=False)
        follow(self._follow)

    def _filters(self, q: str, level: str, minutes: str, state: str) -> None:
        with ui.element("search").classes("filters").props('aria-label="Search the katas"'):
            hint = "name, title or topic, as in: masked rows"
            self.search = Field("Search (press /)", q, self._filter, kind="search", placeholder=hint)
            self.search.box.classes("grows")
            self.level = Choice("Level", LEVELS, level, self._filter)
            self.minutes = Choice("Minutes", MINUTES, minutes, self._filter)
            self.state = Choice("State", STATES, state, self._filter)
            self.found = text("p", "", "found soft").props("role=status")

    async def _follow(self) -> None:
        self.practice = await off_loop(Practice.as_far_as_readable)
        self._show()
        self._filter(remember=False)

    def _show(self) -> None:
        """Show how everything stands."""
        practice = self.practice
        self.tally.set_text("" if practice.troubles else practice.tally)
        self.troubles.clear()
        with self.troubles:
            for trouble in practice.troubles:
                text("p", trouble, "trouble")
        for track, both in self.bars.items():
            for bar in both:
                bar.show(practice.solved(track))
        for kata in practice.katas:
            if kata.name in self.rows:
                self.rows[kata.name].show(practice.standings[kata.name], practice.when(kata))
        if (proposed := practice.proposed[:NEXT]) != self._proposed:
            self._proposed = proposed
            self._propose()

    def _propose(self) -> None:
        self.next.clear()
        with self.next:
            heading("Next", 2)
            with ui.element("ol").props('role="list"'):
                for due in self._proposed:
                    card(due)
            self._questions()

    def _questions(self) -> None:
        try:
            due = history.count_questions_due({kata.name: kata for kata in self.practice.katas})
        except Unreadable:  # which is told above
            return
        if count := due.total():
            words = f"{count} question{'s are' if count > 1 else ' is'} due: {', '.join(due)}"
            ui.link(words, "/interviews").classes("due")

    def _filter(self, remember: bool = True) -> None:
        """Show the katas that have every word and are as the filters say."""
        words = self.search.value.lower().split()
        most = int(self.minutes.value or 1000)
        shown = dict[str, bool]()
        for kata in self.practice.katas:
            if row := self.rows.get(kata.name):
                fits = self.level.value in ("", str(kata.level)) and kata.minutes <= most
                shown[kata.name] = fits and self._is_in_state(kata) and row.has(words)
                row.item.set_visibility(shown[kata.name])
        for track, section in self.sections.items():
            section.set_visibility(any(shown.get(kata.name) for kata in self.practice.tracks[track]))
        count = sum(shown.values())
        picked = {"q": self.search.value, "level": self.level.value, "minutes": self.minutes.value}
        picked = {name: value for name, value in (picked | {"state": self.state.value}).items() if value}
        none = "No kata is like that: take a word or a filter away."
        self.found.set_text((f"{count} of {len(shown)} katas" if count else none) if picked else f"{len(shown)} katas")
        if remember:  # so that the way back from a kata leads here
            ui.navigate.history.replace(f"/?{urlencode(picked)}" if picked else "/")

    def _is_in_state(self, kata: Kata) -> bool:
        standing, wanted = self.practice.standings[kata.name], self.state.value
        if wanted == "due or planned":
            return standing.state in (State.DUE, State.WRONG_SINCE) or bool(self.practice.when(kata))
        return not wanted or wanted == reached(standing)


def reached(standing: Standing) -> str:
    """How far a kata is: not started, started, right or passed."""
    if standing.solved:
        return "passed" if standing.passed else "right"
    return str(standing.state)


def named(track: str) -> str:
    """A track as a heading has it."""
    return track.replace("_", " ").capitalize()


def place_of(how: str, name: str) -> str:
    """Where a kata is begun: what is held against the clock on the page of interviews, the rest on its own."""
    return f"/interviews?kind={how}&kata={name}" if how in HELD else f"/kata/{name}"


def card(due: Due) -> None:
    """A proposal, with its reason."""
    with ui.element("li").classes("proposal"):
        ui.link(due.kata.title, f"/kata/{due.kata.name}")
        text("span", begun(due.reason), "why")
        text("span", f"{due.kata.name} · {due.minutes} min", "soft")
        if due.how in HELD:
            ui.link(f"begin the {due.how}", place_of(due.how, due.kata.name)).classes("how")


class Track:
    """A track's name, with a bar of how much of it is solved: as a link to it, or as its heading."""

    def __init__(self, track: str, count: int, head: bool = False) -> None:
        self.count = count
        with ui.element("div" if head else "a").classes("track") as made:
            if head:
                with ui.element("h2"):
                    text("span", named(track))
            else:
                made.props(f"href=#track-{track}")
                text("span", named(track), "name")
            self.words = text("span", "", "count")
            with ui.element("span").classes("meter").props("aria-hidden=true"):
                self.bar = ui.element("span")

    def show(self, solved: int) -> None:
        """Say how many are solved."""
        self.words.set_text(f"{solved} of {self.count}")
        self.bar.style(f"width: {solved / self.count:.0%}")


class Row:
    """A kata in the list."""

    def __init__(self, kata: Kata, topics: list[str]) -> None:
        self.topics, self._words = topics, f"{kata.name} {kata.name.replace('_', ' ')} {kata.title}".lower()
        self.item = ui.element("li")
        with self.item:
            ui.link(kata.name, f"/kata/{kata.name}").classes("kata")
            text("span", kata.title, "title")
            text("span", f"level {kata.level}", "soft level")
            text("span", f"{kata.minutes} min", "soft min")
            self.state = text("span", "", "state")
            self.when = text("span", "", "when")
            self.past = ui.link("history", f"/history/{kata.name}").classes("past")
            self.past.props["aria-label"] = f"history of {kata.name}"
            self.found = text("span", "", "soft topics")

    def show(self, standing: Standing, when: str) -> None:
        """Say how it stands."""
        self.state.set_text(standing.label)
        self.state.classes(replace=f"state {css(standing)}")
        self.when.set_text(when.partition(",")[0])  # the day: how it is planned is told by the card
        self.past.set_visibility(bool(standing.gradings or standing.hunts))

    def has(self, words: list[str]) -> bool:
        """Whether each word is in the name, the title or a topic; the topics that have one are told."""
        topics = [topic for topic in self.topics if any(word in topic.lower() for word in words)]
        beside = [word for word in words if word not in self._words]
        self.found.set_text(f"contract: {', '.join(topics)}" if topics and beside else "")
        text_of_topics = " ".join(self.topics).lower()
        return all(word in text_of_topics for word in beside)


def css(standing: Standing) -> str:
    """The class of a state, which has a color and a sign."""
    if standing.polished:
        return "passed"
    if standing.state in (State.NOT_STARTED, State.STARTED, State.WRONG_SINCE, State.DUE):
        return standing.state.name.lower()
    return "right"
