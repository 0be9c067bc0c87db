"""One self-contained page about all practice: tables to sort, charts, and pictures of what failed."""

from __future__ import annotations

import argparse
from collections import Counter
from datetime import datetime
from typing import Any

from dojo.content import catalog, files
from dojo.content.catalog import Kata, typed
from dojo.practice import database, progress
from dojo.practice.database import Aid, Attempt
from dojo.practice.schedule import repetition
from dojo.practice.schedule.standing import Standing, State
from dojo.verdict.page import html

STYLES = {State.NOT_STARTED: "none", State.WRONG_SINCE: "bad"}


def main(args: argparse.Namespace) -> int:
    """Write the page about everything remembered and print its path."""
    path = args.out or database.home() / "report.html"
    files.write_atomic(path, of_history(database.recall_all()))
    print(path.resolve())
    return 0


def of_history(attempts: list[Attempt]) -> str:
    """The page about everything that is remembered."""
    return html.render("practice/report.html", title="dojo: practice", **_values(attempts))


def parts_of_history(attempts: list[Attempt]) -> str:
    """What that page tells, for another page to hold; its style and script are those of `verdict/page`."""
    return html.render("practice/report_parts.html", **_values(attempts))


def _values(attempts: list[Attempt]) -> dict[str, Any]:
    """What the templates are given."""
    katas = catalog.katas()
    standings = progress.standings(katas.values(), attempts)
    return {
        "begin": "" if attempts else typed("grade softmax"),
        "tally": progress.tally(standings.values()),
        "katas": [_row(kata, standings[kata.name]) for kata in katas.values()],
        "hunts": progress.hunts(standings),
        "reviews": progress.hunts(standings, "review"),
        "times": _times(katas, standings),
        "mistakes": _mistakes([grading for each in standings.values() for grading in each.gradings]),
        "verdicts": html.shown(each.last.details for each in standings.values() if each.last),
    }


def _row(kata: Kata, standing: Standing) -> dict[str, Any]:
    """What the table says of a kata, and by what it is sorted."""
    own, date = standing.gradings, standing.due
    solved = sum(attempt.solved for attempt in own)
    times = [s.taken / 60 for s in repetition.sittings(own) if s.end.solved and not s.end.shown and s.taken]
    most = max((a.aid for a in own), key=lambda aid: (aid.shown, aid.hints), default=Aid())
    late = date is not None and date <= datetime.now(date.tzinfo)
    return {
        "track": kata.track,
        "kata": kata.name,
        "state": standing.label,
        "css": "ok" if standing.polished else STYLES.get(standing.state, ""),
        "solved": solved,
        "trend": f"{solved} of {len(own)} attempts right" if own else "no attempts",
        "latest": [a.word for a in own[-12:]],
        "attempts": len(own) or "",
        "help": most.words.removeprefix("with ").removeprefix("after the "),
        "most_help": most.hints + 99 * most.shown,
        "best": f"{min(times):.1f}" if times else "",
        "par": kata.minutes,
        "due": "" if date is None else "now" if late else date.astimezone().strftime("%Y-%m-%d"),
        "due_at": "" if date is None else int(date.timestamp()),
    }


def _times(katas: dict[str, Kata], standings: dict[str, Standing]) -> dict[str, Any] | None:
    """Time to right against par, sitting by sitting: a dot on the line took as long as par."""
    points = []
    for name, standing in standings.items():
        for sitting in repetition.sittings(standing.gradings):
            if sitting.end.solved and not sitting.end.shown and sitting.taken > 0:
                points.append((sitting.end.at, sitting.taken / 60 / katas[name].minutes, name, sitting.taken / 60))
    if not points:
        return None
    first, last = min(p[0] for p in points), max(p[0] for p in points)
    top = max(1.5, *(p[1] for p in points))
    points.sort(reverse=True)  # the latest have the first choice of a place for their label
    across = [40 + 540 * ((at - first) / (last - first) if last > first else 0.5) for at, *_ in points]
    places = [(x, 170 - 150 * share / top) for x, (_, share, *_) in zip(across, points, strict=True)]
    par = 170 - 150 / top
    dots, taken = [], [(40.0, 590.0, par + 4), *((x - 6, x + 6, y + 4) for x, y in places)]
    for (x, y), (_, share, name, minutes) in zip(places, points, strict=True):
        label = _place_of_label(name, x, y, taken)
        title = f"{name}: {minutes:.1f} min, {share:.0%} of par"
        dots.append({"x": x, "y": y, "name": name, "title": title, "label": label})
    span = [datetime.fromtimestamp(at).strftime("%Y-%m-%d") for at in (first, last)]
    return {"par": par, "dots": dots, "span": span}


def _place_of_label(
    name: str, x: float, y: float, taken: list[tuple[float, float, float]]
) -> tuple[float, float] | None:
    """Where a point's name stands beside it, if there is room, which is then taken; its own title is there anyway."""
    length = 6.5 * len(name)
    for left, base in ((x + 8, y + 4), (x - 8 - length, y + 4), (x - length / 2, y - 9), (x - length / 2, y + 17)):
        free = all(left + length < a or b < left or abs(base - c) > 11 for a, b, c in taken)
        if free and left >= 30 and left + length <= 600 and 8 < base < 168:
            taken.append((left, left + length, base))
            return left, base
    return None


def _mistakes(attempts: list[Attempt]) -> list[tuple[tuple[str, str], int]]:
    """The commonest mistakes, each a kata and a known bug, and how many attempts made it."""
    named = [{f["diagnosis"] for f in a.failing if f.get("diagnosis")} for a in attempts]
    return Counter((a.kata, bug) for a, bugs in zip(attempts, named, strict=True) for bug in bugs).most_common(12)
