"""Builds stubs and notebooks from the masters.

Whether someone has worked in a stub must be known in any clone, so each notebook carries fingerprints of the stub and
of the cells that build wrote. Files that no longer match them are the user's, and build leaves them alone.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from dojo.content import files, lessons
from dojo.content.catalog import ROOT, Kata, katas, typed
from dojo.content.master import read_text, split, stub_text

if TYPE_CHECKING:
    from pathlib import Path

    from nbformat import NotebookNode


def notebook(stub: str) -> NotebookNode:
    """A script as a notebook without outputs; the same script gives the same bytes."""
    import jupytext

    node = jupytext.reads(stub, fmt="py:percent")
    node.nbformat, node.nbformat_minor = 4, 5
    for index, cell in enumerate(node.cells):
        cell.id = f"{index:02d}-{files.digest(cell.source)[:8]}"
    node.metadata.setdefault("kernelspec", {"display_name": "Python 3", "language": "python", "name": "python3"})
    if not split(stub)[0]:
        node.metadata["jupytext"] = {"notebook_metadata_filter": "-all"}  # Jupyter must not give the script a header
    else:
        node.metadata.pop("jupytext", None)
    node.metadata["language_info"] = {"name": "python"}
    node.metadata["dojo"] = {"stub": _stub_mark(stub), "cells": _cells_mark(node)}
    return node


def fresh_notebook(kata: Kata, stub: str | None = None) -> NotebookNode:
    """The notebook of a kata as build writes it: the script's cells, and between them the lesson, its figure drawn."""
    node = notebook(stub or stub_text(kata))
    lesson = lessons.notebook_cells(kata)
    for index, (place, cell) in reversed([*enumerate(lesson)]):
        cell.id = f"lesson-{index:02d}-{files.digest(cell.source)[:8]}"
        node.cells.insert(place, cell)
    if lesson:
        node.metadata["dojo"] |= {"cells": _cells_mark(node), "outputs": _outputs_mark(node)}
    return node


def notebook_text(node: NotebookNode) -> str:
    """A notebook as it is written to disk."""
    import nbformat

    return nbformat.writes(node).rstrip("\n") + "\n"


class NoNotebook(Exception):
    """A file that is no notebook, or a broken one: the words say why, after "it"."""


def loads(content: bytes) -> NotebookNode:
    """What a notebook of any format holds, in today's; only its cells need be whole. Raises NoNotebook."""
    import nbformat

    try:
        text = content.decode("utf-8-sig")
        if not text.strip():
            raise NoNotebook("is empty")
        if line := conflict_line(text):
            raise NoNotebook(f"has Git's conflict markers (line {line})")
        found = json.loads(text)
        if not isinstance(found, dict) or not found.keys() & {"cells", "worksheets"}:
            raise NoNotebook("is JSON without cells")
        node: NotebookNode = nbformat.reads(text, as_version=4)  # only logs what the schema minds
        _cells_mark(node)
    except UnicodeDecodeError as error:
        raise NoNotebook(f"is not UTF-8 text (byte {error.start})") from None
    except json.JSONDecodeError as error:
        raise NoNotebook(f"is no JSON ({error})") from None
    except NoNotebook:
        raise
    except Exception as error:  # nbformat raises a dozen kinds over broken files, and all mean the same here
        reason = str(error).split("\n")[0]
        raise NoNotebook(f"is JSON, but no notebook that nbformat can read ({reason})") from None
    return node


def conflict_line(text: str) -> int:
    """The line where Git's first conflict marker stands; 0 where there is none."""
    found = re.search(r"^\s*<<<<<<< ", text, re.MULTILINE)
    return text.count("\n", 0, found.end()) + 1 if found else 0


def build(check: bool = False, root: Path = ROOT) -> tuple[bool, list[str]]:
    """Bring stubs and notebooks up to date with their masters, or with `check` only say which are not.

    Returns whether all is up to date, and the sentences for the user.
    """
    clean, messages = True, []
    for kata in katas(root).values():
        stub = stub_text(kata)
        node = fresh_notebook(kata, stub)
        if not is_ours(kata, node):
            messages.append(
                f"{_why_not_ours(kata)}: left as it is. "
                f"`{typed(f'reset {kata.name}')}` makes both afresh and keeps a copy."
            )
            continue
        stale = [kata.say(path) for path in stale_files(kata, node)]
        if not stale:
            continue
        if check:
            clean = False
            messages.append(f"{' and '.join(stale)}: not what {kata.say(kata.master)} gives. Run `{typed('build')}`.")
        else:
            write_fresh(kata, stub, node)
            messages.append(f"wrote {' and '.join(stale)}")
    return clean, messages


