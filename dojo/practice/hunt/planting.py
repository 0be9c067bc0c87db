"""Which known bugs a hunt plants together, and the program that has them in it.

A bug is planted where it shows: alone it gives wrong values, and so does the program with all of the bugs. What is
merely slow, not allowed or a side effect stays out, and so does what leaves a trace. Nor do bugs hide each other: every
program with some of them left fails, and whichever is mended first, the checks then say something else.
"""

from __future__ import annotations

import ast
import io
import random
import re
import tokenize
from dataclasses import dataclass
from functools import cache
from itertools import combinations
from typing import TYPE_CHECKING

from dojo.content import catalog, master, proofs
from dojo.content.rows import BadRow
from dojo.grading.options import Options
from dojo.practice.hunt.traces import traces
from dojo.verdict.failures import Fault
from dojo.verdict.types import Kind, Outcome

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from dojo.content.catalog import Kata
    from dojo.content.rows import Row
    from dojo.judge.fork_server import ForkServer

MOST = 4  # bugs in a program
WIDEST = 120  # columns of a line, which the formatter breaks otherwise
TRIES = 40  # choices that are judged before the kata is said to have no room
INPUTS = Options(seed=0)  # whether a bug shows must not depend on the hunt: the same inputs for all


@dataclass(frozen=True)
class Wish:
    """What a hunt asks for in one kata; the same wish plants the same bugs."""

    kata: str
    bugs: int
    seed: int
    crashes: bool = False  # bugs that show as an exception may be planted too
    among: tuple[str, ...] = ()  # only bugs of these names, unless there are none
    text: str = ""  # the right program that they are planted into, where that is not the solution


def choose_for_all(wishes: list[Wish], server: ForkServer) -> list[list[str]]:
    """The names of the bugs for each wish, chosen side by side; fewer than wished for where no choice was found."""
    from dojo.grading.parallel import judges
    from dojo.judge.pool import WorkerPool

    with WorkerPool(choose, server, min(judges(), len(wishes))) as pool:
        return pool.map(wishes)


def choose(wish: Wish, server: ForkServer, known: dict[str, bool] | None = None) -> list[str]:
    """The names of bugs that show and do not hide each other; fewer than wished for when no such choice was found.

    `known` says by name which bugs show alone, and learns it of others.
    """
    kata, rng = catalog.katas()[wish.kata], random.Random(f"{wish.kata} {wish.seed}")
    usable = [bug for bug in proofs.bugs(kata) if not gives_itself_away(kata, bug, wish.text)]
    usable = [bug for bug in usable if not wish.among or bug.name in wish.among]
    shows = {} if known is None else known
    tried, refused, most = set[str](), set[frozenset[str]](), list[str]()
    for _ in range(TRIES):
        chosen = together(kata, rng.sample(usable, len(usable)), wish.bugs, wish.text)
        names = [bug.name for bug in chosen]
        most = max(most, names[: wish.bugs - 1], key=len)
        if len(chosen) < wish.bugs or frozenset(names) in refused:
            continue
        alone = Facts(kata, [[bug] for bug in chosen if bug.name not in shows], server, text=wish.text)
        shows |= {name: alone.shows(name, wish.crashes) for name in alone.outcomes}
        tried |= {*names}
        usable = [bug for bug in usable if bug.name not in tried or shows[bug.name]]  # the same, whatever is known
        if all(shows[name] for name in names) and side_by_side(kata, chosen, wish.crashes, server, wish.text):
            return names
        refused.add(frozenset(names))
    return most


def side_by_side(kata: Kata, bugs: list[Row], crashes: bool, server: ForkServer, text: str = "") -> bool:
    """Whether bugs that show alone show together too, and none hides another."""
    if len(bugs) == 1:
        return True
    sizes = range(1 if len(bugs) == 2 else 2, len(bugs) + 1)
    facts = Facts(kata, [[*some] for size in sizes for some in combinations(bugs, size)], server, bugs, text)
    return facts.shows(facts.whole, crashes) and all(map(facts.fails, facts.outcomes)) and not facts.hidden()


def together(kata: Kata, bugs: Iterable[Row], count: int, text: str = "") -> list[Row]:
    """The first bugs, up to `count`, that change statements of their own and can be planted together.

    They are planted into the `text` of a right program, or else into the solution.
    """
    source = text = text or master.read_text(kata.master)
    statements, taken = _statements(source), set[int]()
    chosen: list[Row] = []
    for bug in bugs:
        if len(chosen) == count:
            break
        edited = {statements.get(source[: source.find(old)].count("\n") + 1, 0) for old, _ in bug.edits}
        if not edited & taken and bug.fits(source) and bug.fits(text):
            text = bug.plant(text)
            taken |= edited
            chosen.append(bug)
    return chosen


def _statements(source: str) -> dict[int, int]:
    """The line on which the statement of each line begins; of a compound statement only its head counts."""
    first: dict[int, int] = {}
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.stmt):
            body = getattr(node, "body", None)
            last = body[0].lineno - 1 if body else node.end_lineno or node.lineno
            first |= dict.fromkeys(range(node.lineno, max(last, node.lineno) + 1), node.lineno)
    return first


