"""The explained solution of a kata as a notebook, its figures drawn."""

from __future__ import annotations

import sys
from subprocess import DEVNULL
from typing import TYPE_CHECKING

from dojo.content import build, files, master
from dojo.content.catalog import Kata

if TYPE_CHECKING:
    from nbformat import NotebookNode

CELL_LIMIT = 120  # seconds for one cell, on a busy machine


def write(kata: Kata) -> str:
    """Write `lessons/NAME.ipynb`, and keep what the user made of an earlier one. Returns the sentence that says where.

    Figures need matplotlib and a kernel, which the environment has once JupyterLab was started; without them the cells
    come as they are.
    """
    text = master.lesson_text(kata)
    node = build.notebook(text)
    node.metadata["jupytext"] = {"formats": "ipynb"}  # no script beside it, and none that the master could pair with
    figures = "matplotlib" in text
    missing = _run(node, kata) if figures else ""
    path, content = kata.root / "lessons" / f"{kata.name}.ipynb", build.notebook_text(node)
    written = files.read_state(kata.home / "lessons.json").get(kata.name)
    kept = ""
    if path.exists() and files.digest(path.read_bytes()) not in (written, files.digest(content)):
        kept = f" (before: {kata.say(files.keep(kata.home / 'kept', path, path.read_bytes()))})"
    files.write_atomic(path, content)
    files.update_state(kata.home / "lessons.json", kata.name, files.digest(content))
    what = " with its figures" if figures and not missing else ""
    later = f" Its figures are drawn when you run it there: {missing}." if missing else ""
    return f"{kata.say(path)} is the explained solution{what}{kept}. `nox -s lab` opens JupyterLab.{later}"


def _run(node: NotebookNode, kata: Kata) -> str:
    """Run the cells, whose outputs then are in the notebook; returns why that could not be, or nothing."""
    try:
        import matplotlib  # noqa: F401
        from nbclient import NotebookClient
    except ModuleNotFoundError as error:
        return f"there is no {error.name} here"
    print(f"drawing the figures of {kata.name}, which takes some seconds …", file=sys.stderr, flush=True)
    try:
        folder = {"metadata": {"path": str(kata.root)}}
        client = NotebookClient(node, timeout=CELL_LIMIT, record_timing=False, resources=folder)
        client.execute(stderr=DEVNULL)  # a kernel warns of its own connections
    except Exception as error:  # no kernel, a dead one, a cell that fails: without pictures it is a lesson still
        for cell in node.cells:
            if cell.cell_type == "code":
                cell.outputs, cell.execution_count = [], None
        return f"they could not be drawn now ({(str(error).strip().splitlines() or [type(error).__name__])[-1]})"
    return ""
