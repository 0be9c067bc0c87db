"""From a master to what the user gets: the stub, its notebook, the hints and the explanation.

Whether someone has worked in a stub must be known in any clone, so each notebook carries fingerprints of the stub and
of the cells that build wrote. Files that no longer match them are the user's, and build leaves them alone.
"""

from __future__ import annotations

import ast
import json
import re
import textwrap
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dojo import store
from dojo.catalog import ROOT, BrokenMaster, Kata, katas

if TYPE_CHECKING:
    from pathlib import Path

    from nbformat import NotebookNode

BEGIN, END = "### BEGIN SOLUTION", "### END SOLUTION"
NOTEBOOK_ONLY = "active-ipynb"  # Jupytext's tag
DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
HEADER = """\
# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---"""  # of a script whose own is lost


@dataclass
class Cell:
    """One cell of a percent script: its `# %%` line, its lines, and where it stands in the file."""

    marker: str
    lines: list[str]
    start: int

    @property
    def markdown(self) -> bool:
        return "[markdown]" in self.marker

    @property
    def tags(self) -> list[str]:
        found = re.search(r"tags=(\[[^]]*\])", self.marker)
        return json.loads(found[1]) if found else []

    @property
    def prose(self) -> str:
        """A markdown cell's text without its comment signs."""
        return "\n".join(re.sub(r"^# ?", "", line) for line in self.lines).strip()


def stub_text(kata: Kata) -> str:
    """The master without hints, solution cells and solution bodies. Needs no jupytext, for every grading asks it."""
    text = read_text(kata.master)
    header, cells = split(text)
    scopes = _scopes(kata, text)
    kept = []
    for cell in cells:
        if {"hint", "solution"} & set(cell.tags):
            continue
        lines = cell.lines if cell.markdown else _without_solution(kata, cell, scopes)
        if cell.markdown and not kept:
            lines = [*"\n".join(lines).rstrip().split("\n"), *_origins(kata)]
        if any(line.strip() for line in lines):
            kept.append((cell, "\n".join(lines).strip("\n")))
    kept.append(_grading(kata))
    stub = _script(header, kept)
    try:
        ast.parse(stub)
    except SyntaxError as error:
        raise BrokenMaster(f"{kata.master}: its stub would not be Python: {error}") from None
    return stub


def lesson_text(kata: Kata) -> str:
    """The master as a lesson: statement, answer, explanation and figures, without hints and markers."""
    header, cells = split(read_text(kata.master))
    kept = []
    for cell in cells:
        if "hint" not in cell.tags:
            lines = [line for line in cell.lines if line.strip() not in (BEGIN, END)]
            lines = [*lines, *_origins(kata)] if cell.markdown and not kept else lines
            kept.append((cell, "\n".join(lines).strip("\n")))
    return _script(header, kept)


def notebook(stub: str) -> NotebookNode:
    """A script as a notebook without outputs; the same script gives the same bytes."""
    import jupytext

    node = jupytext.reads(stub, fmt="py:percent")
    node.nbformat, node.nbformat_minor = 4, 5
    for index, cell in enumerate(node.cells):
        cell.id = f"{index:02d}-{store.digest(cell.source)[:8]}"
    node.metadata.pop("jupytext", None)
    node.metadata["language_info"] = {"name": "python"}
    node.metadata["dojo"] = {"stub": _stub_mark(stub), "cells": _cells_mark(node)}
    return node


def notebook_text(node: NotebookNode) -> str:
    """A notebook as it is written to disk."""
    import nbformat

    return nbformat.writes(node).rstrip("\n") + "\n"


def hints(kata: Kata) -> list[str]:
    """The hints in Markdown, mildest first."""
    return [cell.prose for cell in split(read_text(kata.master))[1] if cell.markdown and "hint" in cell.tags]


def explanation(kata: Kata) -> str:
    """What the master says about its answer, in Markdown."""
    cells = split(read_text(kata.master))[1]
    return "\n\n".join(cell.prose for cell in cells if cell.markdown and "solution" in cell.tags)


def statement(kata: Kata) -> str:
    """What the kata asks for, in Markdown."""
    cells = split(stub_text(kata))[1]
    return next((cell.prose for cell in cells if cell.markdown), "")


def questions(kata: Kata) -> str:
    """What an interviewer asks next, with points of good answers, in Markdown."""
    cells = split(read_text(kata.master))[1]
    return "\n\n".join(cell.prose for cell in cells if cell.markdown and "questions" in cell.tags)


def solution_code(master: str) -> str:
    """The code of a master's text alone, as one would write it: no prose, no markers."""
    bodies = []
    for cell in split(master)[1]:
        if not cell.markdown and NOTEBOOK_ONLY not in cell.tags:
            bodies.append("\n".join(line for line in cell.lines if line.strip() not in (BEGIN, END)).strip("\n"))
    return "\n\n\n".join(filter(None, bodies)) + "\n"


