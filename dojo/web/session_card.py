"""How a session went: the scorecard, what was planted, and the last verdicts."""

from __future__ import annotations

from itertools import groupby

from nicegui import ui

from dojo.content import catalog
from dojo.content.catalog import Kata
from dojo.practice.hunt import assistant, bug_hunt, findings, reading, review, with_test
from dojo.practice.interview import drill, inquiries, ladder, questions, scorecard, stage_card
from dojo.practice.interview.questions import LEFT
from dojo.practice.interview.status_line import clock
from dojo.practice.interview.timed_session import DRILL, End, Event, TimedSession
from dojo.verdict.types import Verdict
from dojo.web import prose
from dojo.web.controls import begun, text
from dojo.web.diff_view import diff
from dojo.web.frame import fold, heading
from dojo.web.live import Live
from dojo.web.verdict_view import VerdictView


def card(live: Live) -> None:
    """The scorecard of a session that is over."""
    with ui.element("div").classes("scorecard"):
        for held in live.rounds:
            if live.kind == "review":
                _review(held)
            elif held.change:
                _patch(held, live.final)
            elif live.kind == "hunt":
                _hunt(held, live.final)
            elif live.kind == DRILL:
                ui.html(prose.of(drill.told(held)), sanitize=False)
                _verdicts(held, live.final)
            else:
                _mock(held, live.rounds, live.final)
        with ui.element("div").classes("row"):
            for name in dict.fromkeys(name for held in live.rounds for name in held.katas):
                ui.link(f"Practice {name}", f"/kata/{name}")
            kind = "assistant" if live.held.change and live.kind == "hunt" else live.kind
            ui.link("Hold another", f"/interviews?kind={kind}")


def _mock(held: TimedSession, rounds: list[TimedSession], final: dict[str, Verdict]) -> None:
    staged = ladder.of(held)
    for name in held.katas:
        kata = catalog.katas()[name]
        if len(rounds) > 1 or len(held.katas) > 1:
            heading(kata.title, 2)
        if staged:
            _stages(held, staged, final.get(name))
        else:
            events = [event for event in held.events if event.kata == name]
            _course(events, held.spent)
            _table(scorecard.rows(held, kata, final.get(name)))
    _verdicts(held, final)
    _answers(held)


def _stages(held: TimedSession, kata: Kata, last: Verdict | None) -> None:
    asked = inquiries.asked(held.folder)
    missed = stage_card.not_asked(kata, last, asked)
    word = stage_card.rating(held, kata, last, missed)
    ui.label(begun(word)).classes("rating")
    ui.label(f"{begun(stage_card.RUBRIC)}.").classes("soft")
    _course(held.events, held.spent)
    with ui.element("div").classes("wide").props('role=group tabindex=0 aria-label="Stages"'), ui.element("table"):
        with ui.element("thead"), ui.element("tr"):
            for head in ("stage", "time", "verdict", "regressions", "asked about"):
                text("th", head).props("scope=col")
        with ui.element("tbody"):
            for row in stage_card.rows(held, kata, last):
                with ui.element("tr"):
                    for value in row:
                        text("td", str(value or ""))
    unanswered = [each.text for each in asked if not each.topics]
    if unanswered:
        ui.label("Up to you").classes("who")
        with ui.element("ul"):
            for question in unanswered:
                text("li", question)
    if missed:
        ui.label("Not asked, and failed").classes("who")
        bullets = "\n".join(f"- Stage {stage}: {' '.join(bullet.split())}" for stage, bullet in missed)
        ui.html(prose.of(bullets), sanitize=False)
    if upcoming := stage_card.practise_next(kata, last):
        with ui.element("div").classes("row"):
            ui.label("Practice next:").classes("plain")
            ui.link(upcoming, f"/interviews?kind=mock&kata={upcoming}")


