"""Small files: hash, read and write them atomically, and keep a copy of what is replaced."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
import time
from pathlib import Path


def digest(content: bytes | str) -> str:
    """The sha256 of bytes, or of a text in UTF-8."""
    return hashlib.sha256(content.encode() if isinstance(content, str) else content).hexdigest()


def write_atomic(path: Path, content: bytes | str) -> None:
    """Replace a file in one step, so that a crash leaves the old one or the new one and never half of either."""
    path = path.resolve()  # a user may keep the attempt elsewhere and link to it
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
        os.chmod(temporary, path.stat().st_mode & 0o777 if path.exists() else 0o644)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def read_state(path: Path) -> dict:
    """A state file's object; empty when the file is missing, broken or no object, for no state of ours is precious."""
    try:
        state = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return state if isinstance(state, dict) else {}


def fault(path: Path) -> str:
    """Why no file can be read at a path, in words that follow its name; nothing if one can, or nothing is there."""
    if path.is_symlink() and not path.exists():
        return f"is a link to {os.readlink(path)}, which is not there: put the file back, or remove the link"
    if path.is_dir():
        return "is a folder, where a file belongs: move it away"
    if path.exists() and not path.is_file():
        return "is no regular file: move it away"
    try:
        path.open("rb").close()
    except FileNotFoundError:
        pass
    except OSError as error:
        return f"cannot be read ({error.strerror}): give yourself the right to read it"
    return ""


def update_state(path: Path, name: str, value: object) -> None:
    """Set one entry of a state file; None removes it."""
    state = read_state(path)
    if value is None:
        state.pop(name, None)
    else:
        state[name] = value
    write_atomic(path, json.dumps(state, indent=1, sort_keys=True) + "\n")


def keep(folder: Path, original: Path, content: bytes, at_most: int | None = None) -> Path:
    """Put a copy of `content` into `folder`, named after `original` and the time; with `at_most`, forget the oldest.

    The same content is not kept twice in a row.
    """
    folder.mkdir(parents=True, exist_ok=True)
    copies = _copies(folder, original)
    if copies and copies[-1].read_bytes() == content:
        return copies[-1]
    stamp = time.strftime("%Y%m%d-%H%M%S")
    names = [stamp, *(f"{stamp}-{n}" for n in range(2, 1000))]
    path = next(p for n in names if not (p := folder / f"{original.stem}-{n}{original.suffix}").exists())
    write_atomic(path, content)
    if at_most is not None:
        for old in copies[: max(0, len(copies) + 1 - at_most)]:
            old.unlink(missing_ok=True)
    return path


def prune(folder: Path, original: Path) -> None:
    """Remove the copies that hold no more than a newer copy, or the file itself, holds too."""
    seen = {digest(original.read_bytes())}
    for copy in reversed(_copies(folder, original)):
        content = digest(copy.read_bytes())
        if content in seen:
            copy.unlink(missing_ok=True)
        seen.add(content)


def _copies(folder: Path, original: Path) -> list[Path]:
    """The copies of a file, the oldest first."""
    found = folder.glob(f"{original.stem}-[0-9]*{original.suffix}")
    return sorted(found, key=lambda path: (path.stat().st_mtime_ns, path.name))