def is_untouched(kata: Kata, text: str) -> bool:
    """Whether a text defines what the stub does: comments, blank lines and imports alone do not count as work."""
    stub = stub_text(kata)
    if text == stub:
        return True
    try:
        return _without_imports(text) == _without_imports(stub)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False


def names(kata: Kata) -> list[str]:
    """The functions and classes that the kata asks for."""
    return [node.name for node in ast.parse(stub_text(kata)).body if isinstance(node, DEFINITIONS)]


def _without_imports(text: str) -> list[str]:
    return [ast.dump(node) for node in ast.parse(text).body if not isinstance(node, (ast.Import, ast.ImportFrom))]


def build(check: bool = False, root: Path = ROOT) -> tuple[bool, list[str]]:
    """Bring stubs and notebooks up to date with their masters, or with `check` only say which are not.

    Returns whether all is up to date, and the sentences for the user.
    """
    clean, said = True, []
    for kata in katas(root).values():
        stub = stub_text(kata)
        node = notebook(stub)
        if not _is_ours(kata, node):
            said.append(
                f"{kata.say(kata.stub)} or its notebook has been worked in: left as it is. "
                f"`nox -s reset -- {kata.name}` makes both afresh and keeps a copy."
            )
            continue
        stale = [kata.say(path) for path in _stale(kata, node)]
        if not stale:
            continue
        if check:
            clean = False
            said.append(f"{' and '.join(stale)}: not what {kata.say(kata.master)} gives. Run `nox -s build`.")
        else:
            write_fresh(kata, stub, node)
            said.append(f"wrote {' and '.join(stale)}")
    return clean, said


def write_fresh(kata: Kata, stub: str | None = None, node: NotebookNode | None = None) -> None:
    """Write the stub and its notebook, whatever was there."""
    stub = stub or stub_text(kata)
    store.write_atomic(kata.stub, stub)
    store.write_atomic(kata.notebook, notebook_text(node or notebook(stub)))


def as_built(kata: Kata) -> tuple[bool, bool]:
    """Whether the stub, and whether the notebook's cells, are word for word as the same build wrote them."""
    found = _read_notebook(kata)
    marks = _marks(found or {})
    stub_mark = marks.get("stub") or _stub_mark(stub_text(kata))
    script = kata.stub.exists() and _script_mark(kata) == stub_mark
    return script, found is not None and _cells_mark(found) == marks.get("cells")


def read_text(path: Path) -> str:
    """A script's text with plain newlines and no byte order mark, whatever the editor made of them."""
    return path.read_bytes().decode("utf-8-sig").replace("\r\n", "\n")


def split(text: str) -> tuple[str, list[Cell]]:
    """A percent script's YAML header and its cells."""
    lines = text.split("\n")
    fences = [n for n, line in enumerate(lines[:200]) if line.rstrip() == "# ---"]
    start = fences[1] + 1 if len(fences) > 1 and fences[0] == 0 else 0
    cells: list[Cell] = []
    for number, line in enumerate(lines[start:], start):
        if re.match(r"# ?%%(?!\w)", line):
            cells.append(Cell(line.rstrip(), [], number + 1))
        elif cells:
            cells[-1].lines.append(line)
        elif line.strip():
            cells.append(Cell("# %%", [line], number))
    return "\n".join(lines[:start]), cells


def _origins(kata: Kata) -> list[str]:
    """What the kata builds on and where it comes from, as the last lines of its statement."""
    said = f"**Builds on** {', '.join(kata.builds_on)}. " if kata.builds_on else ""
    said += f"**Sources:** {'; '.join(kata.sources)}." if kata.sources else ""
    lines = textwrap.wrap(said, 120, initial_indent="# ", subsequent_indent="# ", break_on_hyphens=False)
    return ["#", *lines] if lines else []


def _grading(kata: Kata) -> tuple[Cell, str]:
    """The cell that grades what a notebook has defined. Active there alone: in a script Jupytext makes it comments."""
    code = [
        "import sys",
        "",
        'sys.path.append("..")  # the project',
        "from dojo import check",
        "",
        f'check("{kata.name}")',
    ]
    cell = Cell(f'# %% tags=["{NOTEBOOK_ONLY}"]', [f"# {line}".rstrip() for line in code], 0)
    return cell, "\n".join(cell.lines)


def _stub_header(header: str) -> str:
    """The header without the `dojo:` block, which describes the kata and not the notebook."""
    kept, depth = [], None
    for line in header.split("\n"):
        indent = len(line) - len(line.removeprefix("#").lstrip(" "))
        if depth is not None and indent > depth:
            continue
        depth = indent if line.removeprefix("#").strip() == "dojo:" else None
        if depth is None:
            kept.append(line)
    return "\n".join(kept) + "\n\n"