def write_fresh(kata: Kata, stub: str | None = None, node: NotebookNode | None = None) -> None:
    """Write the stub and its notebook, whatever was there."""
    stub = stub or stub_text(kata)
    files.write_atomic(kata.stub, stub)
    files.write_atomic(kata.notebook, notebook_text(node or fresh_notebook(kata, stub)))


def as_built(kata: Kata) -> tuple[bool, bool]:
    """Whether the stub, and whether the notebook's cells, are word for word as the same build wrote them."""
    found = _read_notebook(kata.notebook)
    marks = _marks(found or {})
    stub_mark = marks.get("stub") or _stub_mark(stub_text(kata))
    script = kata.stub.exists() and _script_mark(kata) == stub_mark
    return script, found is not None and _cells_mark(found) == marks.get("cells")


def is_ours(kata: Kata, wanted: NotebookNode | None = None) -> bool:
    """Whether build may overwrite stub and notebook: nobody has put work into either. In doubt, no."""
    if files.fault(kata.stub) or files.fault(kata.notebook):
        return False
    wanted = wanted or fresh_notebook(kata)
    found = _read_notebook(kata.notebook)
    marks = (_marks(found or {}).get("stub"), _marks(wanted)["stub"])
    return is_fresh_notebook(kata.notebook, wanted) and (not kata.stub.exists() or _script_mark(kata) in marks)


def _why_not_ours(kata: Kata) -> str:
    """What build does not touch: the user's own work, or files that nobody can read."""
    for path in (kata.stub, kata.notebook):
        if why := files.fault(path):
            return f"{kata.say(path)} {why}"
    if kata.notebook.exists():
        try:
            loads(kata.notebook.read_bytes())
        except NoNotebook as error:
            return f"{kata.say(kata.notebook)} is no notebook: it {error}"
    return f"{kata.say(kata.stub)} or its notebook has been worked in"


def is_fresh_notebook(path: Path, wanted: NotebookNode | None = None) -> bool:
    """Whether nobody has put work into a notebook: it has the cells, and the outputs, that some build wrote."""
    found = _read_notebook(path)
    if found is None:
        return not path.exists()
    built, now = (_marks(found), _marks(wanted or {})), (_cells_mark(found), _outputs_mark(found))
    return now in [(marks.get("cells"), marks.get("outputs", "")) for marks in built]


def code_cells(kata: Kata) -> list[str]:
    """The code of the kata's notebook, cell by cell; nothing of one that cannot be read."""
    found = _read_notebook(kata.notebook) or {"cells": []}
    return [_source(cell) for cell in found["cells"] if cell.get("cell_type") == "code"]


def stale_files(kata: Kata, wanted: NotebookNode | None = None) -> list[Path]:
    """Stub and notebook, where they are not what the master gives."""
    wanted = wanted or fresh_notebook(kata)
    marks, stale = _marks(wanted), []
    if not kata.stub.exists() or _script_mark(kata) != marks["stub"]:
        stale.append(kata.stub)
    found = _read_notebook(kata.notebook)
    if found is None or _marks(found) != marks or not is_fresh_notebook(kata.notebook, wanted):
        stale.append(kata.notebook)
    return stale


def _read_notebook(path: Path) -> dict | None:
    try:
        found = json.loads(path.read_bytes())
        _cells_mark(found)  # whatever cannot be fingerprinted is no notebook
        _outputs_mark(found)
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
    except (OSError, UnicodeDecodeError):
        return "nothing that build writes"


def _stub_mark(stub: str) -> str:
    """The fingerprint of a script without its header, in which Jupytext notes its own version as it likes."""
    cells = [[cell.marker, "\n".join(cell.lines).strip()] for cell in split(stub)[1]]
    return files.digest(json.dumps(cells))[:16]


def _cells_mark(node: dict) -> str:
    """The fingerprint of what stands in a notebook's cells; what running them gave does not count."""
    cells = [[cell.get("cell_type"), _source(cell).replace("\r\n", "\n")] for cell in node["cells"]]
    return files.digest(json.dumps(cells))[:16]


def _outputs_mark(node: dict) -> str:
    """The fingerprint of what stands below a notebook's cells; nothing where nothing does."""
    shown = [
        {kind: _joined(text) for kind, text in (output.get("data") or {"text": output.get("text", "")}).items()}
        for cell in node["cells"]
        for output in cell.get("outputs") or []
    ]
    return files.digest(json.dumps(shown, sort_keys=True))[:16] if shown else ""


def _source(cell: dict) -> str:
    return _joined(cell.get("source", ""))


def _joined(text: str | list[str]) -> str:
    """A text of a notebook, which on disk may be a list of its lines."""
    return "".join(text) if isinstance(text, list) else text
