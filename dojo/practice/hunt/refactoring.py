"""Right programs that an honest refactoring makes of a solution: what an assistant's patch and a review are made of.

A refactoring is a row of `right.txt`, which is proven right where the kata's grader is, and small edits that cannot
change what a program does: a variable gets another name, a result gets one before it is returned.
"""

from __future__ import annotations

import ast
import random
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from difflib import SequenceMatcher

from dojo.content import catalog, master, proofs, stages
from dojo.content.catalog import Kata
from dojo.content.rows import Row, read
from dojo.practice.hunt import planting, with_test
from dojo.practice.hunt.traces import traces

SHORTEST, LONGEST = 60, 120  # lines of a change that is reviewed
CONTEXT = 3  # lines around what changed
BUGS = 2  # in an assistant's patch, where there are any
ROOM = 4  # bugs that find room in a program before any of them is judged: some will not show
RENAMED = {  # variables of solutions, and what somebody else would call them
    "acc": "acc_dtype",
    "wide": "upcast",
    "heads": "per_head",
    "merged": "joined",
    "hidden": "hidden_states",
    "angles": "phases",
    "frequency": "freq",
    "rotated": "turned",
    "scores": "raw_scores",
    "weights": "w",
    "probs": "probabilities",
    "log_p": "log_probs",
    "losses": "loss_terms",
    "scale": "scale_factor",
    "mean": "mu",
    "std": "sigma",
    "mean_square": "mean_of_squares",
    "normed": "normalized",
    "grad": "gradient",
    "total": "summed",
    "position": "pos",
    "table": "lookup",
    "new": "updated",
    "count": "num",
    "result": "output",
    "out": "output",
}
RESULTS = ("out", "result", "output")
APART = re.compile(r"^ *(?:(?:def|class|import|from)\b|@)", re.MULTILINE)  # blank lines stand beside it
Line = tuple[int | None, str, str]  # its number, its sign, its text
Changes = Callable[[Kata, random.Random], Iterator[object]]  # what can be made of a kata, in an order of chance


def assistants_katas() -> list[Kata]:
    """The katas whose solution an assistant can patch: where a test is always asked for, or in stages, none can."""
    return [*_changeable(refactored, catalog.katas().values(), 0)]


def reviewed_katas() -> list[Kata]:
    """The katas of which a change can be reviewed: those where one is as long as a pull request."""
    return [*_changeable(pull_requests, catalog.katas().values(), 0)]


def by_chance(changes: Changes, seed: int) -> Kata:
    """A kata that has such a change, which the seed draws."""
    katas = [*catalog.katas().values()]
    return next(_changeable(changes, random.Random(seed).sample(katas, len(katas)), seed))


def _changeable(changes: Changes, katas: Iterable[Kata], seed: int) -> Iterator[Kata]:
    return (kata for kata in katas if next(changes(kata, random.Random(seed)), None))


def refactored(kata: Kata, rng: random.Random) -> Iterator[str]:
    """The solution's text, refactored, in an order of chance: one that has room for bugs after the other."""
    if not is_plain(kata):
        return
    for text in _in_other_words(kata, rng):
        edited = text
        for edit in rng.sample(EDITS, len(EDITS)):
            edited = edit(edited, rng) or edited
        if has_room(kata, edited):
            yield edited
    text, edits = master.read_text(kata.master), 0
    for edit in EDITS:
        other = edit(text, rng)
        text, edits = other or text, edits + bool(other)
    if edits == len(EDITS) and has_room(kata, text):
        yield text


def pull_requests(kata: Kata, rng: random.Random) -> Iterator[tuple[str, str]]:
    """What stood there, which may be nothing, and the text of a right program: changes as long as a pull request."""
    if not is_plain(kata):
        return
    solution = master.read_text(kata.master)
    earlier = ["", *map(planting.program, _whole_answers(kata))]
    programs = {text: planting.program(text) for text in (solution, *_in_other_words(kata, rng))}
    found = [
        (before, text)
        for text, program in programs.items()
        for before in earlier
        if SHORTEST <= len(change(before, program)) <= LONGEST
    ]
    yield from ((before, text) for before, text in rng.sample(found, len(found)) if has_room(kata, text))


def is_plain(kata: Kata) -> bool:
    """Whether its solution is a program and no more: no test beside it, and one stage."""
    return not with_test.asks(kata) and not stages.of(kata)


def has_room(kata: Kata, text: str) -> bool:
    """Whether so many bugs can be planted together that two of them will show."""
    usable = (bug for bug in proofs.bugs(kata) if not planting.gives_itself_away(kata, bug, text))
    return len(planting.together(kata, usable, ROOM, text)) == ROOM