def _scopes(kata: Kata, text: str) -> list[tuple[int, int, bool]]:
    """First line, last line and whether it is a function, for each def and class of the master, outermost first."""
    try:
        tree = ast.parse(text)
    except SyntaxError as error:
        raise BrokenMaster(f"{kata.master}, line {error.lineno}: {error.msg}") from None
    found = [n for n in ast.walk(tree) if isinstance(n, DEFINITIONS)]
    return sorted((n.lineno, n.end_lineno or n.lineno, not isinstance(n, ast.ClassDef)) for n in found)


def _without_solution(kata: Kata, cell: Cell, scopes: list[tuple[int, int, bool]]) -> list[str]:
    lines: list[str] = []
    opened = None
    for number, line in enumerate(cell.lines, cell.start + 1):
        word = line.strip()
        if (word == BEGIN) is (opened is not None) and word in (BEGIN, END):
            raise BrokenMaster(f"{kata.master}, line {number}: `{word}` without its partner")
        if word == BEGIN:
            opened = number
            inside = [function for first, last, function in scopes if first <= number <= last]
            # methods that only the answer needs vanish from their class, as helpers vanish from the module
            if inside and inside[-1] and line[0] == " ":
                lines.append(line.replace(BEGIN, "raise NotImplementedError"))
        elif word == END:
            opened = None
        elif opened is None:
            lines.append(line)
    if opened is not None:
        raise BrokenMaster(f"{kata.master}, line {opened}: `{BEGIN}` without its partner")
    return re.sub(r"\n{4,}", "\n\n\n", "\n".join(lines)).split("\n")


def _script(header: str, cells: list[tuple[Cell, str]]) -> str:
    """A percent script of these cells and their bodies."""
    parts = [_stub_header(header)]
    for (cell, body), (following, next_body) in zip(cells, [*cells[1:], (None, "")], strict=True):
        blank = _blank_lines(cell, body, following, next_body)
        parts.append(f"{cell.marker}\n{body}\n" + "\n" * blank)
    return "".join(parts)


def _blank_lines(cell: Cell, body: str, following: Cell | None, next_body: str) -> int:
    """Blank lines after a cell as PEP 8, and so ruff, wants them when cells between have gone."""
    if following is None:
        return 0
    after_definition = not cell.markdown and body.rsplit("\n", 1)[-1].startswith(" ")
    definition_next = not following.markdown and re.match(r"(async def|def|class|@)", next_body)
    return 2 if after_definition or (not cell.markdown and definition_next) else 1


def _is_ours(kata: Kata, wanted: NotebookNode) -> bool:
    """Whether build may overwrite stub and notebook: nobody has put work into either. In doubt, no."""
    found = _read_notebook(kata)
    if found is None:
        notebook_ours = not kata.notebook.exists()
    else:
        run = any(cell.get("outputs") for cell in found["cells"])
        notebook_ours = not run and _cells_mark(found) in (_marks(found).get("cells"), _marks(wanted)["cells"])
    marks = (_marks(found or {}).get("stub"), _marks(wanted)["stub"])
    return notebook_ours and (not kata.stub.exists() or _script_mark(kata) in marks)


def _stale(kata: Kata, wanted: NotebookNode) -> list[Path]:
    marks, stale = _marks(wanted), []
    if not kata.stub.exists() or _script_mark(kata) != marks["stub"]:
        stale.append(kata.stub)
    found = _read_notebook(kata)
    if found is None or _marks(found) != marks or _cells_mark(found) != marks["cells"]:
        stale.append(kata.notebook)
    return stale


def _read_notebook(kata: Kata) -> dict | None:
    try:
        found = json.loads(kata.notebook.read_bytes())
        _cells_mark(found)  # whatever cannot be fingerprinted is no notebook
        _marks(found)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return found


def _marks(node: dict) -> dict:
    marks = (node.get("metadata") or {}).get("dojo")
    return dict(marks) if isinstance(marks, dict) else {}


def _script_mark(kata: Kata) -> str:
    try:
        return _stub_mark(read_text(kata.stub))
    except UnicodeDecodeError:
        return "nothing that build writes"


def _stub_mark(stub: str) -> str:
    """The fingerprint of a script without its header, in which Jupytext notes its own version as it likes."""
    cells = [[cell.marker, "\n".join(cell.lines).strip()] for cell in split(stub)[1]]
    return store.digest(json.dumps(cells))[:16]


def _cells_mark(node: dict) -> str:
    """The fingerprint of what stands in a notebook's cells; what running them gave does not count."""
    cells = []
    for cell in node["cells"]:
        source = cell.get("source", "")
        source = "".join(source) if isinstance(source, list) else source
        cells.append([cell.get("cell_type"), source.replace("\r\n", "\n")])
    return store.digest(json.dumps(cells))[:16]
