"""Keeps a kata's script and its notebook the same: after each change of one side the other follows.

What both sides were when they last agreed is remembered by hash, so that an unchanged pair costs two hashes, and a
change of both sides is noticed. Nothing that a user wrote is overwritten without a copy under `.dojo/kept`.

The lesson before a kata is its notebook's alone: the script says nothing of its cells, and they stay as they are
whatever comes from the script.

Notebooks are tracked by Git, so one that nobody has opened stays as build wrote it: a grading follows notebooks with
work in them, and only `sync` and `lab`, whose user asks for notebooks, bring an edited script into a fresh one.
"""

from __future__ import annotations

from contextlib import nullcontext, suppress
from typing import TYPE_CHECKING

from dojo.content import build, files, lessons, master
from dojo.content.catalog import Kata, Trouble, typed

if TYPE_CHECKING:
    from pathlib import Path

    from nbformat import NotebookNode

COPIES = 50  # of each file, made by syncing alone


class SyncError(Trouble):
    """One side cannot be read or written; both are as they were."""


class Conflict(SyncError):
    """Both sides changed since they last agreed, and they differ; both are as they were."""


def sync(kata: Kata, source: str | None = None, opened: bool = False) -> str | None:
    """Make script and notebook agree; `source`, "script" or "notebook", says which one is right whatever changed.

    With `opened` a notebook that holds no work, or is not there, stays so. Returns a sentence for the user when a file
    was written. Raises SyncError or Conflict, and then wrote nothing.
    """
    script, book, agreed = _read(kata, kata.stub), _read(kata, kata.notebook), _agreed(kata)
    if source is None and script is not None and book is not None and not _changed(agreed, script, book):
        return None
    if opened and script is not None and book is None:
        return None
    truth = _truth(kata, script, book, source, agreed)
    if opened and truth == "script" and build.is_fresh_notebook(kata.notebook):
        return None
    message = made = None
    if truth == "script" and script is not None:
        old = None
        if book is not None:
            with suppress(SyncError) if source == "script" else nullcontext():
                old = _load(kata, book)
        node = _notebook(kata, _text(kata, script), old)
        made, fresh = "notebook", build.is_fresh_notebook(kata.notebook)
        copied = _made(agreed, book) and not build.as_built(kata)[0]
        message = _write(kata, kata.notebook, book, build.notebook_text(node), kata.stub, fresh or copied)
    elif truth == "notebook" and book is not None:
        new = script_text(_load(kata, book), script)
        fresh, emptied = build.as_built(kata)
        copied = _made(agreed, script) and not emptied
        if new.encode() != script:  # else the lesson alone has been worked in
            made = "script"
            message = _write(kata, kata.stub, script, new, kata.notebook, fresh or copied)
    record(kata, made)
    return message


def pending(kata: Kata) -> set[str]:
    """The sides, "script" and "notebook", that changed since both last agreed; quick, and never an error."""
    with suppress(SyncError):
        return _changed(_agreed(kata), _read(kata, kata.stub) or b"", _read(kata, kata.notebook) or b"")
    return set()


def record(kata: Kata, made: str | None = None) -> None:
    """Remember the two files as they are now as agreeing, and the side that was made from the other just now."""
    now = {"script": files.digest(kata.stub.read_bytes()), "notebook": files.digest(kata.notebook.read_bytes())}
    before = {"made": agreed["made"]} if (agreed := _agreed(kata)) and "made" in agreed else {}
    files.update_state(_state(kata), kata.name, now | ({"made": now[made]} if made else before))


def _truth(kata: Kata, script: bytes | None, book: bytes | None, source: str | None, agreed: dict | None) -> str | None:
    """Which side the other has to follow; None when they agree.

    A side that is as built holds no work, and gives way to one that does, whatever Git or an editor did to it; but
    where the other is a copy that was made of this one, its user has taken the work back.
    """
    sides = {"script": script, "notebook": book}
    if source is not None and sides[source] is None:
        missing = kata.stub if source == "script" else kata.notebook
        raise SyncError(f"{kata.say(missing)} is not there, so it cannot be the side to keep")
    if script is None and book is None:
        raise SyncError(
            f"neither {kata.say(kata.stub)} nor {kata.say(kata.notebook)} is there: "
            f"`{typed(f'reset {kata.name}')}` makes both afresh"
        )
    if script is None or book is None:
        return "notebook" if script is None else "script"
    if source is not None:
        return source
    script_built, book_built = build.as_built(kata)
    if script_built and book_built:
        return None
    if script_built != book_built:
        work, fresh = ("notebook", "script") if script_built else ("script", "notebook")
        return fresh if _made(agreed, sides[work]) else work
    if _cells(_parse(_text(kata, script))) == _cells(_parse(script_text(_load(kata, book), None))):
        return None
    changed = _changed(agreed, script, book)
    if len(changed) == 1:
        return changed.pop()
    if agreed and files.digest(script_text(_load(kata, book), script)) == agreed.get("script"):
        return "script"  # what changed in the notebook is the lesson's
    raise Conflict(
        f"{kata.say(kata.stub)} and {kata.say(kata.notebook)} have both changed, and they differ. Both are as you left "
        f"them. Say which one is right: `{typed(f'sync {kata.name} --from script')}` or "
        f"`{typed(f'sync {kata.name} --from notebook')}`. A copy of the other goes to .dojo/kept."
    )


def _agreed(kata: Kata) -> dict | None:
    """The hashes of both sides when they last agreed; None when that is not known to have been."""
    found = files.read_state(_state(kata)).get(kata.name)
    return found if isinstance(found, dict) or found is None else {}


