"""Sessions that are being made, each by a command in a process of its own: a hunt's bugs take a while to be chosen."""

from __future__ import annotations

import asyncio
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from dojo.content import catalog
from dojo.content.catalog import Trouble


@dataclass(eq=False)
class Preparing:
    """A session that is being made by `dojo WORDS --prepare`, or could not be."""

    words: list[str]
    since: float = field(default_factory=time.monotonic)
    process: asyncio.subprocess.Process | None = None
    given_up: bool = False

    @property
    def command(self) -> str:
        """What a terminal would be told."""
        return " ".join(["dojo", *(word for word in self.words if word != "--yes")])

    async def make(self) -> str:
        """Make it; returns its address on the page. Raises Trouble with what the command said."""
        MAKING.append(self)
        try:
            self.process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "dojo", *self.words, "--prepare",
                cwd=catalog.ROOT,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
            )  # fmt: skip
            if self.given_up:
                self.cancel()
            out, err = await self.process.communicate()
        finally:
            MAKING.remove(self)
        if self.given_up:
            raise Trouble("given up")
        if self.process.returncode:
            said = err.decode(errors="replace").strip().removeprefix("dojo: ")
            raise Trouble(said or "it ended without a word")
        return address(Path(out.decode().splitlines()[-1]))

    def cancel(self) -> None:
        """Give it up."""
        self.given_up = True
        if self.process and self.process.returncode is None:
            with suppress(ProcessLookupError):
                self.process.terminate()


MAKING: list[Preparing] = []


def cancel_all() -> None:
    """Give all of them up, for the server ends."""
    for each in MAKING:
        each.cancel()


def address(folder: Path) -> str:
    """The address of the session in a folder."""
    return f"/session/{folder.parent.name.removesuffix('s')}/{folder.name}"
