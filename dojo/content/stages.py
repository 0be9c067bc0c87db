"""Stages: what a kata asks of one file one after the other, and how that file grows when one opens.

A master with stages has for each a Markdown cell tagged `stage`: a heading `## Stage 2 · 15 min`, what the interviewer
says, and a block of Python with the signatures that the stage brings or extends, bodies left out as `...`. The cell
tagged `contract` below it holds its topics, and hints below that are its hints. A stage without such a block changes no
signature. A cell tagged `signals` says by stage, in paragraphs `### Stage 2`, `Strong: …` and `Weak: …`, what an
interviewer listens for.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from dojo.content.catalog import BrokenMaster, Kata
from dojo.content.cells import NOTEBOOK_ONLY, Cell, read_text, split

TAG, SIGNALS = "stage", "signals"
HEADING = re.compile(r"## Stage (\d+) · (\d+) min\n")
BLOCK = re.compile(r"\n*^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FENCED = re.compile(r"\n*^```\w*\n(.*?)^```$", re.MULTILINE | re.DOTALL)  # such a block, or a log that is shown
EMPTY = re.compile(r"^( *)\.\.\.$", re.MULTILINE)
GRADING = f'# %% tags=["{NOTEBOOK_ONLY}"]'  # the cell of a stub that grades it in a notebook, its last
Definition = ast.FunctionDef | ast.ClassDef


@dataclass(frozen=True)
class Stage:
    """One stage: how long it may take, what is said, the signatures that it brings, and its contract."""

    number: int
    minutes: int
    prompt: str  # in Markdown, signatures and all
    signatures: str  # in Python, with bodies that raise NotImplementedError
    contract: str  # in Markdown
    hints: tuple[str, ...]  # mildest first
    strong: str  # what a strong candidate does, and a weak one
    weak: str
    cells: tuple[Cell, ...]  # of the master

    @property
    def spoken(self) -> str:
        """What the interviewer says, in one line of plain text: the quotation alone."""
        return " ".join(FENCED.sub("", self.prompt.partition("\n")[2]).replace("**", "").split())

    @property
    def names(self) -> list[str]:
        """The functions and classes that it brings or extends."""
        return [node.name for node in _definitions(self.signatures)]


def of(kata: Kata) -> tuple[Stage, ...]:
    """The stages of a kata, in their order; none of one that asks for all at once. Raises BrokenMaster."""
    return _stages(kata.master, kata.master.stat().st_mtime_ns)


@lru_cache(maxsize=256)
def _stages(path: Path, changed: int) -> tuple[Stage, ...]:
    text = read_text(path)
    return _read(path, split(text)[1]) if f'"{TAG}"' in text else ()


def _read(path: Path, cells: list[Cell]) -> tuple[Stage, ...]:
    groups: list[list[Cell]] = []
    for cell in cells:
        if TAG in cell.tags:
            groups.append([cell])
        elif groups and cell.markdown and {"contract", "hint"} & set(cell.tags):
            groups[-1].append(cell)
    signals = "\n".join(cell.prose for cell in cells if SIGNALS in cell.tags)
    found = []
    for number, (first, *rest) in enumerate(groups, 1):
        heading, block = HEADING.match(first.prose), BLOCK.search(first.prose)
        if heading is None or int(heading[1]) != number:
            raise BrokenMaster(f"{path}, line {first.start}: stage {number} opens with `## Stage {number} · M min`")
        signatures = EMPTY.sub(r"\1raise NotImplementedError", block[1]) if block else ""
        try:
            ast.parse(signatures)
        except SyntaxError as error:
            raise BrokenMaster(
                f"{path}, line {first.start}: the signatures of stage {number} are no Python: {error}"
            ) from None
        contract = "\n\n".join(cell.prose for cell in rest if "contract" in cell.tags)
        hints = tuple(cell.prose for cell in rest if "hint" in cell.tags)
        strong, weak = (_signal(signals, number, word) for word in ("Strong", "Weak"))
        cells_of = (first, *rest)
        found.append(Stage(number, int(heading[2]), first.prose, signatures, contract, hints, strong, weak, cells_of))
    return tuple(found)


def _signal(text: str, number: int, word: str) -> str:
    """The paragraph that opens with a word, below the heading of a stage."""
    part = re.search(rf"^### Stage {number}$(.*?)(?=^### |\Z)", text, re.MULTILINE | re.DOTALL)
    found = part and re.search(rf"^{word}: (.+?)(?=\n\n|\n[A-Z][a-z]+: |\Z)", part[1], re.MULTILINE | re.DOTALL)
    return " ".join(found[1].split()) if found else ""


def at_first(kata: Kata, cells: list[Cell], handed_out: list[Cell]) -> list[Cell]:
    """The cells that a stub of a kata with stages is made of: those of the first stage, and what it opens with.

    That is what is handed out, or, with the master's imports and constants, the signatures of the stage.
    """
    first, *later = of(kata)
    gone = {cell.start for stage in later for cell in stage.cells}
    kept, code = [], False
    for cell in cells:
        if cell.start in gone:
            continue
        if cell.markdown or NOTEBOOK_ONLY in cell.tags:
            kept.append(cell)
        elif handed_out:
            kept += handed_out if not code else []
            code = True
        elif not any(_definitions("\n".join(cell.lines))):
            kept.append(cell)  # imports and constants
        elif not code:
            code = True
            kept.append(Cell("# %%", first.signatures.strip("\n").split("\n"), cell.start))
    return kept


def open_in(kata: Kata, source: str) -> int:
    """How many stages are open in a file: those before the first whose signatures it lacks; the first always is."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return 1
    reached = 0
    for stage in of(kata):
        if reached and any(_lacks(tree, node) for node in _definitions(stage.signatures)):
            break
        if reached and not stage.signatures and stage.prompt.partition("\n")[0] not in source:
            break  # it changes no signature: its heading tells that it is open
        reached = stage.number
    return reached


