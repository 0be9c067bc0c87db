"""A zip as a folder: its members are read where they lie, each up to a limit, and nothing is unpacked."""

from __future__ import annotations

import stat
import struct
import zipfile
import zlib
from dataclasses import dataclass, field
from typing import BinaryIO, TypeGuard

from dojo.cohort.submissions.names import parts, shown
from dojo.cohort.submissions.tree import DEEPEST, LINK, ODD, File, Folder, Unreadable, nothing, too_large

DIRECTORY = 8 << 20  # bytes of a zip's table of contents: about 80,000 members
FOLDERS = 100_000
PACKED = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # the others cannot be unpacked up to a limit
BROKEN = (zipfile.BadZipFile, zlib.error, EOFError, OSError, RuntimeError, ValueError, struct.error)


@dataclass(frozen=True)
class InZip:
    """A folder in a zip, or the zip itself."""

    name: str
    path: str
    inside: dict[str, File | Folder] = field(default_factory=dict)

    def entries(self) -> list[File | Folder]:
        return sorted(self.inside.values(), key=lambda entry: entry.name)

    def get(self, name: str) -> File | Folder | None:
        return self.inside.get(name)

    def add(self, entry: File | Folder) -> None:
        """Put something into it, beside what is called so already: a zip can hold two files of one name."""
        taken = entry.name in self.inside
        self.inside[f"{entry.name}/{len(self.inside)}" if taken else entry.name] = entry


def is_zip(entry: File | Folder) -> TypeGuard[File]:
    """Whether it is a zip by its name."""
    return isinstance(entry, File) and entry.name.lower().endswith(".zip")


def unpacked(handle: BinaryIO, name: str, path: str) -> InZip:
    """The zip that this handle, which must stay open, gives the bytes of. Raises Unreadable."""
    try:
        end = zipfile._EndRecData(handle)  # type: ignore[attr-defined]
        if end and end[5] > DIRECTORY:  # ZipFile would make an object of each member, however many
            raise Unreadable("it has too many members: zip the katas' files alone")
        archive = zipfile.ZipFile(handle)
    except BROKEN as error:
        raise Unreadable(f"it is no zip that can be opened ({error})") from None
    top = InZip(name, path)
    folders: dict[tuple[str, ...], InZip] = {(): top}
    for member in archive.infolist():
        inside = _name(member)
        names = parts(inside)
        if names is None or len(names) > DEEPEST:
            why = "has too many folders in folders" if names else "leads out of the zip"
            last = inside.replace("\\", "/").rpartition("/")[2]
            top.add(File(last, f"{path}: {shown(inside)}", nothing, f"its path {why}: zip the katas' files alone"))
            continue
        is_folder = inside.endswith(("/", "\\"))
        for depth in range(1, len(names) + is_folder):
            key = tuple(names[:depth])
            if key not in folders:
                folders[key] = InZip(key[-1], f"{path}: {shown('/'.join(key))}")
                folders[key[:-1]].add(folders[key])
        if len(folders) > FOLDERS:
            raise Unreadable("it has too many folders: zip the katas' files alone")
        if names and not is_folder:
            folders[tuple(names[:-1])].add(_file(archive, member, names, path))
    return top


def _name(member: zipfile.ZipInfo) -> str:
    """A member's name; macOS writes UTF-8 without saying so, which zipfile takes for a code page of DOS."""
    if not member.flag_bits & 0x800:
        try:
            return member.filename.encode("cp437").decode()
        except UnicodeError:
            pass
    return member.filename


def _file(archive: zipfile.ZipFile, member: zipfile.ZipInfo, names: list[str], path: str) -> File:
    mode = member.external_attr >> 16
    refused = LINK if stat.S_ISLNK(mode) else ""
    if stat.S_IFMT(mode) not in (0, stat.S_IFREG, stat.S_IFLNK):
        refused = ODD
    elif member.flag_bits & 1:
        refused = "it is locked with a password: zip it without one"
    elif member.compress_type not in PACKED:
        refused = "it is packed in an unusual way: zip it anew, with an ordinary program"

    def content(most: int) -> bytes:
        if member.file_size > most:
            raise too_large(most)
        try:
            with archive.open(member) as file:
                found = file.read(most + 1)  # whatever size the member claims, no more is unpacked
        except BROKEN as error:
            raise Unreadable(f"its zip is broken ({error})") from None
        if len(found) > most:
            raise too_large(most)
        return found

    return File(names[-1], f"{path}: {shown('/'.join(names))}", content, refused)
