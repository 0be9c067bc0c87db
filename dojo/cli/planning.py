"""`plan`: makes the plan until the interview, after a placement if one is wanted, and prints it with what is done."""

from __future__ import annotations

import argparse
import math
import shutil
import sys
import textwrap
from datetime import UTC, date, datetime, timedelta

from dojo.content import catalog
from dojo.content.catalog import typed
from dojo.practice import progress
from dojo.practice.schedule import plans
from dojo.practice.schedule.plans import Plan, Task
from dojo.verdict.screen.text import filled

NAMED = 8  # of what a plan has no room for
WIDTH = 80  # columns, where no terminal is narrower
PLACE = "Ten minutes of drills say what you know already. Begin with them? [y/N]"


def plan(args: argparse.Namespace) -> int:
    """Make the plan, forget it, or print the one that is kept, with what is done."""
    if args.clear:
        copy = plans.forget_plan()
        print(filled(f"the plan is forgotten; a copy is {copy}" if copy else "there is no plan to forget", sys.stdout))
        return 0
    if args.place or (args.date is not None and not args.known and _wanted()):
        from dojo.practice.interview import placement

        ended = placement.hold(args.target)
        names = ", ".join(sorted(placement.known())) or "nothing yet"
        print(filled(f"\nknown by what you have solved: {names}", sys.stdout))
        if not ended:
            print(filled(f"`{typed('plan --place')}` goes on.", sys.stdout))
    now = datetime.now(UTC)
    if args.date is not None:
        _make(args.date, args.hours, args.target, args.known, now)
    elif args.place and (kept := plans.kept_plan()) and kept.date >= now.astimezone().date():
        _make(kept.date, kept.hours, kept.target, ",".join(kept.known), now)
    return _show(now)


def _wanted() -> bool:
    """Whether somebody who has no placement, on a terminal, wants one."""
    from dojo.practice.interview import placement

    if not (sys.stdin.isatty() and sys.stdout.isatty()) or placement.found():
        return False
    try:
        return input(filled(PLACE, sys.stdout) + " ").strip().lower() in ("y", "yes")
    except EOFError:
        return False


def _make(day: date, hours: float, target: str, named: str, now: datetime) -> None:
    """Make and keep a plan for somebody who knows these katas and tracks, and what placements have found."""
    from dojo.practice.interview import placement
    from dojo.practice.schedule import making

    found, words = catalog.katas(), [word for word in named.split(",") if word]
    known = {kata.name for kata in catalog.select(words)} if words else set()
    standings = progress.standings(found.values())
    plans.keep_plan(making.make_plan(found, standings, day, hours, now, target, known | placement.known()))


def _show(now: datetime) -> int:
    kept = plans.kept_plan()
    if kept is None:
        first = typed(f"plan --date {date.today() + timedelta(14)} --hours 6")
        print(filled(f"there is no plan yet: `{first}` makes one", sys.stdout))
        return 0
    standings = progress.standings(catalog.katas().values())
    print(_planned(kept, kept.done(standings), now.astimezone().date()))
    return 0


def _planned(kept: Plan, done: list[bool], today: date) -> str:
    """The plan in a line a day, and how it stands."""
    days: dict[date, list[tuple[Task, bool]]] = {}
    for task, ready in zip(kept.tasks, done, strict=True):
        days.setdefault(task.day, []).append((task, ready))
    left = (kept.date - today).days
    when = f"in {left} days" if left > 1 else "tomorrow" if left == 1 else "today" if left == 0 else "over"
    planned = _time(sum(task.minutes for task in kept.tasks))
    day = f"{kept.date:%A} {kept.date.day} {kept.date:%B %Y}"
    width = min(WIDTH, shutil.get_terminal_size().columns if sys.stdout.isatty() else WIDTH)
    target = "" if kept.target == "all" else f" for {kept.target}"
    lines = [*_wrapped(f"The interview{target} on {day} is {when}. Planned: {planned}.", width), ""]
    for on, tasks in days.items():
        head = f"  {plans.day_of(on, today):<10}  {sum(task.minutes for task, _ in tasks):>3} min  "
        late = " (late)" if on < today else ""
        lines += _wrapped(", ".join(_titles(tasks, late)), width, head)
    notes = [f"{sum(done)} of {len(done)} done. `{typed('next')}` follows the plan, `{typed('plan --clear')}` ends it."]
    open_ = [task for task, ready in zip(kept.tasks, done, strict=True) if not ready]
    if left >= 0 and any(task.day < today for task in open_):
        hours = math.ceil(sum(task.minutes for task in open_) / 60)
        more = f" --for {kept.target}" * (kept.target != "all") + f" --known {','.join(kept.known)}" * bool(kept.known)
        again = typed(f"plan --date {kept.date} --hours {hours}{more}")
        notes.append(f"`{again}` spreads what is late over the days that are left.")
    if read := [task for task in kept.tasks if task.how == "read"]:
        pars = sum(kata.minutes for name, kata in catalog.katas().items() if name in {task.kata for task in read})
        notes.append(f"{len(read)} of the most asked are only read: writing them takes {_time(pars)} more.")
    if kept.left_out:
        time = _time(sum(task.minutes for task in kept.left_out))
        names = [task.title for task in kept.left_out]
        rest = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
        notes.append(f"No room in {kept.hours:g} h for {', '.join(names[:NAMED])}{rest}: that takes {time}.")
    return "\n".join([*lines, "", *(row for text in notes for row in _wrapped(text, width))])


def _titles(tasks: list[tuple[Task, bool]], late: str) -> list[str]:
    """What there is to do on a day; what is to be read one after the other stands behind one word."""
    titles, before = list[str](), ("", False)
    for task, ready in tasks:
        if task.how == "read" and before == (task.how, ready):
            titles[-1] += f" + {task.kata}"
        else:
            titles.append(f"✓ {task.title}" if ready else task.title)
        before = (task.how, ready)
    return [title if title.startswith("✓") else f"{title}{late}" for title in titles]


def _wrapped(text: str, width: int, head: str = "") -> list[str]:
    """Lines of a paragraph behind a head; nothing is broken but at spaces."""
    below = " " * len(head)
    return textwrap.wrap(
        text, width, initial_indent=head, subsequent_indent=below, break_long_words=False, break_on_hyphens=False
    )


def _time(minutes: int) -> str:
    """Minutes as they are said: 45 min, 6 h, 1 h 30 min."""
    hours, rest = divmod(minutes, 60)
    return " ".join([*([f"{hours} h"] if hours else []), *([f"{rest} min"] if rest or not hours else [])])
