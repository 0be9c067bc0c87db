"""The other side of the table: one page for the interviewer of a kata, which prints on two A4 sheets."""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import Any

from dojo.content import catalog, files, master, stages
from dojo.content.catalog import Kata, typed
from dojo.practice.interview.stage_card import RUBRIC
from dojo.verdict.page import html
from dojo.verdict.screen import markdown

Span = tuple[str, str]  # the element that a piece of text stands in, and the text
PIECE = re.compile(r"\*\*(?P<strong>.+?)\*\*|`(?P<code>[^`]+)`")


def main(args: argparse.Namespace) -> int:
    """Write the page and print its path."""
    kata = catalog.one(args.name)
    path = args.out or Path(f"interviewer-{kata.name}.html")
    if path.exists():
        files.keep(kata.home / "kept", path, path.read_bytes())  # notes may have been written into it
    files.write_atomic(path, of_kata(kata))
    print(path.resolve())
    return 0


def of_kata(kata: Kata) -> str:
    """The page: prompts, expected questions, hints, signals and follow-ups, and room for notes."""
    found = stages.of(kata)
    return html.render(
        "practice/interview/interviewer.html",
        title=f"{kata.title}: for the interviewer",
        kata=kata,
        scenario=spans(_untitled(master.scenario(kata))) if found else [],
        stages=[_staged(stage) for stage in found] or [_whole(kata)],
        questions=[_question(each) for each in master.questions(kata)],
        rubric=RUBRIC if found else "",
        commands=commands(kata, bool(found)),
    )


def commands(kata: Kata, staged: bool) -> list[tuple[str, str]]:
    """What is typed to judge a candidate's file, and what it does."""
    grade = typed(f"grade {kata.name} --attempt FILE --sandbox --no-record")
    found = [(typed(f"mock {kata.name} --real"), "the interview on your machine: hands out the file, opens stages")]
    found += [(grade, "judges a candidate's file in the sandbox" + ", as far as its stages go" * staged)]
    found += [(f"{grade} --stage 2", "the first two stages alone")] if staged else []
    return [*found, (f"{grade} --html report.html", "the same as a page with pictures of what fails")]


def spans(text: str) -> list[list[Span]]:
    """Markdown by paragraph, each as pieces: emphasis and code by name, formulas in Unicode."""
    return [_pieces(" ".join(part.split())) for part in re.split(r"\n\s*\n", text) if part.strip()]


def _pieces(text: str) -> list[Span]:
    text, found, end = markdown.plain(text, "utf-8"), list[Span](), 0
    for match in PIECE.finditer(text):
        found += [("", text[end : match.start()])]
        found += [(kind, words) for kind, words in match.groupdict().items() if words]
        end = match.end()
    return [each for each in (*found, ("", text[end:])) if each[1]]


def _staged(stage: stages.Stage) -> dict[str, Any]:
    return {
        "title": f"Stage {stage.number}",
        "minutes": stage.minutes,
        "says": spans(stages.FENCED.sub("", _untitled(stage.prompt))),
        "blocks": [block.rstrip() for block in stages.FENCED.findall(stage.prompt)],
        "topics": _topics(stage.contract),
        "hints": [_pieces(" ".join(hint.split())) for hint in stage.hints],
        "strong": _pieces(stage.strong),
        "weak": _pieces(stage.weak),
    }


def _whole(kata: Kata) -> dict[str, Any]:
    """A kata that asks for all at once, as the one stage of its interview."""
    return {
        "title": kata.title,
        "minutes": kata.minutes,
        "says": spans(_untitled(master.scenario(kata))),
        "blocks": [],
        "topics": _topics("\n".join(f"- {each}" for each in master.contract(kata).values())),
        "hints": [_pieces(" ".join(hint.split())) for hint in master.hints(kata)],
        "strong": [],
        "weak": [],
    }


def _untitled(text: str) -> str:
    """A text without its heading."""
    return text.partition("\n")[2]


def _topics(contract: str) -> list[tuple[str, list[Span]]]:
    found = master.topics_of(contract).items()
    return [(topic, _pieces(" ".join(text.partition("**")[2].partition("**")[2].split()))) for topic, text in found]


def _question(question: master.Question) -> dict[str, Any]:
    number = question.number
    values = [f"{name} {', '.join(map(str, each))}" for name, each in number.settings.items()] if number else []
    return {
        "text": _pieces(question.text),
        "points": [_pieces(point) for point in question.points],
        "number": f"{number.formula} {number.unit}".strip() if number else "",
        "settings": "; ".join(values),
    }
