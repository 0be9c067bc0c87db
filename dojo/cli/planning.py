"""`plan`: makes the plan until the interview, after a placement if one is wanted, and prints it with what is done."""

from __future__ import annotations

import argparse
import shutil
import sys
import textwrap
from datetime import UTC, date, datetime, timedelta

from dojo.content.catalog import typed
from dojo.practice import outline
from dojo.practice.outline import Outline
from dojo.practice.schedule import plans
from dojo.practice.schedule.plans import Task
from dojo.verdict.screen.text import filled

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
        outline.make(args.date, args.hours, args.target, args.known, now)
    elif args.place and (kept := plans.kept_plan()) and kept.date >= now.astimezone().date():
        outline.make(kept.date, kept.hours, kept.target, ",".join(kept.known), now)
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


def _show(now: datetime) -> int:
    kept = plans.kept_plan()
    if kept is None:
        first = typed(f"plan --date {date.today() + timedelta(14)} --hours 6")
        print(filled(f"there is no plan yet: `{first}` makes one", sys.stdout))
        return 0
    print(_planned(Outline.of(kept, now.astimezone().date())))
    return 0


def _planned(plan: Outline) -> str:
    """The plan in a line a day, and how it stands."""
    kept, width = plan.kept, min(WIDTH, shutil.get_terminal_size().columns if sys.stdout.isatty() else WIDTH)
    lines = [*_wrapped(plan.head, width), ""]
    for on, tasks in plan.days.items():
        head = f"  {plans.day_of(on, plan.today):<10}  {sum(task.minutes for task, _ in tasks):>3} min  "
        late = " (late)" if on < plan.today else ""
        lines += _wrapped(", ".join(_titles(tasks, late)), width, head)
    notes = [f"{plan.tally} `{typed('next')}` follows the plan, `{typed('plan --clear')}` ends it."]
    if plan.late:
        more = f" --for {kept.target}" * (kept.target != "all") + f" --known {','.join(kept.known)}" * bool(kept.known)
        again = typed(f"plan --date {kept.date} --hours {plan.hours_left}{more}")
        notes.append(f"`{again}` spreads what is late over the days that are left.")
    notes += plan.notes
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
