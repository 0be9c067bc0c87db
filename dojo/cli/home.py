"""The home screen: a bare `dojo` on a terminal. All that it does is a command too, and it shows which.

Drawn with Rich: Textual needs half a second for its import alone.
"""

from __future__ import annotations

import importlib.util
import os
import re
import select
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from rich.console import Console, Group
from rich.text import Text

from dojo.cli.katas import bar, style_of
from dojo.content.catalog import Kata, typed
from dojo.practice.overview import Practice
from dojo.verdict.screen.markdown import PAGED
from dojo.verdict.screen.text import filled

if TYPE_CHECKING:
    from collections.abc import Iterator

COMMANDS = {"s": "show", "g": "grade", "w": "watch", "h": "hint", "r": "reveal", "m": "mock"}  # of the kata picked
OVERVIEWS = {"n": "next", "o": "show path", "p": "plan", "l": "list", "?": "help"}
KEYS = """
    ↑↓ pick,e edit,s show,g grade,w watch,h hint,r reveal,m mock,n next,o orders,p plan,l list,? commands,q quit
""".strip().split(",")
MOVES = {"\x1b[A": -1, "k": -1, "\x1b[B": 1, "j": 1, "\x1b[5~": -8, "\x1b[6~": 8, "\x1b[H": -99, "\x1b[F": 99}
EDIT = ("e", "\r", "\n")
QUIT = ("q", "\x04", "")
KEY = re.compile(r"\x1b[\[O][0-9;]*[A-Za-z~]|.", re.DOTALL)  # one key, as a terminal sends it
WIDE, FIXED = 100, 72  # columns from which titles are shown, and those that the rest of a row takes
EDITORS = ("editor", "nano", "vim", "vi")  # that are looked for where none is set, in this order
TICK = 0.3  # seconds after which a window that was resized is drawn anew


def main() -> int:
    """Show the home screen until it is left; in a pipe, or on a terminal that cannot, an overview."""
    practice, console = Practice.now(), Console(highlight=False)
    able = importlib.util.find_spec("termios") and sys.stdin.isatty() and not console.is_dumb_terminal
    if not (able and console.is_terminal):
        _overview(practice, console)
        return 0
    picked = practice.katas.index(practice.proposed[0].kata) if practice.proposed else 0
    with suppress(KeyboardInterrupt):
        while True:
            picked, key = _pick(practice, console, picked)
            if key in QUIT:
                break
            _do(key, practice.katas[picked])
            practice = Practice.now()
    return 0


def _head(practice: Practice) -> list[Text]:
    """Where the user stands, in two lines."""
    first = [f"{due.kata.name} ({due.reason})" for due in practice.proposed[:1]]
    rest = [due.kata.name for due in practice.proposed[1:4]]
    upcoming = Text.assemble(("next  ", "bold"), ", then ".join([*first, *([", ".join(rest)] if rest else [])]))
    return [Text.assemble(("dojo  ", "bold"), practice.tally), upcoming if first else Text("nothing is due")]


def _track(practice: Practice, track: str, plain: bool) -> Text:
    """A track with how much of it is solved."""
    own = practice.tracks[track]
    return Text.assemble((f"{track:<13}", "bold"), bar(practice.solved(track), len(own), 24, plain))


def _row(practice: Practice, kata: Kata, picked: bool, room: int) -> Text:
    """A kata with par and state, and what is due or planned of it; its title where there is room for one."""
    standing = practice.standings[kata.name]
    title = f"{kata.title:<{room}.{room}}" if room else ""
    return Text.assemble(
        ("› " if picked else "  ", "bold cyan"),
        (f"{kata.name:<20}", "bold" if picked else ""),
        title,
        f"{kata.minutes:>3} min  ",
        (f"{standing.label:<23}", style_of(standing)),
        (practice.when(kata), "cyan"),
    )


def _overview(practice: Practice, console: Console) -> None:
    """The screen without keys: where the user stands, the tracks, and the commands."""
    from dojo.cli.commands import overview

    plain = console.options.ascii_only
    for line in [*_head(practice), Text(), *(_track(practice, track, plain) for track in practice.tracks), Text()]:
        console.print(line, soft_wrap=True)
    console.print(Text(overview()), soft_wrap=True)