def _changed(agreed: dict | None, script: bytes, book: bytes) -> set[str]:
    now = {"script": files.digest(script), "notebook": files.digest(book)}
    return {side for side, value in now.items() if (agreed or {}).get(side) != value}


def _made(agreed: dict | None, content: bytes | None) -> bool:
    """Whether a file is what was made of its other side here, and nobody has touched it since."""
    return content is not None and (agreed or {}).get("made") == files.digest(content)


def _state(kata: Kata) -> Path:
    return kata.home / "sync.json"


def _read(kata: Kata, path: Path) -> bytes | None:
    if why := files.fault(path):
        raise SyncError(f"{kata.say(path)} {why}")
    return path.read_bytes() if path.exists() else None


def _text(kata: Kata, script: bytes) -> str:
    try:
        text = script.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        raise SyncError(f"{kata.say(kata.stub)} is not UTF-8 (byte {error.start}): save it as UTF-8") from None
    if line := build.conflict_line(text):
        raise SyncError(
            f"{kata.say(kata.stub)} has Git's conflict markers (line {line}): settle them in your editor, or take "
            f"the notebook's version with `{typed(f'sync {kata.name} --from notebook')}`"
        )
    return text


def _load(kata: Kata, book: bytes) -> NotebookNode:
    """The notebook as nbformat sees it. Raises SyncError."""
    try:
        return build.loads(book)
    except build.NoNotebook as error:
        raise SyncError(
            f"{kata.say(kata.notebook)} is no notebook: it {error}. It is as you left it. Mend it, or make it again "
            f"from {kata.say(kata.stub)} with `{typed(f'sync {kata.name} --from script')}` (a copy goes to .dojo/kept)."
        ) from None


def _parse(script: str) -> NotebookNode:
    import jupytext

    return jupytext.reads(script, fmt="py:percent")


def _cells(node: NotebookNode) -> list[tuple[str, str]]:
    return [(cell.cell_type, cell.source.replace("\r\n", "\n").strip("\n")) for cell in node.cells]


def _notebook(kata: Kata, script: str, old: NotebookNode | None) -> NotebookNode:
    """The script as a notebook, with the lesson of the old one, and the outputs of what has not changed in it."""
    from jupytext.combine import combine_inputs_with_outputs

    fresh = build.notebook(script)
    if old is None:
        if build.as_built(kata)[0]:
            return build.fresh_notebook(kata)
        node = _woven(fresh, build.fresh_notebook(kata))
        del node.metadata["dojo"]  # these fingerprints are for what build wrote, not for the user's work
        return node
    fresh = _woven(fresh, old)
    known = {source for _, source in _cells(old)}
    node = combine_inputs_with_outputs(fresh, old, fmt="py:percent")
    node.nbformat_minor = 5
    node.metadata = old.metadata
    ids: set[str] = set()
    for number, cell in enumerate(node.cells):
        if cell.cell_type == "code" and cell.source.strip("\n") not in known:
            cell.outputs, cell.execution_count = [], None
        if cell.get("id") in ids or not cell.get("id"):
            cell.id = f"{number:02d}-{files.digest(f'{number} {cell.source}')[:8]}"
        ids.add(cell.id)
    return node


def _woven(script: NotebookNode, book: NotebookNode) -> NotebookNode:
    """A script's notebook with the lesson's cells of another one, each where it stood between the cells of both."""
    from difflib import SequenceMatcher  # which no grading needs

    own, lesson = list[str](), []
    for cell in book.cells:
        if lessons.is_of_lesson(cell):
            lesson.append((len(own), cell))
        else:
            own.append(cell.source)
    places = SequenceMatcher(None, own, [cell.source for cell in script.cells], autojunk=False).get_opcodes()

    def place(before: int) -> int:
        """How many cells of the script stand before what so many stood before."""
        _, first, last, start, end = next(each for each in places if before <= each[2])
        return end if before == last else min(start + before - first, end)

    for before, cell in reversed(lesson):
        script.cells.insert(place(before) if places else 0, cell)
    return script


def script_text(node: NotebookNode, old: bytes | None) -> str:
    """The notebook as a script, without the lesson, with the header, if any, and the newlines of the old one."""
    import jupytext

    header = master.split((old or b"").decode("utf-8-sig", "replace").replace("\r\n", "\n"))[0]
    bare = node.copy()
    bare.cells = [cell for cell in node.cells if not lessons.is_of_lesson(cell)]
    bare.metadata = type(node)({"jupytext": {"notebook_metadata_filter": "-all"}})
    body = jupytext.writes(bare, fmt="py:percent")
    body = body[len(master.split(body)[0]) :].lstrip("\n")
    text = f"{header}\n\n{body}" if header else body
    return text.replace("\n", "\r\n") if b"\r\n" in (old or b"") else text


def _write(kata: Kata, target: Path, old: bytes | None, new: str, origin: Path, ours: bool) -> str:
    """Replace `target`, whose content was `old`, and keep that unless it was `ours`."""
    folder = kata.home / "kept" / "sync"
    message = f"{kata.say(target)} brought up to date from {kata.say(origin)}"
    if old is None:
        message = f"{kata.say(target)} made from {kata.say(origin)}"
    elif not ours:
        kept = files.keep(folder, target, old, COPIES)
        message += f" (before: {kata.say(kept)})"
    if _read(kata, target) != old:
        raise SyncError(f"{kata.say(target)} was saved by another program just now: nothing was written, run it again")
    files.write_atomic(target, new)
    files.prune(folder, target)
    return message
