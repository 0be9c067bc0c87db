"""What a notebook calls: `check`, `figure`, `hint`, `reveal`, `history` and `next_kata`.

In a plain terminal they print text.
"""

from __future__ import annotations

import base64
import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from dojo.content import catalog, lessons, master
from dojo.content.catalog import ROOT, Trouble
from dojo.practice import progress
from dojo.practice.history import listing, overview, proposals
from dojo.verdict.screen.terminal import Screen

PATIENCE = 10.0  # seconds that an interrupted grading has to clean up


def check(name: str, seed: int | None = None, step: int = 0) -> None:
    """Grade what is defined right now as the kata of this name, or as a step of its lesson, and show the verdict.

    The judge is a process of its own, and so is the worker that runs what was sent. `seed` repeats a verdict's inputs.
    """
    shown = _Shown()
    try:
        kata = catalog.one(name)
        from dojo.notebook.capture import capture  # cloudpickle, which the other calls do not need

        part = lessons.step(kata, step) if step else None
        given = capture(kata, _namespace(), _cells(), part)
    except Trouble as trouble:
        shown.end(f"dojo: {trouble}")
        return
    if not part and master.is_untouched(kata, given.text):
        shown.end(f"{kata.name}: not started. Write your answer in the cells above, run them, then check({name!r})")
        return
    if part and lessons.is_untouched(part, given.text):
        shown.end(f"{kata.name} step {step}: not started. Write `{part.name}` in this cell, then run it")
        return
    shown.begin(f"grading {kata.name}{f' step {step}' if step else ''} …")
    request = {
        "kata": kata.name,
        "step": step,
        "seed": seed,
        "text": given.text,
        "pickled": base64.b64encode(given.pickled_cells.pickled).decode(),
        "cells": given.pickled_cells.cells,
    }
    process = subprocess.Popen(
        [sys.executable, "-m", "dojo.notebook.grade_process"],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,  # an interrupt goes to the kernel's whole group, and would reach it twice
    )
    try:
        answer, trace = process.communicate(json.dumps(request).encode())
    except KeyboardInterrupt:
        _stop(process)
        shown.end(f"{kata.name}: interrupted, and not judged")
        raise
    if process.returncode:
        last = trace.decode(errors="replace").strip().splitlines()[-15:]
        shown.end("\n".join(["dojo: the judge failed, which is our fault and not yours; please report this:", *last]))
        return
    message = json.loads(answer)
    shown.end(message["text"], message["html"])


def figure(name: str) -> None:
    """Show the figure of a kata's lesson."""
    shown = _Shown()
    try:
        kata = catalog.one(name)
        found = lessons.figure(kata) or {"text/plain": f"{kata.name} has no lesson, and so no figure"}
    except Trouble as trouble:
        found = {"text/plain": f"dojo: {trouble}"}
    shown.end(found["text/plain"], found.get("text/html"))


def hint(name: str, again: bool = False) -> None:
    """Show one more hint; `again` starts over with the first."""
    _say(lambda: progress.next_hint(catalog.one(name), again))


def reveal(name: str, spoil: bool = False) -> None:
    """Show the explained solution to those who have passed, or who insist with `spoil=True`."""
    _say(lambda: progress.revealed(catalog.one(name), spoil))


def history(name: str | None = None) -> None:
    """List the attempts at a kata, or say how all of them stand."""
    _say(lambda: f"```text\n{listing(catalog.one(name)) if name else overview()}\n```")


def next_kata(count: int = 3) -> None:
    """Say what to practise now."""
    _say(lambda: f"```text\n{proposals(count)}\n```")


class _Shown:
    """One place on the page, or lines on a terminal."""

    def __init__(self) -> None:
        self.handle = None

    def begin(self, text: str) -> None:
        if _in_notebook():
            from IPython.display import display

            self.handle = display(_Piece(text), display_id=True)
        else:
            print(text, flush=True)

    def end(self, text: str, html: str | None = None) -> None:
        if self.handle is not None:
            self.handle.update(_Piece(text, html))
        elif _in_notebook():
            from IPython.display import display

            display(_Piece(text, html))
        else:
            print(text, flush=True)


class _Piece:
    """Text, and the same as HTML for a page that can show it."""

    def __init__(self, text: str, html: str | None = None) -> None:
        self.text, self.html = text, html

    def __repr__(self) -> str:
        return self.text

    def _repr_html_(self) -> str | None:
        return self.html


def _say(text: Any) -> None:
    """Show Markdown; a trouble in getting it is told in a sentence."""
    try:
        message = text()
    except Trouble as trouble:
        message = f"dojo: {trouble}"
    if _in_notebook():
        from IPython.display import display

        display({"text/markdown": message, "text/plain": message}, raw=True)
    else:
        Screen(sys.stdout).markdown(message.removeprefix("```text\n").removesuffix("\n```"))


def _stop(process: subprocess.Popen) -> None:
    """Interrupt the grading, which then ends its workers; a second interrupt of ours in between changes nothing."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        process.send_signal(signal.SIGINT)
        process.wait(PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    finally:
        signal.signal(signal.SIGINT, before)
        for pipe in filter(None, (process.stdin, process.stdout, process.stderr)):
            pipe.close()


def _shell() -> Any:
    """IPython's shell, if that is where we are."""
    module = sys.modules.get("IPython")
    return module.get_ipython() if module else None


def _in_notebook() -> bool:
    return getattr(_shell(), "kernel", None) is not None


def _namespace() -> dict[str, Any]:
    shell = _shell()
    return shell.user_ns if shell else vars(sys.modules["__main__"])


def _cells() -> dict[str, str]:
    """What each cell that was run, or the script that runs, is called, by the file name that its code has."""
    if (shell := _shell()) is None:
        script = getattr(sys.modules["__main__"], "__file__", None)
        return {script: Path(script).name} if script else {}
    numbers = getattr(shell.compile, "_filename_map", {})
    return {name: f"cell [{number}]" for name, number in numbers.items()}
