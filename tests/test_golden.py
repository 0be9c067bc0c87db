"""Beginners' mistakes and what they are told: attempts in `tests/golden/KATA`, and their verdicts in 80 columns.

An attempt is a file, or `WHAT.edit`: a row in the form of a table of known bugs, or the name of a known bug alone.

`nox -s tests -- tests/test_golden.py --update` writes the verdicts anew; read what `git diff` shows of them.
"""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest

from dojo.content import catalog, master, proofs
from dojo.content.rows import ARROW, rows
from dojo.grading.options import Entry, Options
from dojo.grading.run import run
from dojo.judge import worker_handle
from dojo.judge.fork_server import ForkServer
from dojo.verdict.screen import terminal
from tests.conftest import on_core

ATTEMPTS = sorted(each for kind in ("py", "edit") for each in (Path(__file__).parent / "golden").glob(f"*/*.{kind}"))
SEED, COLUMNS = 7, 80
# What another processor or a busy one may change: digits, and whether the time check came to an end.
VARIES = re.compile(
    r"(?<=softmax\.py:)1[0-3](?= in softmax)|"  # at which line an endless loop is seen is chance
    r"(just over )?\d\S*(?= × allowed)|over \d+×|"
    r", so the call was ended(: is there a loop\?)?|"  # by the processor's clock or, on a busy machine, by the wall's
    r"(?<=no answer after )\d+ s( of processor time)?|\d+\.\d\S*|\d+e[+-]?\d+| · [^\n]*undecided[^\n]*"
)
SLOWLY = re.compile(r" \([\d.]+ s\)")  # which is said of a check that takes more than a second


def screen_of(attempt: Path, server: ForkServer, core: int | None, monkeypatch: pytest.MonkeyPatch) -> str:
    """The verdict on an attempt as the user's own file, as a terminal of 80 columns shows it."""
    monkeypatch.setattr(terminal, "_width", lambda _: COLUMNS)
    kata, stream = catalog.katas()[attempt.parent.name], io.StringIO()
    entry = Entry(kata, source_of(attempt, kata), kata.say(kata.stub), f"nox -s grade -- {kata.name}")
    with on_core(core):
        terminal.Screen(stream).verdict(run([entry], Options(SEED), server)[0])
    return stream.getvalue().rstrip() + "\n"


def source_of(attempt: Path, kata: catalog.Kata) -> str:
    """The attempt's text."""
    text = attempt.read_text("utf-8")
    if attempt.suffix == ".py":
        return text
    known = {bug.name: bug for bug in proofs.bugs(kata)}
    (bug,) = rows(text) if ARROW in text else [known[text.strip()]]
    return bug.plant(master.read_text(kata.master))


def told(screen: str) -> str:
    """What a screen says, without what varies and where its lines are broken."""
    return VARIES.sub("#", SLOWLY.sub("", re.sub(r"\n {13,}│ ", " ", screen)))


# of every other kata one is looked at on every run
FIRST = [*{attempt.parent: attempt for attempt in reversed(ATTEMPTS)}.values()][::2]
LOOKED_AT = [each if each in FIRST else pytest.param(each, marks=pytest.mark.proof) for each in ATTEMPTS]


@pytest.mark.parametrize("attempt", LOOKED_AT, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_a_beginners_mistake_is_told_as_it_was_reviewed(
    attempt: Path, server: ForkServer, core: int | None, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    golden = attempt.with_suffix(".txt")
    update = request.config.getoption("--update")
    if not update and golden.exists() and "timed out" in golden.read_text("utf-8"):
        monkeypatch.setattr(worker_handle, "CPU_LIMIT", 1.0)  # what never ends need not last
    screen = screen_of(attempt, server, core, monkeypatch)
    if update and (not golden.exists() or told(screen) != told(golden.read_text("utf-8"))):
        golden.write_text(screen, "utf-8")
    assert told(screen) == told(golden.read_text("utf-8"))
    assert len(screen.splitlines()) <= terminal.ROWS
    assert max(map(len, screen.splitlines())) <= COLUMNS
