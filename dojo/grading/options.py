"""What is graded, and how: the options of a grading, and the entries, which are sources with their kata."""

from __future__ import annotations

import secrets
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dojo.content import build, cells, lessons, master
from dojo.content.catalog import Kata, Trouble, typed

if TYPE_CHECKING:
    from dojo.content.proofs import Hunted
    from dojo.judge.protocol import PickledCells

SOURCE_LIMIT = 4 << 20  # bytes


@dataclass(frozen=True)
class Options:
    """How to grade; the words of the command line."""

    seed: int
    tier: str | None = None
    device: str = "cpu"
    keyword: str = ""
    stop_at_first: bool = False
    debug: bool = False
    diagnose: bool = True
    scripts: bool = False  # make a script of each failing call
    part: tuple[int, int] = (0, 1)  # (i, n): of the checks only every n-th, from the i-th on
    only: frozenset[str] | None = None  # of the checks only those of these names
    stage: int | None = None  # of a kata with stages: grade so many of them; those that are open in its file if None
    so_far: bool = False  # what passes these stages passes, however many there are


@dataclass(frozen=True)
class Entry:
    """One source to grade as one kata: a file's text, or what a notebook has defined."""

    kata: Kata
    source: str
    label: str  # how it is called on the screen
    repeat: str  # the command that grades it again
    pickled_cells: PickledCells | None = None
    others: dict[str, str] | None = None  # texts of the same author's other attempts; else those on disk are there
    hunted: Hunted | None = None  # of a hunt that asks for a test too: what the test is held against
    step: int = 0  # of the lesson before the kata: the one that is graded, and not the kata

    @classmethod
    def of_stub(cls, kata: Kata) -> Entry:
        """The user's own attempt, as it is on disk now. Raises Trouble."""
        return cls(kata, read(kata.stub), kata.say(kata.stub), _command(kata))

    @classmethod
    def of_solution(cls, kata: Kata) -> Entry:
        """The reference solution."""
        return cls(kata, master.read_text(kata.master), kata.say(kata.master), f"{_command(kata)} --solution")

    @classmethod
    def of_file(cls, kata: Kata, path: Path, label: str | None = None) -> Entry:
        """Any file; the solution by another name is refused. Raises Trouble."""
        if path.exists() and path.samefile(kata.master) and path.parent.absolute() != kata.master.parent:
            raise Trouble(f"{path} is a link to {kata.say(kata.master)}, the answer itself: there is nothing to grade")
        label = label or str(path)
        return cls(kata, read(path), label, f"{_command(kata)} --attempt {shlex.quote(label)}")

    @classmethod
    def of_notebook(cls, kata: Kata, text: str, pickled_cells: PickledCells) -> Entry:
        """What a notebook has defined."""
        return cls(kata, text, "this notebook", f"save the notebook, then: {_command(kata)}", pickled_cells)


def fresh_seed(wanted: int | None = None) -> int:
    """The seed that is wanted, or else one that nobody can foresee."""
    return secrets.randbelow(2**31) if wanted is None else wanted


def read(path: Path) -> str:
    """The text of an attempt; a notebook's code cells count as one. Raises Trouble, which names what is wrong."""
    if path.exists() and not path.is_file():
        raise Trouble(
            f"{path} is {'a folder' if path.is_dir() else 'no regular file'}: name a Python file or a notebook"
        )
    if not path.exists():
        near = sorted(p.name for p in path.parent.glob("*.py"))[:8] if path.parent.is_dir() else []
        raise Trouble(f"there is no file {path}" + (f"; in {path.parent} there are {', '.join(near)}" if near else ""))
    if path.stat().st_size > SOURCE_LIMIT:
        raise Trouble(f"{path} has {path.stat().st_size} bytes; an attempt has at most {SOURCE_LIMIT}")
    try:
        return decoded(path.read_bytes(), path)
    except OSError as error:
        raise Trouble(f"{path} cannot be read: {error.strerror}") from None


def decoded(content: bytes, path: Path, name: str = "") -> str:
    """The text of an attempt whose file holds these bytes, and is called so in an error. Raises Trouble."""
    name = name or str(path)
    try:
        return _script(content) if path.suffix.lower() == ".ipynb" else cells.decoded(content)
    except UnicodeDecodeError as error:
        raise Trouble(f"{name} is not UTF-8 text (byte {error.start}): save it as UTF-8") from None
    except build.NoNotebook as error:
        raise Trouble(f"{name} is no notebook: it {error}. Save it from Jupyter, or name a Python file") from None


def _script(content: bytes) -> str:
    """A notebook as a percent script, without the lesson. Raises NoNotebook."""
    import jupytext

    node = build.loads(content)
    node.cells = [cell for cell in node.cells if not lessons.is_of_lesson(cell)]
    try:
        text: str = jupytext.writes(node, fmt="py:percent")
    except Exception as error:  # whatever jupytext comes across in a notebook that lacks something
        raise build.NoNotebook(f"is JSON, but no notebook that jupytext can read ({error})") from None
    return text


def _command(kata: Kata) -> str:
    return typed(f"grade {kata.name}")


def chooser(words: str) -> Callable[[int, str], bool]:
    """What `-k` chooses: the check of this number, those whose names hold these words, or an expression of pytest's."""
    from _pytest.mark.expression import Expression

    from dojo.verdict.screen.text import readable

    if words.isdigit():
        return lambda number, name: number == int(words)
    try:
        expression = Expression.compile(words)
    except SyntaxError:
        expression = None

    def chosen(number: int, name: str) -> bool:
        known = f"{readable(name)} {readable(name, wrong=True)} {name}".casefold()
        if words.casefold() in known:
            return True

        def holds(word: str, /, **_: object) -> bool:
            return word.casefold() in known

        return expression is not None and expression.evaluate(holds)

    return chosen