def _course(events: list[Event], spent: float) -> None:
    """How much of each tier passed as time went by: the higher, the more."""
    by_tier = scorecard.course(events, spent)
    if not by_tier:
        return
    with ui.element("div").classes("course"):
        for tier, scores in by_tier.items():
            ui.label(tier).classes("soft")
            with ui.element("div").classes("strip").props("role=img") as strip:
                spoken, column = list[str](), 0
                for score, group in groupby(scores):
                    passed, count = map(int, score.split("/")) if score else (0, 1)
                    spoken += [f"{score} from {clock(spent * column / len(scores))}"] if score else []
                    columns = len([*group])
                    column += columns
                    ui.element("span").style(f"flex: {columns}; --share: {100 * passed / count:.0f}%")
            strip.props(f'aria-label="{tier}: {", ".join(spoken)}"')
            ui.label(scores[-1]).classes("mono")
        ui.element("span")
        with ui.element("div").classes("axis soft"):
            ui.label("0:00").classes("plain")
            ui.label(clock(spent)).classes("plain")


def _review(held: TimedSession) -> None:
    bugs, remarks = findings.of(held), reading.remarks(held)
    result = findings.matched(remarks, bugs)
    _table(review.rows(held, result))
    _found(bugs, result)


def _patch(held: TimedSession, final: dict[str, Verdict]) -> None:
    (name,) = held.katas
    _table(assistant.rows(held, final.get(name)))
    if held.mutants.get(name):
        _lines(with_test.report(final.get(name)))
    _found(findings.of(held), assistant.found(held))
    _verdicts(held, final)


def _found(bugs: list[findings.Planted], result: findings.Findings) -> None:
    """Each bug beside what was said of it, why it is one and the diff that mends it; then the false alarms."""
    if bugs:
        heading("What was planted", 2)
    for bug in bugs:
        word = "Found" if bug.name in result.found else "Missed"
        heading(f"{word}, line {bug.places[0][0]}: {bug.name}", 3)
        if bug.name in result.found:
            line, reason = result.found[bug.name]
            ui.label(f"You, at line {line}: {reason}")
        ui.label(bug.why)
        diff([(None, sign, code) for _, sign, code in bug.mend])
    for line, reason in result.false_alarms:
        ui.label(f"False alarm, line {line}: {reason}")


def _hunt(held: TimedSession, final: dict[str, Verdict]) -> None:
    for name in held.katas:
        kata = catalog.katas()[name]
        outcome = bug_hunt.outcome(held, name, final.get(name))
        heading(f"{kata.title}: {outcome}", 2)
        _table({"time": f"{clock(held.spent)} of {clock(held.seconds)}", "gradings": str(len(held.events))})
        for each, bug in bug_hunt.bugs_of(held, name).items():
            heading(f"Planted: {each}", 3)
            if bug:
                ui.label(bug.why)
                diff([(None, line[0], line[1:]) for line in bug_hunt.mended(kata, bug)])
        _lines(bug_hunt.fix(held, name, final.get(name)))
    _verdicts(held, final)


def _lines(lines: list[str]) -> None:
    for line in lines:
        ui.label(begun(line))


def _table(rows: dict[str, str]) -> None:
    with ui.element("dl").classes("rows"):
        for label, value in rows.items():
            with ui.element("div"):
                text("dt", label)
                text("dd", value)


def _verdicts(held: TimedSession, final: dict[str, Verdict]) -> None:
    """The verdicts that the scorecard rests on."""
    if held.end is End.OPEN:
        return
    for name in held.katas:
        if verdict := final.get(name):
            VerdictView(of=f" of {name}").end(verdict)


def _answers(held: TimedSession) -> None:
    """The questions, how they were rated, and the points beside what was typed."""
    rated = {question: word for asked in held.ratings.values() for question, word in asked.items()}
    if not rated:
        return
    heading("Questions", 2)
    with ui.element("ul").classes("sessions"):
        for question, word in rated.items():
            with ui.element("li"):
                ui.label(word if word else LEFT).classes("mark")
                ui.html(prose.inline(question), sanitize=False)
    if whole := questions.transcript(held):
        with fold("What you answered, and the key points"), ui.element("div").classes("ask"):
            ui.html(prose.of(whole.replace("### ", "#### ")), sanitize=False)
