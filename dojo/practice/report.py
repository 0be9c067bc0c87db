"""One self-contained page about all practice: tables to sort, charts, and pictures of what failed."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Sequence
from datetime import datetime

from dojo.content import catalog
from dojo.content.catalog import Kata, typed
from dojo.practice import database, progress
from dojo.practice.database import Aid, Attempt
from dojo.practice.schedule import repetition
from dojo.practice.schedule.standing import Standing, State
from dojo.verdict.page.html import css_class, esc, verdict_section, write

STYLES = {State.NOT_STARTED: "none", State.WRONG_SINCE: "bad"}

WIDE = 'class="wide" role="group" aria-label="a table or chart to scroll" tabindex="0"'


def main(args: argparse.Namespace) -> int:
    """Write the page about everything remembered and print its path."""
    path = args.out or database.home() / "report.html"
    write(path, of_history(database.recall_all()))
    print(path.resolve())
    return 0


def of_history(attempts: list[Attempt]) -> str:
    """The body of a page about everything that is remembered."""
    katas = catalog.katas()
    if not attempts:
        return f"<p>Nothing is remembered yet. <code>{esc(typed('grade softmax'))}</code> begins it.</p>"
    standings = progress.standings(katas.values(), attempts)
    last = [standing.last.details for standing in standings.values() if standing.last]
    parts = [
        _table(katas, standings),
        _times(katas, standings),
        _mistakes([grading for each in standings.values() for grading in each.gradings]),
    ]
    parts.append("<h2>The last verdict of each kata</h2>" + "".join(map(verdict_section, last)))
    return "".join(parts)


def _table(katas: dict[str, Kata], standings: dict[str, Standing]) -> str:
    heads = ("track", "kata", "state", "trend", "attempts", "help", "best minutes", "par", "due")
    rows = []
    for kata in katas.values():
        standing = standings[kata.name]
        own, date = standing.gradings, standing.due
        trend = "".join(f'<i class="{css_class(a.word)}" title="{esc(a.word)}"></i>' for a in own[-12:])
        times = [s.taken / 60 for s in repetition.sittings(own) if s.end.solved and not s.end.shown and s.taken]
        css = "ok" if standing.polished else STYLES.get(standing.state, "")
        most = max((a.aid for a in own), key=lambda aid: (aid.shown, aid.hints), default=Aid())
        helped = most.words.removeprefix("with ").removeprefix("after the ")
        best = f"{min(times):.1f}" if times else ""
        late = date is not None and date <= datetime.now(date.tzinfo)
        when = "" if date is None else "now" if late else date.astimezone().strftime("%Y-%m-%d")
        order = "" if date is None else str(int(date.timestamp()))
        cells = [
            f"<td>{esc(kata.track)}</td>",
            f'<th scope="row">{esc(kata.name)}</th>',
            f'<td><span class="{css}">{esc(standing.told)}</span></td>',
            f'<td class="trend" data-sort="{sum(a.solved for a in own)}" aria-label="{_trend(own)}">{trend}</td>',
            f'<td class="n">{len(own) or ""}</td>',
            f'<td class="n" data-sort="{most.hints + 99 * most.shown}">{helped}</td>',
            f'<td class="n">{best}</td>',
            f'<td class="n">{kata.minutes}</td>',
            f'<td data-sort="{order}">{when}</td>',
        ]
        rows.append(f"<tr>{''.join(cells)}</tr>")
    head = "".join(f'<th scope="col" aria-sort="none"><button>{name}</button></th>' for name in heads)
    return (
        f"<h2>{progress.tally(standings.values())}</h2>"
        f'<div {WIDE}><table class="sortable"><thead><tr>{head}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>{_hunts(standings)}"
    )


def _hunts(standings: dict[str, Standing]) -> str:
    """The hunts, which stand apart: they count neither for nor against a kata."""
    told = progress.hunts(standings)
    return f"<p>Hunts solved, which change no state: {esc(told)}.</p>" if told else ""


def _trend(own: Sequence[Attempt]) -> str:
    return f"{sum(a.solved for a in own)} of {len(own)} attempts right" if own else "no attempts"


def _times(katas: dict[str, Kata], standings: dict[str, Standing]) -> str:
    """Time to right against par, sitting by sitting: a dot on the line took as long as par."""
    points = []
    for name, standing in standings.items():
        for sitting in repetition.sittings(standing.gradings):
            if sitting.end.solved and not sitting.end.shown and sitting.taken > 0:
                points.append((sitting.end.at, sitting.taken / 60 / katas[name].minutes, name, sitting.taken / 60))
    if not points:
        return ""
    first, last = min(p[0] for p in points), max(p[0] for p in points)
    top = max(1.5, *(p[1] for p in points))
    points.sort(reverse=True)  # the latest have the first choice of a place for their label
    across = [40 + 540 * ((at - first) / (last - first) if last > first else 0.5) for at, *_ in points]
    places = [(x, 170 - 150 * share / top) for x, (_, share, *_) in zip(across, points, strict=True)]
    par = 170 - 150 / top
    dots, taken = [], [(40.0, 590.0, par + 4), *((x - 6, x + 6, y + 4) for x, y in places)]
    for (x, y), (_, share, name, minutes) in zip(places, points, strict=True):
        told = f"{name}: {minutes:.1f} min, {share:.0%} of par"
        dots.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="5" tabindex="0"><title>{esc(told)}</title></circle>')
        dots.append(_label(name, x, y, taken))
    span = [datetime.fromtimestamp(at).strftime("%Y-%m-%d") for at in (first, last)]
    return (
        f"<h2>Time to right against par</h2><div {WIDE}>"
        '<svg viewBox="0 0 600 200" role="img" aria-label="Time to right as a share of par, over time">'
        f'<line x1="40" y1="{par:.1f}" x2="590" y2="{par:.1f}"/><text x="0" y="{par + 4:.1f}">par</text>'
        f'<line class="axis" x1="40" y1="170" x2="590" y2="170"/><text x="40" y="190">{span[0]}</text>'
        f'<text x="590" y="190" text-anchor="end">{span[1]}</text>{"".join(dots)}</svg></div>'
    )


def _label(name: str, x: float, y: float, taken: list[tuple[float, float, float]]) -> str:
    """A point's name beside it where there is room, which is then taken; the point's own title is there anyway."""
    length = 6.5 * len(name)
    for left, base in ((x + 8, y + 4), (x - 8 - length, y + 4), (x - length / 2, y - 9), (x - length / 2, y + 17)):
        free = all(left + length < a or b < left or abs(base - c) > 11 for a, b, c in taken)
        if free and left >= 30 and left + length <= 600 and 8 < base < 168:
            taken.append((left, left + length, base))
            return f'<text x="{left:.1f}" y="{base:.1f}">{esc(name)}</text>'
    return ""


def _mistakes(attempts: list[Attempt]) -> str:
    named = [{f["diagnosis"] for f in a.failing if f.get("diagnosis")} for a in attempts]
    counts = Counter((a.kata, bug) for a, bugs in zip(attempts, named, strict=True) for bug in bugs).most_common(12)
    if not counts:
        return ""
    most = counts[0][1]
    rows = "".join(
        f'<tr><td>{esc(kata)}</td><th scope="row">{esc(bug)}</th><td class="n">{count}</td>'
        f'<td class="bar"><b style="width:{100 * count / most:.0f}%"></b></td></tr>'
        for (kata, bug), count in counts
    )
    head = "".join(f'<th scope="col">{name}</th>' for name in ("kata", "mistake", "times")) + "<td></td>"
    return (
        "<h2>Where attempts fail most</h2>"
        f"<div {WIDE}><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>"
    )
