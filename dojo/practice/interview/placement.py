"""`plan --place`: five drills in ten minutes, one of each level, say what a plan need not begin with."""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from dojo.content import catalog
from dojo.content.catalog import Kata, Trouble, typed
from dojo.practice import progress
from dojo.practice.interview import drill, mock, timed_session
from dojo.practice.interview.runner import TerminalDesk
from dojo.practice.interview.timed_session import End, TimedSession
from dojo.practice.schedule.asked import most_asked_first, weight
from dojo.practice.schedule.making import LADDERS
from dojo.verdict.screen.text import filled

if TYPE_CHECKING:
    from dojo.practice.schedule.standing import Standing

MINUTES, LEVELS = 10, range(1, 6)
FOLDER = "placements"


def chosen(katas: Mapping[str, Kata], standings: Mapping[str, Standing], target: str = "all") -> list[Kata]:
    """Of each level the kata that is asked most and was never solved, of several the shortest; none of a level done."""
    open_ = [k for k in most_asked_first(katas.values(), target) if not standings[k.name].solved and k.track != LADDERS]
    found = []
    for level in LEVELS:
        own = [kata for kata in open_ if kata.level == level]
        found += sorted(own, key=lambda kata: (-weight(kata, target), kata.minutes))[:1]
    return found


def known_by(solved: Collection[str], katas: Mapping[str, Kata]) -> set[str]:
    """What somebody knows who has solved these: the easier katas of their tracks, and all that they build on."""
    known, waiting = set[str](), [name for name in solved if name in katas]
    while waiting:
        name = waiting.pop()
        known.add(name)
        waiting += [base for base in katas[name].builds_on if base in katas and base not in known]
    for kata in (katas[name] for name in solved if name in katas):
        known |= {other.name for other in katas.values() if other.track == kata.track and other.level < kata.level}
    return known


def found(root: Path = catalog.ROOT) -> set[str]:
    """Which katas were solved in a placement, whenever that was."""
    return {held.katas[0] for folder in _folders(root) for held in _rounds(folder) if held.passed(held.katas[0])}


def known() -> set[str]:
    """What all placements say is known."""
    return known_by(found(), catalog.katas())


def hold(target: str = "all") -> bool:
    """Hold a placement, or go on with the one that was left; whether it came to its end."""
    rounds, desk = _left_open() or _begin(target), TerminalDesk()
    time = f"{_left(rounds) / 60:.0f} minutes for {len(rounds)} drills, the easiest first: write what you know."
    leave = f"Ctrl-C leaves it and keeps what was found; `{typed('plan --place')}` goes on."
    print(filled(f"{time} `q` goes on to the next one. {leave}", sys.stdout))
    with suppress(KeyboardInterrupt), desk.grader() as grader:
        for number, held in enumerate(rounds, 1):
            if held.end is not End.OPEN:
                continue
            held.seconds = held.spent + _left(rounds)
            if not held.left:
                break
            print(f"\nDrill {number} of {len(rounds)}, level {catalog.katas()[held.katas[0]].level}.", flush=True)
            if mock.write_code(held, desk, grader) is None:
                return False
            held.concluded = True
            held.save()
        return True
    return False  # left before a clock ran


def _begin(target: str) -> list[TimedSession]:
    """A folder with a session for each level. Raises Trouble where all is solved."""
    katas = catalog.katas()
    picked = chosen(katas, progress.standings(katas.values()), target)
    if not picked:
        raise Trouble("there is nothing to be found out: every kata is solved")
    folder = timed_session.new_folder("placement", picked)
    return [drill.begin(kata, 60.0 * MINUTES, folder / f"{kata.level}-{kata.name}") for kata in picked]


def _left(rounds: Collection[TimedSession]) -> float:
    """The seconds that are left of a placement, which all its drills share."""
    return max(0.0, 60.0 * MINUTES - sum(held.spent for held in rounds))


def _left_open() -> list[TimedSession]:
    """The rounds of the last placement, if it was left before its end."""
    rounds = next((_rounds(folder) for folder in reversed(_folders(catalog.ROOT))), [])
    over = all(held.end is not End.OPEN for held in rounds) or not _left(rounds)
    return [] if over else rounds


def _folders(root: Path) -> list[Path]:
    return sorted((root / FOLDER).glob("*"))


def _rounds(folder: Path) -> list[TimedSession]:
    """The sessions of a placement, the easiest first; nothing of one that cannot be read."""
    try:
        return [timed_session.load(path.parent) for path in sorted(folder.glob(f"*/{timed_session.STATE}"))]
    except Trouble:
        return []
