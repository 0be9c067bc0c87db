"""`list`, `show`, `hint`, `reveal` and `reset`: what there is to practise, and what helps."""

from __future__ import annotations

import ast
import sys
from pathlib import Path
from typing import Literal

from rich.console import Console
from rich.table import Table
from rich.text import Text

from dojo.cli.selection import check_files, check_stage
from dojo.content import catalog, lessons, master, stages, sync
from dojo.content.catalog import ROOT, Kata, Trouble, typed
from dojo.practice import lesson, progress
from dojo.practice.database import Unreadable
from dojo.practice.schedule import paths
from dojo.practice.schedule.standing import Standing, State
from dojo.verdict.screen.markdown import page
from dojo.verdict.screen.terminal import Screen
from dojo.verdict.screen.text import filled

STYLES = {State.NOT_STARTED: "dim", State.WRONG_SINCE: "red"}
NARROW = 20  # columns left for titles at which levels and minutes are left out


def show_list(root: Path = ROOT) -> int:
    """Print the katas by track with level, minutes and state."""
    found = catalog.katas(root)
    try:
        standings, trouble = progress.standings(found.values()), ""
    except Unreadable as unreadable:
        standings, trouble = progress.standings(found.values(), []), progress.unknown(unreadable)
    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=120)
    plain = console.options.ascii_only
    names = [f"  {kata.name}" for kata in found.values()]
    states = [standing.label for standing in standings.values()]
    fixed = [("kata", max(map(len, names))), ("level", 5), ("min", 3), ("your attempt", max(12, *map(len, states)))]
    if console.width - sum(width + 2 for _, width in fixed) < NARROW:
        fixed = [fixed[0], fixed[-1]]
    room = max(1, console.width - sum(width + 2 for _, width in fixed))  # for the titles, which may be shortened
    room = min(room, max(len(kata.title) for kata in found.values()))
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    columns = [fixed[0], ("", room), *fixed[1:]]
    for name, width in columns:
        side: Literal["left", "right"] = "right" if name in ("level", "min") else "left"
        cut: Literal["crop", "ellipsis"] = "crop" if name or plain else "ellipsis"
        table.add_column(name, width=width, justify=side, no_wrap=True, overflow=cut)
    for track in dict.fromkeys(kata.track for kata in found.values()):
        own = [kata for kata in found.values() if kata.track == track]
        table.add_row(Text(track, "bold"), bar(sum(standings[kata.name].solved for kata in own), len(own), room, plain))
        for kata in own:
            standing = standings[kata.name]
            numbers = [str(kata.level), str(kata.minutes)] if len(fixed) > 2 else []
            table.add_row(f"  {kata.name}", kata.title, *numbers, Text(standing.label, style_of(standing)))
    solved = "" if trouble else f"{progress.tally(standings.values())}. "
    with console.capture() as printed:
        console.print(table)
        console.print(f"\n{solved}`{typed('grade NAME')}` grades katas/TRACK/NAME.py.")
    if console.is_terminal:
        page(printed.get(), console)
    else:
        print(printed.get(), end="")
    if trouble:
        print(f"\ndojo: {trouble}", file=sys.stderr)
    return 0


def style_of(standing: Standing) -> str:
    """How a state is shown: a pass is green, with help it is not."""
    return "green" if standing.polished else STYLES.get(standing.state, "yellow")


def bar(done: int, count: int, room: int, plain: bool) -> Text:
    """How many katas of a track are solved, as a bar and a number."""
    full, rest = "#." if plain else "━╌"
    number = f" {done} of {count}"
    length = max(0, min(12, room - len(number)))
    filled = length * done // count
    return Text.assemble((full * filled, "green"), (rest * (length - filled), "dim"), number)


def show_beginning(kata: Kata) -> None:
    """Print what the kata asks for in short, and what helps on the way: for those who have not begun."""
    paragraphs = master.ask(kata).split("\n\n")
    intro = next(n for n, text in enumerate(paragraphs) if n and not text.startswith("$$"))
    if lists := paragraphs[intro].endswith(":"):  # what it announces belongs to it, and takes the room of the formulas
        paragraphs[1 : intro + 2] = paragraphs[intro : intro + 2]
        intro = 2
    about = "\n\n".join(paragraphs[: intro + 1])
    stub = ast.parse(master.stub_text(kata)).body
    unwritten = [n for n in stub if isinstance(n, master.DEFINITIONS) and "NotImplementedError" in ast.unparse(n)]
    about = "\n\n".join([about, *(stage.spoken for stage in stages.of(kata)[:1])])
    names = " and ".join(f"`{node.name}`" for node in unwritten)  # of a program to be mended there are none
    write = f"**Write** {names}. " if names and not lists else ""
    asked = f"{write}Par is {kata.minutes} minutes."
    Screen(sys.stdout).markdown(f"{about}\n\n{asked}")
    steps = {
        kata.say(kata.stub): "where you write, below the whole statement",
        typed(f"show {kata.name}"): "shows the statement as a page",
        typed(f"watch {kata.name}"): "grades it on every save",
        typed(f"hint {kata.name}"): "helps a little",
    }
    width = max(map(len, steps))
    print("\n" + "".join(f"  {step:{width}}  {what}\n" for step, what in steps.items()), flush=True)


def show_paths() -> int:
    """Print three orders through the katas, with how far the user is."""
    found = catalog.katas()
    try:
        standings = progress.standings(found.values())
    except Unreadable:
        standings = progress.standings(found.values(), [])
    Screen(sys.stdout).markdown("\n".join(paths.lines(found, standings)), paged=True)
    return 0