def _in_other_words(kata: Kata, rng: random.Random) -> list[str]:
    """The solution with one of its right rows, in an order of chance; none that leaves code behind."""
    solution = master.read_text(kata.master)
    rows = read(kata.proofs / "right.txt")
    texts = [row.plant(solution) for row in rng.sample(rows, len(rows)) if not _wants_blanks(row)]
    return [text for text in texts if not traces(text) - traces(solution) and not planting.too_wide(text, solution)]


def _wants_blanks(row: Row) -> bool:
    """Whether the formatter would put blank lines into what an edit gives."""
    return any("\n" in new and APART.search(new) for _, new in row.edits)


def _whole_answers(kata: Kata) -> list[str]:
    """The right answers that are files of their own."""
    rows = {row.name.replace(" ", "_") for row in read(kata.proofs / "right.txt")}
    return [text for style, text in proofs.right_attempts(kata).items() if style not in rows]


def renamed(text: str, rng: random.Random) -> str | None:
    """The text with another name for a variable of one function, everywhere in it; None where nothing has one."""
    places = []
    for function in _functions(text):
        nodes = [*ast.walk(function)]
        taken = {node.arg for node in nodes if isinstance(node, ast.arg)}
        taken |= {name for node in nodes if isinstance(node, ast.Global | ast.Nonlocal) for name in node.names}
        for formatted in (node for node in nodes if isinstance(node, ast.JoinedStr)):
            taken |= {node.id for node in ast.walk(formatted) if isinstance(node, ast.Name)}
        names = [node for node in nodes if isinstance(node, ast.Name)]
        stored = {node.id for node in names if isinstance(node.ctx, ast.Store)}
        for old in sorted(stored & RENAMED.keys() - taken):
            if not re.search(rf"\b{RENAMED[old]}\b", text):
                places.append((old, [node for node in names if node.id == old]))
    lines = text.split("\n")
    whole = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.stmt) and _is_broken(node)]
    broken = {number for node in whole for number in range(node.lineno, (node.end_lineno or 0) + 1)}
    for old, named in rng.sample(places, len(places)):
        if any(node.lineno in broken for node in named):
            continue  # the formatter might break its lines elsewhere
        changed = [*lines]
        for node in sorted(named, key=lambda node: (node.lineno, -node.col_offset)):
            line = changed[node.lineno - 1]
            start = len(line.encode()[: node.col_offset].decode())
            changed[node.lineno - 1] = line[:start] + RENAMED[old] + line[start + len(old) :]
        edited = "\n".join(changed)
        if not planting.too_wide(edited, text):
            return edited
    return None


def named_result(text: str, rng: random.Random) -> str | None:
    """The text with a name for what one function returns; None where no function returns an expression."""
    places = []
    for function in _functions(text):
        taken = {node.id for node in ast.walk(function) if isinstance(node, ast.Name)}
        taken |= {node.arg for node in ast.walk(function) if isinstance(node, ast.arg)}
        last = function.body[-1]
        free = [name for name in RESULTS if name not in taken]
        plain = isinstance(last, ast.Return) and isinstance(last.value, ast.BinOp | ast.Call)
        if free and plain and last.lineno == last.end_lineno and len(function.body) > 1:
            places.append((last, free[0]))
    if not places:
        return None
    last, name = rng.choice(places)
    lines = text.split("\n")
    line = lines[last.lineno - 1]
    margin = line[: len(line) - len(line.lstrip())]
    lines[last.lineno - 1 : last.lineno] = [line.replace("return ", f"{name} = ", 1), f"{margin}return {name}"]
    edited = "\n".join(lines)
    return None if planting.too_wide(edited, text) else edited


EDITS = (renamed, named_result)


def _functions(text: str) -> list[ast.FunctionDef]:
    return [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef)]


def _is_broken(node: ast.stmt) -> bool:
    """Whether a statement without a body stands on several lines."""
    return not hasattr(node, "body") and node.lineno != node.end_lineno


def change(before: str, after: str, context: int = CONTEXT, old: bool = False) -> list[Line]:
    """What changed between two programs, with lines of context; numbers are those of the new one, or of the `old`."""
    lines: list[Line] = []
    ours, theirs = before.splitlines(), after.splitlines()
    groups: Sequence = [*SequenceMatcher(None, ours, theirs, autojunk=False).get_grouped_opcodes(context)]
    for group in groups:
        lines += [(None, " ", "…")] if lines and context else []
        for word, first, last, start, end in group:
            if word == "equal":
                shift = first - start if old else 0
                lines += [(n + shift + 1, " ", theirs[n]) for n in range(start, end)]
                continue
            lines += [(n + 1 if old else None, "-", ours[n]) for n in range(first, last)]
            lines += [(None if old else n + 1, "+", theirs[n]) for n in range(start, end)]
    return lines
