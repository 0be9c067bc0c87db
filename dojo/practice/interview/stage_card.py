"""How a mock of a kata with stages went: by stage the time, tiers, regressions and questions, and what it comes to."""

from __future__ import annotations

import sys
import textwrap
from typing import TYPE_CHECKING, NamedTuple

from dojo.content import master, stages
from dojo.content.catalog import typed
from dojo.practice.interview import inquiries, scorecard
from dojo.practice.interview.status_line import clock
from dojo.verdict.types import PASSED, SOLVED, Kind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dojo.content.catalog import Kata
    from dojo.practice.interview.inquiries import Inquiry
    from dojo.practice.interview.timed_session import TimedSession
    from dojo.verdict.types import Verdict

STRONG, MIXED, WEAK = "strong", "mixed", "weak"
REGRESSIONS = 1  # as many as a strong interview may have
RUBRIC = (
    f"strong: every stage reached, at most {REGRESSIONS} regression, nothing failed that you might have asked about; "
    "weak: not half of the stages reached; mixed: what is between"
)
LINE = "  {:<7}{:<17}{:<11}{:<13}{}"


class Row(NamedTuple):
    """How one stage went."""

    stage: int
    took: str
    word: str = ""
    regressions: int = 0
    topics: str = ""  # that were asked about


def card(held: TimedSession, kata: Kata, last: Verdict | None) -> list[str]:
    """The lines of the scorecard."""
    asked = inquiries.asked(held.folder)
    missed = not_asked(kata, last, asked)
    table = [LINE.format("stage", "time", "verdict", "regressions", "asked about")]
    for row in rows(held, kata, last):
        table.append(LINE.format(row.stage, row.took, row.word, row.regressions or "", row.topics).rstrip())
    lines = [f"{kata.title} ({kata.name})", *scorecard.plot(held.events, held.spent, held.seconds), *table]
    unanswered = [each.text for each in asked if not each.topics]
    lines += ["", f"  up to you: {'; '.join(unanswered)}"] if unanswered else []
    if missed:
        lines += ["", "  Not asked, and failed:"]
        lines += [f"  stage {stage} · {_plain(bullet)}" for stage, bullet in missed]
    lines += ["", f"  {rating(held, kata, last, missed)} — {RUBRIC}."]
    if upcoming := practise_next(kata, last):
        lines += [f"  Practice next: {upcoming}, `{typed(f'mock {upcoming}')}`."]
    return [row for line in lines for row in _wrapped(line)]


def rows(held: TimedSession, kata: Kata, last: Verdict | None) -> list[Row]:
    """How each stage went."""
    asked, found = inquiries.asked(held.folder), list[Row]()
    for stage in stages.of(kata):
        if stage.number > held.stage:
            found.append(Row(stage.number, "not reached"))
            continue
        number = str(stage.number)
        end = next((event.at for event in held.events if event.stages.get(number) in SOLVED), held.spent)
        end = min(end, held.opened.get(str(stage.number + 1), held.spent))
        took = f"{clock(end - held.opened.get(number, 0.0))} of {stage.minutes} min"
        word = last.by_stage.get(stage.number, "wrong") if last else "no file"
        topics = ", ".join(inquiries.topics_of([each for each in asked if each.stage == stage.number], kata.name))
        found.append(Row(stage.number, took, word, regressions(held, stage.number), topics))
    return found


def rating(held: TimedSession, kata: Kata, last: Verdict | None, missed: Sequence[tuple[int, str]]) -> str:
    """Strong, mixed or weak, as the rubric has it."""
    reached, count = (last.reached if last else 0), len(stages.of(kata))
    if reached == count and held.regressions <= REGRESSIONS and not missed:
        return STRONG
    return WEAK if 2 * reached < count else MIXED


def regressions(held: TimedSession, stage: int) -> int:
    """How many times a stage had passed, and failed in the grading that came next."""
    count, lost = 0, False
    for event in held.events:
        count += stage in event.regressed and not lost
        lost = stage in event.regressed
    return count


def not_asked(kata: Kata, last: Verdict | None, asked: Sequence[Inquiry]) -> list[tuple[int, str]]:
    """The bullets that a check failed and nobody asked for, each with its stage."""
    if last is None:
        return []
    heard = inquiries.topics_of(asked, kata.name)
    bad = [check for check in last.checks if check.topic and not check.outcome.harmless]
    failed = {check.topic for check in bad if not (check.failure and check.failure.kind is Kind.UNWRITTEN)}
    return [
        (stage.number, bullet)
        for stage in stages.of(kata)[: last.stage]
        for topic, bullet in master.topics_of(stage.contract).items()
        if topic in failed and topic not in heard
    ]


def practise_next(kata: Kata, last: Verdict | None) -> str:
    """The kata that the first stage which did not pass builds on; nothing where all passed."""
    words = last.by_stage if last else {}
    behind = next((stage.number for stage in stages.of(kata) if words.get(stage.number) != PASSED), None)
    if behind is None or not kata.builds_on:
        return ""
    return kata.builds_on[min(behind, len(kata.builds_on)) - 1]


def _plain(bullet: str) -> str:
    from dojo.verdict.screen.markdown import plain

    return plain(" ".join(bullet.replace("**", "").split()), getattr(sys.stdout, "encoding", None) or "utf-8")


def _wrapped(line: str) -> list[str]:
    indent = " " * (len(line) - len(line.lstrip()))
    return textwrap.wrap(line, scorecard.WIDTH, subsequent_indent=f"{indent}  ", break_on_hyphens=False) or [""]
