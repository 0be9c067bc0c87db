"""A judge that stays warm: it grades a file anew on every save, with torch imported and the oracles known."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

from dojo import abreast, build, grade, recall
from dojo.judge import nursery

if TYPE_CHECKING:
    from dojo.catalog import Kata
    from dojo.verdict import Verdict

CALM = 0.02  # seconds that a file must have stayed as it is before it counts as saved
TICK = 0.005
WORKERS = 2  # of a grading: the attempt's and the reference's


class Judge:
    """Grades one entry at a time, in processes of its own, while its owner does other things."""

    def __init__(self, seed: int, diagnose: bool = True) -> None:
        self.options = grade.Options(seed, diagnose=diagnose)
        self._before: dict[str, Verdict] = {}  # the last verdict on each kata: how long its checks take
        zygote = nursery.Zygote()
        grade.import_all()
        self._zygote, self._size = zygote, grade.judges()
        self._crew = abreast.Crew(_grade_and_remember, zygote, self._size)

    def prepare(self, kata: Kata) -> None:
        """Grade the solution in every process, so that oracles are known before the first attempt is there."""
        entry = grade.Entry(kata, build.read_text(kata.master), kata.say(kata.master), "")
        self._before[kata.name] = self._crew.map([(entry, self.options)] * self._size)[0]

    def begin(self, entry: grade.Entry, options: grade.Options | None = None) -> None:
        """Start grading."""
        self._last, self._kata = options or self.options, entry.kata.name
        self._crew.begin(grade.shared_out([entry], self._last, self._size, self._before.get(self._kata)))

    def verdict(self, patience: float) -> Verdict | None:
        """The verdict on what was begun, if it is there within `patience` seconds."""
        parts = self._crew.results(patience)
        if parts is None:
            return None
        verdict = grade.joined(parts, self._last)
        if verdict.checks:
            self._before[self._kata] = verdict
        return verdict

    def grade(self, entry: grade.Entry, options: grade.Options | None = None) -> Verdict:
        """Grade to the end."""
        self.begin(entry, options)
        while (verdict := self.verdict(1.0)) is None:
            pass
        return verdict

    def close(self) -> None:
        """End every process."""
        self._crew.__exit__()
        self._zygote.close()

    def __enter__(self) -> Judge:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Saves:
    """Tells when a file has been saved with another content than before."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._stamp, self._since, self._seen = None, 0.0, b""

    def new(self) -> bytes | None:
        """The content of the file, if it is another one than last time and has come to rest."""
        try:
            state = self.path.stat()
        except OSError:
            return None  # an editor may be replacing it
        stamp = state.st_mtime_ns, state.st_size, state.st_ino
        now = time.monotonic()
        if stamp != self._stamp:
            self._stamp, self._since = stamp, now
            return None
        if not self._since or now - self._since < CALM:
            return None
        self._since = 0.0
        try:
            content = self.path.read_bytes()
        except OSError:
            return None
        if content == self._seen:
            return None
        self._seen = content
        return content


def _grade_and_remember(part: grade.Part, zygote: nursery.Zygote) -> Verdict:
    if recall._known is None:
        recall.start()
        zygote.stock = WORKERS
    return grade.run_part(part, zygote)
