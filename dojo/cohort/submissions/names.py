"""Names as other people give them: shown harmlessly, and held against the katas' own."""

from __future__ import annotations

import difflib
import re
import unicodedata
from collections.abc import Iterable
from pathlib import PurePosixPath

SUFFIXES = (".py", ".ipynb")
JOINERS = "\u200c\u200d"  # letters of some scripts, and emoji, are joined or parted by these
SECOND = re.compile(r"^copy of | - copy$| ?\(\d+\)$|-\d+$")  # what browsers, systems and Canvas add to a name


def shown(name: str) -> str:
    """A name in one of its spellings, with an escape for each character that is no sign: `ada\\u202e`.

    So names that look alike are alike, and none moves the cursor, turns the line round or breaks it.
    """
    name = unicodedata.normalize("NFC", name)
    around = zip(f" {name}", name, f"{name[1:]} ", strict=False)
    return "".join(c if _is_sign(a, c, b) else c.encode("unicode_escape").decode() for a, c, b in around)


def _is_sign(before: str, character: str, after: str) -> bool:
    if character in JOINERS:
        return not before.isascii() and not after.isascii()
    return unicodedata.category(character) not in ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")


def parts(path: str) -> list[str] | None:
    """The names that a path is made of, below the folder that it starts from; None where it leads out of that."""
    path = path.replace("\\", "/")
    names = path.split("/")
    if path.startswith("/") or ".." in names or re.match(r"[A-Za-z]:", path):
        return None
    return [name for name in names if name not in ("", ".")]


def kata_of(name: str, katas: Iterable[str]) -> str | None:
    """The kata that a file is named after, in any case, and counted or not: `GQA (2).py` is gqa."""
    stem = _stem(name)
    return next((kata for kata in katas if kata.casefold() in (stem, SECOND.sub("", stem))), None)


def is_attempt(name: str) -> bool:
    """Whether a file is a Python file or a notebook by its name."""
    return name.lower().endswith(SUFFIXES)


def near(name: str, katas: Iterable[str]) -> str:
    """What a file or a kata may have been meant to be called, as a question; nothing where there is no guess."""
    stem, known = _stem(name), sorted(katas, key=len, reverse=True)
    inside = [kata for kata in known if re.search(rf"(?<![^\W_]){re.escape(kata.casefold())}(?![^\W_])", stem)]
    found = inside[:1] or difflib.get_close_matches(stem, known, n=1, cutoff=0.6)
    return f": did you mean {found[0]}?" if found else ""


def _stem(name: str) -> str:
    stem = unicodedata.normalize("NFKC", name).strip().casefold()
    return PurePosixPath(stem).stem.strip() if is_attempt(stem) else stem.split(".")[0]