def _pick(practice: Practice, console: Console, picked: int) -> tuple[int, str]:
    """Show the screen until a key is pressed that does something; returns the kata picked by then, and the key."""
    with console.screen(hide_cursor=True) as screen, _keys() as pressed:
        size = None
        while True:
            key = next(pressed)
            if key in MOVES:
                picked = min(max(picked + MOVES[key], 0), len(practice.katas) - 1)
            elif key == "\t":
                tracks = [kata.track for kata in practice.katas]
                others = [n for n, track in enumerate(tracks) if track != tracks[n - 1]]
                picked = next((n for n in others if n > picked), others[0])
            elif key is not None and key in (*COMMANDS, *OVERVIEWS, *EDIT, *QUIT):
                return picked, key
            if key is not None or size != console.size:
                size = console.size
                screen.update(Group(*_lines(practice, console, picked)))


def _lines(practice: Practice, console: Console, picked: int) -> list[Text]:
    """The screen's lines: head, as many katas around the picked one as there is room for, what it is, and the keys."""
    width, height, plain = console.width, console.height, console.options.ascii_only
    body, at = list[Text](), 0
    for track, own in practice.tracks.items():
        body.append(_track(practice, track, plain))
        for kata in own:
            if kata is practice.katas[picked]:
                at = len(body)
            body.append(_row(practice, kata, kata is practice.katas[picked], width - FIXED if width >= WIDE else 0))
    kata = practice.katas[picked]
    about = f"{kata.say(kata.stub)} · level {kata.level} · {kata.title}"
    foot = [Text(), Text(about, "bold"), *(Text(line, "dim") for line in _key_lines(width))]
    room = max(1, height - 3 - len(foot))
    top = min(max(0, at - room // 2), max(0, len(body) - room))
    lines = [*_head(practice), Text(), *body[top : top + room], *foot]
    for line in lines:
        line.no_wrap, line.overflow = True, "crop" if plain else "ellipsis"
        if plain:
            line.plain = line.plain.replace("›", ">").replace("·", "-").replace("↑↓", "j k")
    return lines


def _key_lines(width: int) -> list[str]:
    """The keys in lines of this width."""
    lines = [KEYS[0]]
    for key in KEYS[1:]:
        longer = f"{lines[-1]} · {key}"
        lines[-1:] = [longer] if len(longer) <= width else [lines[-1], key]
    return lines


def _do(key: str, kata: Kata) -> None:
    """Leave the screen for what a key asks, and wait until it has been read."""
    if key in EDIT:
        _edit(kata)
        return
    words = [COMMANDS[key], kata.name] if key in COMMANDS else OVERVIEWS[key].split()
    print(f"$ {typed(' '.join(words))}\n", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        paged = Path(folder) / "paged"
        _run([sys.executable, "-m", "dojo", *words], {PAGED: str(paged)})
        if not paged.exists():  # a pager has been left by a key already
            _wait()


def _edit(kata: Kata) -> None:
    """Open the kata's file in the user's editor."""
    found = (each for each in EDITORS if shutil.which(each))
    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR") or next(found, None)
    if not editor:
        start = typed("…").removesuffix(" …")
        none = f"No editor is set, and there is no {' or '.join(EDITORS[1:])}: start with EDITOR=YOURS {start}."
        print(filled(f"{none} The file is {kata.stub}", sys.stdout))
        _wait()
        return
    try:
        failed = _run([*shlex.split(editor), str(kata.stub)])
    except (OSError, ValueError) as error:
        print(f"EDITOR is {editor!r}, and that cannot be started: {error}")
        failed = 1
    if failed:
        _wait()


def _run(command: list[str], more: Mapping[str, str] = MappingProxyType({})) -> int:
    """Run a command in this terminal; Ctrl-C is its own."""
    with subprocess.Popen(command, env=os.environ | more) as process:
        while True:
            with suppress(KeyboardInterrupt):
                return process.wait()


def _wait() -> None:
    print("\nany key goes back", end="", flush=True)
    with _keys() as pressed, suppress(KeyboardInterrupt):
        while next(pressed) is None:
            pass
    print()


@contextmanager
def _keys() -> Iterator[Iterator[str | None]]:
    """What is typed, key by key and unechoed, with None for every moment in which nothing is; "" when it is over."""
    import termios
    import tty

    terminal = sys.stdin.fileno()
    before = termios.tcgetattr(terminal)

    def read() -> Iterator[str | None]:
        yield None
        while True:
            if not select.select([terminal], [], [], TICK)[0]:
                yield None
            elif typed_ahead := os.read(terminal, 64).decode(errors="replace"):
                yield from (key.replace("\x1bO", "\x1b[") for key in KEY.findall(typed_ahead))
            else:
                yield ""

    tty.setcbreak(terminal)
    try:
        yield read()
    finally:
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)
