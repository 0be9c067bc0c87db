"""What stands in an editor and is not saved yet: kept on disk as it is typed, and never lost to the file or by it.

A draft remembers what the file held when it was begun. Where the file has changed since, by another editor or another
page, both are kept: the draft is not written over the file, nor the file over the draft, before the user has said so.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from dojo.content import files
from dojo.content.catalog import Trouble
from dojo.content.cells import decoded


class Draft:
    """The text of one file in the editors that show it, and how it stands to the file."""

    def __init__(self, path: Path, home: Path) -> None:
        """`home` is the folder of the project's own records. Raises OSError, and UnicodeDecodeError of a file."""
        self.path, self.home = path, home
        self._kept = home / "drafts" / f"{path.stem}-{files.digest(str(path))[:12]}.json"
        self._stamp: tuple[int, int] | None = None
        self.listeners: dict[object, Callable[[str], None]] = {}  # of each editor: take over this text
        self.disk = self.base = self.text = self._read()
        state = files.read_state(self._kept)
        if isinstance(text := state.get("text"), str) and isinstance(base := state.get("base"), str):
            self.text, self.base = text, base if text != self.disk else self.disk

    @property
    def unsaved(self) -> bool:
        """Whether the editor holds what the file does not."""
        return self.text != self.disk

    @property
    def conflict(self) -> bool:
        """Whether the file has changed under an edit that is not saved; one that was removed is written again."""
        return self.unsaved and self.base != self.disk and self._stamp is not None

    def edit(self, text: str, by: object = None) -> None:
        """Take in what an editor holds now, keep it on disk, and show it in the other editors. Raises OSError."""
        if text == self.text:
            return
        if not self.unsaved:
            self.base = self.disk
        self.text = text
        self._keep()
        self._tell(by)

    def look(self) -> bool:
        """Read the file if it has been written; an editor without edits follows it. Whether anything has changed.

        Raises OSError, and UnicodeDecodeError.
        """
        if self._stamp == self._stamped():
            return False
        before, self.disk = self.disk, self._read()
        if before == self.disk:
            return False
        if self.text == before and self._stamp:
            self.text = self.base = self.disk
            self._tell(None)
        elif not self.unsaved:
            self._keep()
        return True

    def save(self) -> bool:
        """Write the file, unless it has changed under the edit: then false, and nothing is written. Raises OSError."""
        self.look()
        if self.conflict:
            return False
        if self.unsaved:
            files.write_atomic(self.path, self.text)
            self.disk = self.base = self.text
            self._stamp = self._stamped()
        self._keep()
        return True

    def grow(self, edit: Callable[[str], str]) -> None:
        """Make the edit that a program of ours has made to the file in what is not saved of it, too.

        Where that cannot be made there, file and draft stay as they are, in conflict. Raises OSError.
        """
        self.look()
        if not self.conflict:
            return
        try:
            self.text = edit(self.text)
        except (Trouble, ValueError, SyntaxError):
            return
        self.base = self.disk
        self._keep()
        self._tell(None)

    def keep_mine(self) -> Path:
        """Settle a conflict for the editor; returns the copy that was made of the file. Raises OSError."""
        copy = files.keep(self.home / "kept", self.path, self.path.read_bytes())
        self.base = self.disk
        self.save()
        return copy

    def take_file(self) -> Path:
        """Settle a conflict for the file; returns the copy that was made of the edit. Raises OSError."""
        copy = files.keep(self.home / "kept", self.path, self.text.encode())
        self.text = self.base = self.disk
        self._keep()
        self._tell(None)
        return copy

    def _keep(self) -> None:
        if self.unsaved:
            files.write_atomic(self._kept, json.dumps({"path": str(self.path), "base": self.base, "text": self.text}))
        else:
            self.base = self.disk
            self._kept.unlink(missing_ok=True)

    def _tell(self, by: object) -> None:
        for editor, take in list(self.listeners.items()):
            if editor is not by:
                take(self.text)

    def _read(self) -> str:
        self._stamp = self._stamped()
        return decoded(self.path.read_bytes()) if self._stamp else ""

    def _stamped(self) -> tuple[int, int] | None:
        try:
            state = self.path.stat()
        except FileNotFoundError:
            return None
        return state.st_mtime_ns, state.st_size
