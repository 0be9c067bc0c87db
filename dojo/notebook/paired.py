"""JupyterLab's files, where a kata's script and notebook follow each other: `nox -s lab` starts it with them.

Jupytext's own pairing would put every cell of a notebook into the script, those of the lesson too.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from jupyter_server.services.contents.largefilemanager import AsyncLargeFileManager

from dojo.content import catalog, sync
from dojo.content.catalog import Kata, Trouble


class PairedFiles(AsyncLargeFileManager):
    """Brings a notebook up to date when it is opened, and its script when it is saved."""

    async def get(self, path: str, content: bool = True, *args: Any, **more: Any) -> Any:
        """A file, and of a kata's notebook what the script says now."""
        if content and (kata := self._kata(path)) and kata.stub.exists():
            self._follow(kata, opened=False)
        return await super().get(path, content, *args, **more)

    async def save(self, model: dict[str, Any], path: str = "") -> Any:
        """Save a file; the other side of a kata follows, unless that has changed too."""
        saved = await super().save(model, path)
        kata = self._kata(path)
        if kata and sync.pending(kata) == {"notebook"}:
            self._follow(kata, opened=True)
        return saved

    def _kata(self, path: str) -> Kata | None:
        """The kata whose notebook lies at a path of the server."""
        name = Path(path)
        if name.suffix != ".ipynb" or not (catalog.ROOT / "solutions" / name.parent.name / f"{name.stem}.py").exists():
            return None
        kata = catalog.named(name.stem)
        return kata if kata.notebook == Path(self.root_dir).resolve() / path.lstrip("/") else None

    def _follow(self, kata: Kata, opened: bool) -> None:
        try:
            if message := sync.sync(kata, opened=opened):
                self.log.info("dojo: %s", message)
        except Trouble as trouble:  # the notebook can be worked in; `grade` and `sync` tell of it again
            self.log.warning("dojo: %s", trouble)
