"""What was handed in, as folders and files: nothing is followed, written or read before somebody asks for it."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from io import BytesIO
from itertools import islice
from pathlib import Path
from typing import BinaryIO, Protocol

from dojo.cohort.records import UNTOLD, Arrival
from dojo.cohort.submissions.names import shown
from dojo.content.catalog import FOLDERS

LISTED = 100_000  # entries of a folder
DEEPEST = 20  # folders in folders
ZIP_LIMIT = 32 << 20  # bytes of a zip that a student has handed in
CLONE = {"katas", "notebooks"}  # where a student's work is in a clone of this project
LINK, ODD = "it is a link: hand in the file itself", "it is no regular file"
JUNK = {"__MACOSX", "__pycache__", "node_modules", "venv", "env", "Thumbs.db", "desktop.ini"}
TOOLS = re.compile(
    r"\.(git|github|gitlab|svn|hg|vscode|idea|ipynb_checkpoints|virtual_documents|venv|cache|local|config|jupyter|nox|tox"
    r"|\w+_cache|Trashes?|Spotlight-V100|fseventsd|TemporaryItems|DocumentRevisions-V100|AppleDouble)|\._.*"
)  # folders that systems and tools put there
HIDDEN = "its name begins with a dot, so it is not read: rename it if it is somebody's work"


class Unreadable(Exception):
    """Why something that was handed in is not read: a sentence that says what to do."""


@dataclass(frozen=True)
class File:
    """A file that somebody has handed in."""

    name: str
    path: str  # as a teacher finds it, shown harmlessly
    content: Callable[[int], bytes]  # all of it, if it has at most so many bytes; raises Unreadable
    refused: str = ""  # why it is never read
    on_disk: Path | None = None
    inode: tuple[int, int] = (0, 0)  # which file of this machine it is, by whatever name
    upload: int = 0  # which of a platform's uploads it was
    arrival: Arrival = UNTOLD

    def opened(self) -> BinaryIO:
        """Its bytes, to go to and fro in. Raises Unreadable."""
        return _opened(self.on_disk) if self.on_disk else BytesIO(self.content(ZIP_LIMIT))


class Folder(Protocol):
    """A folder of files and folders, on disk or in a zip."""

    @property
    def name(self) -> str: ...

    @property
    def path(self) -> str: ...

    def entries(self) -> list[File | Folder]:
        """What lies in it, by name. Raises Unreadable."""

    def get(self, name: str) -> File | Folder | None:
        """What lies in it under a name."""


@dataclass(frozen=True)
class OnDisk:
    """A folder of this machine."""

    where: Path
    path: str = ""  # below the folder that the teacher has named

    @property
    def name(self) -> str:
        return self.where.name

    def entries(self) -> list[File | Folder]:
        try:
            with os.scandir(self.where) as found:
                names = [entry.name for entry in islice(found, LISTED + 1)]
        except OSError as error:
            raise Unreadable(f"it cannot be read: {error.strerror}") from None
        if len(names) > LISTED:
            raise Unreadable(f"it has more than {LISTED} entries: hand in the katas' files alone")
        return [entry for name in sorted(names) if (entry := self.get(name))]

    def get(self, name: str) -> File | Folder | None:
        where, path = self.where / name, f"{self.path}/{shown(name)}".lstrip("/")
        try:
            state = where.lstat()
        except (OSError, ValueError):  # it has just been removed, or there can be nothing of this name
            return None
        if stat.S_ISDIR(state.st_mode):
            return OnDisk(where, path)
        refused = LINK if stat.S_ISLNK(state.st_mode) else "" if stat.S_ISREG(state.st_mode) else ODD
        return File(name, path, partial(_read, where), refused, where, (state.st_dev, state.st_ino))


def _opened(path: Path) -> BinaryIO:
    try:  # what is a file now may have been a link or a pipe a moment ago, or may become one
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise Unreadable(f"it cannot be read: {error.strerror}") from None
    file = os.fdopen(handle, "rb")
    if stat.S_ISREG(os.fstat(handle).st_mode):
        return file
    file.close()
    raise Unreadable(ODD)


def _read(path: Path, most: int) -> bytes:
    with _opened(path) as file:
        if os.fstat(file.fileno()).st_size <= most:
            try:
                content = file.read(most + 1)
            except OSError as error:
                raise Unreadable(f"it cannot be read: {error.strerror}") from None
            if len(content) <= most:
                return content
    raise too_large(most)


def too_large(most: int) -> Unreadable:
    return Unreadable(f"it has more than {most} bytes")


def visible(folder: Folder) -> list[File | Folder]:
    """What lies in a folder, but for what systems and tools have put there. Raises Unreadable."""
    return [entry for entry in folder.entries() if not entry.name.startswith((".", "~$")) and entry.name not in JUNK]


def hidden(folder: Folder) -> list[Folder]:
    """Folders whose name begins with a dot and that no known tool has put there. Raises Unreadable."""
    dotted = (each for each in folder.entries() if not isinstance(each, File) and each.name.startswith("."))
    return [each for each in dotted if not TOOLS.fullmatch(each.name)]


def walk(entry: File | Folder, depth: int = 0) -> Iterator[File | Folder]:
    """An entry and all that lies in it, but for junk; of a clone of this project what a student works in."""
    yield entry
    if isinstance(entry, File):
        return
    try:
        if depth > DEEPEST:
            raise Unreadable(f"there are more than {DEEPEST} folders in each other: hand in the katas' files alone")
        inside = visible(entry)
        refused = [File(each.name, each.path, nothing, HIDDEN) for each in hidden(entry)]
    except Unreadable as error:
        yield File(entry.name, entry.path, nothing, str(error))
        return
    if {each.name for each in inside} >= set(FOLDERS):
        inside = [each for each in inside if each.name in CLONE]
    for each in [*inside, *refused]:
        yield from walk(each, depth + 1)


def nothing(most: int) -> bytes:
    """The content of what is refused."""
    return b""