def opened(kata: Kata, source: str, number: int) -> str:
    """A file with one more stage in it: its prompt, and its signatures where they are new or grow.

    What stands there stays as it is. A file that is no Python gets the prompt alone, and the signatures with it.
    """
    stage = of(kata)[number - 1]
    try:
        ast.parse(source)
        text, new = _grown(source, stage.signatures)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        text, new = source, ""
    added = [f"# %% [markdown]\n{_commented(stage.prompt)}\n"]
    added += [f"# %%\n{new.strip()}\n"] if new else []
    before, mark, after = text.rpartition(f"{GRADING}\n")
    if not mark or f'check("{kata.name}")' not in after:
        before, mark, after = text, "", ""
    gap = "\n\n" if new else "\n"  # a definition has two blank lines on either side
    return before.rstrip("\n") + "\n\n\n" + "\n\n".join(added) + (f"{gap}{mark}{after}" if mark else "")


def faults(kata: Kata) -> list[str]:
    """What stages lack, and signatures of theirs that the solution does not have, a sentence each."""
    tree, where = ast.parse(read_text(kata.master)), kata.say(kata.master)
    found = [
        f"{where}: stage {stage.number} asks for `{node.name}` otherwise than the solution has it: it lacks {lack}"
        for stage in of(kata)
        for node in _definitions(stage.signatures)
        if (lack := _lacks(tree, node))
    ]
    for stage in of(kata):
        parts = {"contract": stage.contract, "hint": stage.hints, "`Strong: …`": stage.strong, "`Weak: …`": stage.weak}
        found += [f"{where}: stage {stage.number} has no {what}" for what, there in parts.items() if not there]
    return found


def _definitions(source: str) -> list[Definition]:
    return [node for node in ast.parse(source).body if isinstance(node, (ast.FunctionDef, ast.ClassDef))]


def _named(body: list[ast.stmt], name: str) -> Definition | None:
    """The last definition of that name, which is the one that counts."""
    return next((n for n in body[::-1] if isinstance(n, (ast.FunctionDef, ast.ClassDef)) and n.name == name), None)


