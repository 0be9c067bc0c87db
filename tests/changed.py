"""`nox -s proof -- --changed`: the proof of what changed since the last commit of main before, and of a kata in turn.

`--changed=COMMIT` names another commit. A kata has changed where its own files have, or those of a kata whose bugs or
answers it takes over. Of each that changed, and of every one where the engine changed in a way that verdicts hang on,
those proofs run that judge its answers, and of a few all tests about them: as many, in turn, as half an hour holds.
What is about no kata is proven always.
"""

from __future__ import annotations

import subprocess
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

import pytest

from dojo.cohort.store import ROOMS
from dojo.content import catalog, proofs
from dojo.content.catalog import Kata

KATAS = catalog.katas()
SINCE_MAIN = "main"
FOLDERS = ("solutions", "graders", "katas", "notebooks")
ENGINE = (
    *(f"dojo/{room}/" for room in (*ROOMS, "content", "proving")),
    "constraints.txt",
    "pyproject.toml",
    "tests/test_graders.py",
)
JUDGES = ("test_graders", "test_idiom")  # the modules whose tests judge answers of every kata
RACE = "no_slower"  # which takes long, and tells of one machine alone
FEW, MANY = 3, 18  # of which everything is proven, and the answers are judged; which ones goes in turn


class Unknown(Exception):
    """No such commit, or no repository."""


@dataclass(frozen=True)
class Plan:
    """Of which katas everything is proven, and of which the answers are judged."""

    since: str
    changed: frozenset[str]
    engine: tuple[str, ...]  # the files of it that changed
    turn: int  # at each commit it is another kata's

    @property
    def whole(self) -> set[str]:
        """A few of those that changed, and the one in turn."""
        return {[*KATAS][self.turn % len(KATAS)], *self._in_turn(self.changed, FEW)}

    @property
    def judged(self) -> set[str]:
        """Those whose answers are judged: what changed itself before what only the engine reaches."""
        found = self._in_turn(self.changed, MANY)
        others = {*KATAS} - self.changed if self.engine else ()
        return found | self._in_turn(others, MANY - len(found))

    def _in_turn(self, names: Collection[str], most: int) -> set[str]:
        """So many of them at most, at each commit others."""
        row = sorted(names)
        return {row[(self.turn * most + n) % len(row)] for n in range(min(most, len(row)))}

    def wants(self, item: pytest.Item) -> bool:
        """Whether a test is part of the proof."""
        about, proves = katas_of(item), item.get_closest_marker("proof") is not None
        judges = Path(item.path).stem in JUDGES and RACE not in item.name and about & self.judged
        return bool(about & self.whole or (proves and (judges or not about)))

    def __str__(self) -> str:
        files = f"{', '.join(self.engine[:3])}{' …' * (len(self.engine) > 3)}"
        return "\n".join(
            [
                f"proof of what changed since {self.since}:",
                f"  engine            {files if self.engine else 'nothing that verdicts hang on'}",
                f"  katas             {', '.join(sorted(self.changed)) or 'none'}",
                f"  answers judged    of {', '.join(sorted(self.judged)) or 'none'}",
                f"  everything        of {', '.join(sorted(self.whole))}",
            ]
        )


def plan(since: str) -> Plan:
    """The proof that is due. Without a commit to compare with everything counts as changed."""
    try:
        commit = _before_main() if since == SINCE_MAIN else _git("rev-parse", "--verify", f"{since}^{{commit}}")
        paths = [*_git("diff", "--name-only", commit).splitlines()]
        paths += _git("ls-files", "--others", "--exclude-standard").splitlines()
        count = int(_git("rev-list", "--count", "HEAD"))
    except Unknown as unknown:
        if since != SINCE_MAIN:
            hint = "; name files before --changed" if Path(since.split("::")[0]).exists() else ""
            raise pytest.UsageError(f"--changed={since}: {unknown}{hint}") from None
        return Plan("the beginning, for no commit before is known", frozenset(KATAS), ENGINE, 0)
    engine = tuple(path for path in paths if path.startswith(ENGINE))
    return Plan(commit[:10], _changed(paths), engine, count)


def katas_of(item: pytest.Item) -> set[str]:
    """The katas that a test is given."""
    given = item.callspec.params.values() if hasattr(item, "callspec") else ()
    names = (value.name if isinstance(value, Kata) else value for value in given)
    return {name for name in names if isinstance(name, str) and name in KATAS}


def _changed(paths: list[str]) -> frozenset[str]:
    """The katas of these files, and those that take something over from them."""
    parts = [Path(path).parts for path in paths]
    found = {Path(part[2]).stem for part in parts if len(part) > 2 and part[0] in FOLDERS} & {*KATAS}
    takes = {name: proofs.taken_over(kata) for name, kata in KATAS.items()}
    while more := {name for name, others in takes.items() if others & found} - found:
        found |= more
    return frozenset(found)


def _before_main() -> str:
    """Where this branch left main; on main itself the commit before."""
    head = _git("rev-parse", "HEAD")
    for main in ("origin/main", "main"):
        try:
            commit = _git("merge-base", "HEAD", main)
        except Unknown:
            continue
        if commit != head:
            return commit
    return _git("rev-parse", "--verify", "HEAD^")


def _git(*words: str) -> str:
    try:
        ran = subprocess.run(["git", *words], cwd=catalog.ROOT, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise Unknown(str(getattr(error, "stderr", "") or error).strip()) from None
    return ran.stdout.strip()
