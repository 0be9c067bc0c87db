"""What the measuring commands measure: the katas that are named, their contracts, and the right attempts at them."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

from dojo.content import catalog, files, proofs
from dojo.contracts import Contract
from dojo.proving.margins import contracts
from dojo.proving.matrix import CLOCK


def chosen(parser: argparse.ArgumentParser, names: list[str]) -> list[catalog.Kata]:
    """The katas of these words; a word that is none ends the command in a sentence."""
    try:
        return catalog.select(names)
    except catalog.Trouble as trouble:
        parser.error(str(trouble))


def timed(kata: catalog.Kata) -> Iterator[tuple[str, type[Contract]]]:
    """What of a kata is timed, each with its contract."""
    raced = (each for each in contracts(kata).values() if hasattr(each, "timed") and getattr(each, CLOCK, None))
    return ((each.name, each) for each in raced)


def attempts(kata: catalog.Kata) -> dict[str, str]:
    """The right attempts at a kata besides its solution, by name."""
    return proofs.right_attempts(kata)


def write_section(page: Path, title: str, text: str) -> None:
    """Put a text under this heading of a page, in place of what stands there."""
    before, _, rest = (page.read_text("utf-8") if page.is_file() else "").partition(f"## {title}\n")
    after = rest[rest.find("\n## ") + 1 :] if "\n## " in rest else ""
    parts = [before.rstrip(), f"## {title}\n\n{text.strip()}", after.rstrip()]
    files.write_atomic(page, "\n\n".join(part for part in parts if part) + "\n")