def _lacks(tree: ast.Module, wanted: Definition) -> str:
    """What of a definition a file does not have, in words; nothing where it has all."""
    own = _named(tree.body, wanted.name)
    if own is None or type(own) is not type(wanted):
        return f"`{wanted.name}`"
    if isinstance(wanted, ast.FunctionDef):
        assert isinstance(own, ast.FunctionDef)
        missing = [argument.arg for argument, _ in _missing(own, wanted)]
        return f"the argument `{missing[0]}`" if missing else ""
    for method in (each for each in wanted.body if isinstance(each, ast.FunctionDef)):
        if _inherited(tree, own, method.name):
            continue
        found = _named(own.body, method.name)
        if found is None:
            return f"`{wanted.name}.{method.name}`"
        if isinstance(found, ast.FunctionDef) and (missing := [a.arg for a, _ in _missing(found, method)]):
            return f"the argument `{missing[0]}` of `{wanted.name}.{method.name}`"
    return ""


def _inherited(tree: ast.Module, own: Definition, name: str) -> bool:
    """Whether a class has a method from another class of the file alone."""
    bases = {base.id for base in getattr(own, "bases", ()) if isinstance(base, ast.Name)}
    above = [node for node in tree.body if isinstance(node, ast.ClassDef) and node.name in bases]
    return _named(own.body, name) is None and any(_named(base.body, name) for base in above)


def _missing(own: ast.FunctionDef, wanted: ast.FunctionDef) -> Iterator[tuple[ast.arg, ast.expr | None]]:
    """The arguments, with their defaults, that a function does not take; one with `**` takes whatever it is given."""
    if own.args.kwarg:
        return
    known = {argument.arg for argument in _arguments(own)}
    several = wanted.args.args
    defaults = [None] * (len(several) - len(wanted.args.defaults)) + wanted.args.defaults
    keywords = zip(wanted.args.kwonlyargs, wanted.args.kw_defaults, strict=True)
    yield from (each for each in (*zip(several, defaults, strict=True), *keywords) if each[0].arg not in known)


def _arguments(function: ast.FunctionDef) -> list[ast.arg]:
    return [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]


def _grown(source: str, signatures: str) -> tuple[str, str]:
    """A file whose definitions take what they did not take, and the definitions that it does not have."""
    tree, edits, new = ast.parse(source), list[tuple[int, str]](), list[str]()
    starts = [0]
    for line in source.split("\n"):
        starts.append(starts[-1] + len(line) + 1)
    lines = source.split("\n")

    def place(line: int, column: int) -> int:
        return starts[line - 1] + len(lines[line - 1].encode()[:column].decode())

    def extend(own: ast.FunctionDef, wanted: ast.FunctionDef) -> None:
        missing = [_argument(argument, default) for argument, default in _missing(own, wanted)]
        if not missing:
            return
        given = own.args
        last = [each for each in (*_arguments(own), given.vararg, *given.defaults, *given.kw_defaults) if each]
        if last:
            end = max((each.end_lineno or 0, each.end_col_offset or 0) for each in last)
            edits.append((place(*end), ", " + ", ".join(missing)))
        else:
            edits.append((source.index("(", place(own.lineno, own.col_offset)) + 1, ", ".join(missing)))

    for wanted in _definitions(signatures):
        own = _named(tree.body, wanted.name)
        if own is None or type(own) is not type(wanted):
            new.append(_text(signatures, wanted))
        elif isinstance(own, ast.FunctionDef) and isinstance(wanted, ast.FunctionDef):
            extend(own, wanted)
        else:
            for method in (each for each in wanted.body if isinstance(each, ast.FunctionDef)):
                found = _named(own.body, method.name)
                if isinstance(found, ast.FunctionDef):
                    extend(found, method)
                elif not _inherited(tree, own, method.name):
                    end = own.end_lineno or own.lineno
                    edits.append((place(end, len(lines[end - 1].encode())), f"\n\n{_text(signatures, method)}"))
    for where, text in reversed(sorted(edits, key=lambda edit: edit[0])):  # at one place the first stays the first
        source = source[:where] + text + source[where:]
    return source, "\n\n\n".join(new)


def _argument(argument: ast.arg, default: ast.expr | None) -> str:
    annotated = ast.unparse(argument)
    if default is None:
        return annotated
    return f"{annotated} = {ast.unparse(default)}" if argument.annotation else f"{annotated}={ast.unparse(default)}"


def _text(source: str, node: Definition) -> str:
    first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
    return "\n".join(source.split("\n")[first - 1 : node.end_lineno])


def _commented(text: str) -> str:
    return "\n".join(f"# {line}".rstrip() for line in text.split("\n"))
