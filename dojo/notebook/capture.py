"""Captures what a kernel has defined: pickled by value, with the cells that it came from."""

from __future__ import annotations

import ast
import linecache
import os
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import cloudpickle

import dojo
from dojo import FOR_NOTEBOOKS
from dojo.content import lessons, master
from dojo.content.catalog import ROOT, Kata, Trouble
from dojo.content.lessons import Step
from dojo.judge.protocol import PickledCells

LIMIT = 16 << 20  # bytes
OURS = ("from dojo ", "import dojo", "import sys")  # what a grading cell imports


@dataclass(frozen=True)
class Capture:
    """What is graded, and its text: the imports and definitions as a file would have them."""

    pickled_cells: PickledCells
    text: str


def capture(kata: Kata, namespace: dict[str, Any], labels: dict[str, str], step: Step | None = None) -> Capture:
    """Gather what the kata, or a step of its lesson, asks for; `labels` says what to call the cells, by file name.

    Raises Trouble when nothing of it is defined, when it cannot travel, or when the script would lack a part of it.
    """
    wanted = [step.name] if step else master.names(kata)
    every = wanted if step else master.names_in_all(kata)
    found = {name: namespace[name] for name in every if name in namespace}
    if not found:
        raise Trouble(f"none of {', '.join(wanted)} is defined here yet: run the cells above, then check again")
    cells = [(name, label, "".join(linecache.getlines(name))) for name, label in labels.items()]
    bound = [] if step else master.bound(kata)
    imports, defined = master.definitions([*bound, *every], [source for *_, source in cells])
    sources = {name: source for name, (source, _) in defined.items()}
    if not step and (of_steps := lessons.taken_from_steps(kata, sources)):
        raise Trouble(
            f"your answer uses {' and '.join(f'`{name}`' for name in of_steps)} of a step, and {kata.say(kata.stub)} "
            "has the cells of the kata alone: copy it into one of these, run that, then check again"
        )
    for name in FOR_NOTEBOOKS:
        if name in defined and namespace.get(name) is getattr(dojo, name):
            raise Trouble(
                f"`from dojo import {name}` has replaced your own `{name}`: give yours another name, run its cells, "
                "then check again"
            )
    with _users_modules():
        pickled = _pickled(found)
    if len(pickled) > LIMIT:
        raise Trouble(
            f"{', '.join(found)} and what they refer to are {len(pickled) >> 20} MiB; {LIMIT >> 20} may travel: "
            "do they use a large tensor of the notebook?"
        )
    parts = dict.fromkeys(_segment(source, node) for source, node in defined.values())
    lines = [line for line in imports if not line.startswith(OURS)]
    text = "\n".join(lines) + "\n\n\n" + "\n\n\n".join(parts) + "\n"
    return Capture(PickledCells(pickled, tuple(cells)), text)


def _pickled(found: dict[str, Any]) -> bytes:
    try:
        return cloudpickle.dumps(found)
    except Exception:
        for name, value in found.items():  # which of them is it?
            try:
                cloudpickle.dumps(value)
            except Exception as error:
                raise Trouble(f"{name} cannot be sent to the judge ({type(error).__name__}: {error})") from None
        raise


@contextmanager
def _users_modules() -> Iterator[None]:
    """Here, what comes from a module of the user's own travels by value too."""
    paths = sysconfig.get_paths()
    libraries = (*(paths[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")), str(ROOT))
    known = cloudpickle.list_registry_pickle_by_value()
    files = {name: getattr(module, "__file__", None) or "" for name, module in list(sys.modules.items())}
    own = [
        sys.modules[name]
        for name, file in files.items()
        if os.path.isabs(file) and not file.startswith(libraries) and name not in known and name != "__main__"
    ]
    for module in own:
        cloudpickle.register_pickle_by_value(module)
    try:
        yield
    finally:
        for module in own:
            cloudpickle.unregister_pickle_by_value(module)


def _segment(source: str, node: ast.stmt) -> str:
    first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", []))])
    return "\n".join(source.splitlines()[first - 1 : node.end_lineno])