def show_statement(kata: Kata, contract: bool = False, number: int | None = None) -> int:
    """Print what the kata asks for and where it is written, or the contract that it is held to; or those of a stage."""
    asked = stages.of(kata)[number - 1 : number] if number else ()
    first = asked or stages.of(kata)[:1]  # what comes later is not told before it is asked for
    topics = master.topics_of(first[0].contract) if first else master.contract(kata)
    if contract:
        bullets = "\n".join(f"- {each}" for each in topics.values())
        one_part = f"The statement of {kata.name} is in one part: `{typed(f'show {kata.name}')}` shows all of it."
        page = f"# {kata.title}: the contract\n\n{bullets}\n\n{master.HOUSE_RULES}" if topics else one_part
        Screen(sys.stdout).markdown(page, paged=True)
        return 0
    which = f"{kata.name} --stage {number}" if number else kata.name
    insists = f"`{typed(f'show {which} --contract')}` says what a reviewer would insist on: {', '.join(topics)}. "
    if asked:
        Screen(sys.stdout).markdown(f"{asked[0].prompt}\n\n{insists if topics else ''}", paged=True)
        return 0
    after = (
        f"{insists if topics else ''}Level {kata.level}, {kata.minutes} minutes. Write it in `{kata.say(kata.stub)}`. "
        f"`{typed(f'grade {kata.name}')}` grades it; `{typed(f'hint {kata.name}')}` helps a little."
    )
    if count := len(stages.of(kata)):
        after += f" It has {count} stages: `{typed(f'stage {kata.name}')}` opens the next one in your file."
    Screen(sys.stdout).markdown(f"{master.ask(kata)}\n\n{after}", paged=True)
    return 0


def show_lesson(kata: Kata) -> int:
    """Print what leads to the kata: the idea, what its figure shows and where that is, and the steps."""
    lesson = lessons.of(kata)
    if lesson is None:
        taught = ", ".join(each.name for each in catalog.katas(kata.root).values() if lessons.of(each))
        print(filled(f"{kata.name} has no lesson; those that have are {taught}", sys.stdout))
        return 1
    figure = f"**Figure** (`{kata.say(kata.figure)}`). {lesson.alternative}"
    parts = [f"# {kata.title}: the lesson", lesson.idea, figure]
    for each in lesson.steps:
        parts += [f"## Step {each.number}", each.ask, f"```python\n{each.begun}\n```"]
    again = typed(f"grade {kata.name} --step 1")
    parts.append(f"Write them in `{kata.say(kata.notebook)}`, where each has a check; or in a file: `{again}` "
                 "`--attempt FILE`.")  # fmt: skip
    Screen(sys.stdout).markdown("\n\n".join(parts), paged=True)
    return 0


def open_stage(kata: Kata) -> int:
    """Open the next stage in the user's file, which keeps all that stands in it, and print its prompt."""
    check_stage([kata])
    if message := sync.sync(kata, opened=True):
        print(filled(message, sys.stderr), file=sys.stderr)
    stage, count = progress.open_stage(kata), len(stages.of(kata))
    if stage is None:
        print(
            filled(f"all {count} stages are open in {kata.say(kata.stub)}: `{typed(f'grade {kata.name}')}`", sys.stdout)
        )
        return 1
    Screen(sys.stdout).markdown(stage.prompt)
    where = f"Stage {stage.number} of {count} is open in {kata.say(kata.stub)}; what you wrote stands as it was."
    print(filled(f"\n{where} `{typed(f'grade {kata.name}')}` grades all that is open.", sys.stdout))
    return 0


def show_hint(kata: Kata, again: bool = False) -> int:
    """Print the next hint; `again` starts over with the first."""
    Screen(sys.stdout).markdown(progress.next_hint(kata, again))
    return 0


def reset(words: list[str], yes: bool = False) -> int:
    """Write fresh stubs; several at once only after a word of the user, on a terminal or as `yes`."""
    katas = catalog.select(words)
    if len(katas) > 1 and not yes:
        what = f"reset writes {len(katas)} stubs and notebooks afresh ({katas[0].name} … {katas[-1].name})"
        if not sys.stdin.isatty():
            raise Trouble(f"{what}: say `--yes` where nobody can be asked. Nothing was done.")
        try:
            message = input(f"{what}; copies of your work go to .dojo/kept. Go on? [y/N] ")
        except EOFError:
            message = ""
        if message.strip().lower() not in ("y", "yes"):
            print("nothing was done")
            return 1
    check_files(katas)
    for kata in katas:
        print(filled(progress.reset(kata), sys.stdout), flush=True)
    return 0


def reveal(kata: Kata, spoil: bool = False, as_notebook: bool = False) -> int:
    """Show the solution and what there is to say about it, printed or as a notebook, to those who passed or insist."""
    from dojo.practice.hunt import with_test

    hidden = progress.stays_hidden(kata, spoil)
    if hidden:
        print(filled(hidden, sys.stdout))
        return 1
    progress.note_solution(kata)
    if as_notebook:
        print(filled(lesson.write(kata), sys.stdout))
        return 0
    message = "\n\n".join(filter(None, [master.explanation(kata), with_test.held_against(kata)]))
    Screen(sys.stdout).markdown(message, paged=True, code=master.solution_code(master.read_text(kata.master)))
    return 0