def gives_itself_away(kata: Kata, bug: Row, text: str = "") -> bool:
    """Whether the program with the bug has code without an effect that the right one, the solution, does not have.

    A bug that cannot be planted gives itself away too, and so does a line wider than the formatter leaves any.
    """
    text = text or master.read_text(kata.master)
    try:
        wrong = bug.plant(text)
        return bool(traces(wrong) - traces(text)) or too_wide(wrong, text)
    except (BadRow, SyntaxError):  # what it replaces is written otherwise there
        return True


def too_wide(text: str, before: str) -> bool:
    """Whether a line of a text is wider than lines may be, and was not before."""
    return any(len(line) > WIDEST for line in set(text.split("\n")) - set(before.split("\n")))


class Facts:
    """What the checks say about programs, each with a set of bugs in it, as far as it matters.

    The bugs are planted into `text`, a right program, or else into the solution. A program is checked until it gives a
    wrong value. Where `whole` is given, the one with all bugs and those with all
    but one are checked until each of these has been told from it.
    """

    def __init__(
        self, kata: Kata, sets: list[list[Row]], server: ForkServer, whole: Sequence[Row] = (), text: str = ""
    ) -> None:
        from dojo.grading.kill_matrix import kill_matrix

        text = text or master.read_text(kata.master)
        self.whole, self.but_one = _row(whole), [_row([b for b in whole if b is not bug]) for bug in whole]
        self.outcomes: dict[str, dict[str, Fault | Exception | None]] = {}
        self._differs = cache(self._differs_in)
        rows = {_row(some): planted(text, some) for some in sets}
        if rows:
            kill_matrix(kata, rows, INPUTS, server, self._wanted, self.outcomes)

    def _wanted(self, row: str, check: str, clocked: bool) -> bool:
        """Whether a check may tell something new of a program; what depends on the clock is no fact."""
        hidden = self.hidden()
        return not clocked and (
            not self.shows(row, crashes=False) or row in hidden or (row == self.whole and bool(hidden))
        )

    def hidden(self) -> list[str]:
        """The programs with all bugs but one of which no check says another thing than of the one with all."""
        return [row for row in self.but_one if not self._told_apart(row)]

    def _told_apart(self, row: str) -> bool:
        both = self.outcomes[row].keys() & self.outcomes[self.whole].keys()
        return any(self._differs(row, check) for check in both)

    def fails(self, row: str) -> bool:
        """Whether a check fails this program."""
        return any(self.outcomes[row].values())

    def shows(self, row: str, crashes: bool) -> bool:
        """Whether this program gives a wrong value, or where crashes will do, raises or hangs."""
        ends = (Outcome.CRASHED, Outcome.TIMED_OUT) if crashes else ()
        return any(
            fault.failure.kind is Kind.COMPARED or fault.outcome in ends
            for fault in self.outcomes[row].values()
            if isinstance(fault, Fault)
        )

    def _differs_in(self, row: str, check: str) -> bool:
        from dojo.grading.telling.sameness import same_failure

        mine, whole = self.outcomes[row][check], self.outcomes[self.whole][check]
        if isinstance(mine, Fault) and isinstance(whole, Fault):
            return not same_failure(mine, whole)
        return (mine is None) != (whole is None)


def bugs_named(kata: Kata, names: Iterable[str]) -> list[Row]:
    """The known bugs of these names, in their order."""
    known = {bug.name: bug for bug in proofs.bugs(kata)}
    return [known[name] for name in names]


def _row(bugs: Iterable[Row]) -> str:
    return " + ".join(bug.name for bug in bugs)


def planted(text: str, bugs: Iterable[Row]) -> str:
    """A master's text with these bugs in it."""
    for bug in bugs:
        text = bug.plant(text)
    return text


def program(text: str) -> str:
    """The code of a master's text as a candidate would hand it in.

    What the stub says stays, its docstrings that is; comments, and docstrings of what is the answer's own, go: they
    tell what is right.
    """
    bodies = []
    for cell in master.split(text)[1]:
        if not cell.markdown and master.NOTEBOOK_ONLY not in cell.tags:
            bodies.append(_bare("\n".join(cell.lines).strip("\n") + "\n"))
    return re.sub(r"\n{4,}", "\n\n\n", "\n\n\n".join(filter(None, bodies))) + "\n"


def _bare(code: str) -> str:
    """A cell's code without comments and without the docstrings between the marks of a solution."""
    lines: list[str | None] = [*code.split("\n")]
    inside, answer = False, set[int]()
    for number, text in enumerate(code.split("\n"), 1):
        inside = text.strip() == master.BEGIN or (inside and text.strip() != master.END)
        answer |= {number} if inside else set()
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, master.DEFINITIONS) and ast.get_docstring(node) and node.body[0].lineno in answer:
            first, last = node.body[0].lineno - 1, node.body[0].end_lineno or node.body[0].lineno
            last += not lines[last]  # the blank line below the docstring of a class
            lines[first:last] = [None] * (last - first)
    for token in tokenize.generate_tokens(io.StringIO(code).readline):
        line = lines[token.start[0] - 1]
        if token.type == tokenize.COMMENT and line is not None:
            lines[token.start[0] - 1] = line[: token.start[1]].rstrip() or None
    # Where a bug takes out a statement, blanks are left.
    return "\n".join(each for each in lines if each is not None and (each == "" or each.strip())).strip("\n")
