"""What the tests share: one zygote for the whole run, and a short way to grade a source."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dojo import abreast, catalog, grade, plugin, recall
from dojo.judge import limits, nursery
from dojo.verdict import Check, Outcome, Verdict

SEED = 20261120
plugin.DIAGNOSIS_SECONDS = 60.0  # what a diagnosis says must not depend on how busy the machine is
os.environ["DOJO_HOME"] = tempfile.mkdtemp(prefix="dojo-tests-")  # what tests do is nobody's history


CORES = abreast.cores()


@pytest.fixture(scope="session")
def core() -> int | None:
    """The processor on which these tests judge; those of another process of the run have another one."""
    return CORES[int(os.environ.get("PYTEST_XDIST_WORKER", "gw0")[2:]) % len(CORES)] if CORES else None


@pytest.fixture(scope="session")
def zygote(core: int | None) -> Iterator[nursery.Zygote]:
    """The process that all workers of these tests are forked from."""
    parent = nursery.Zygote()
    zygote = parent.split(core)
    grade.import_all()
    recall.start()  # most gradings here have the same seed
    yield zygote
    zygote.close()
    parent.close()


@pytest.fixture(scope="session")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the project, for what a notebook passes is remembered in the project that it is in."""
    return copy_of_project(tmp_path_factory.mktemp("project"))


def copy_of_project(to: Path) -> Path:
    """What a user works with, in a folder of its own."""
    for folder in ("dojo", "katas", "solutions", "graders", "notebooks"):
        shutil.copytree(catalog.ROOT / folder, to / folder)
    shutil.copy(catalog.ROOT / "pyproject.toml", to)
    return to


BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None)
in_browser = pytest.mark.skipif(BROWSER is None, reason="no Chromium on this machine")
BROWSER_FLAGS = ("--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-sync")

Grade = Callable[..., Verdict]


@pytest.fixture(scope="session")
def graded(zygote: nursery.Zygote, core: int | None) -> Grade:
    """`graded(kata, source, seed=…, tier=…)` is the verdict on a source."""

    def judge(kata: str, source: str, label: str = "attempt.py", **options: object) -> Verdict:
        options = {"seed": SEED} | options
        entry = grade.Entry(catalog.katas()[kata], source, label, f"nox -s grade -- {kata} --attempt {label}")
        limits.keep_to(core)
        try:
            return grade.run([entry], grade.Options(**options), zygote)[0]
        finally:
            if CORES:
                os.sched_setaffinity(0, CORES)

    return judge


def failures(verdict: Verdict) -> list[Check]:
    """The checks of a verdict that keep it from passing."""
    return [check for check in verdict.checks if not check.outcome.harmless]


def told(verdict: Verdict) -> str:
    """All that a verdict says about its failures."""
    assert all(check.outcome is not Outcome.GRADER_ERROR for check in verdict.checks), verdict
    return "\n".join([verdict.message, *(f"{c.name} {c.outcome}: {c.message}" for c in failures(verdict))])


def children_of(zygote: nursery.Zygote) -> list[str]:
    """The processes that a zygote has forked and that are not gone, where the system tells."""
    children = Path(f"/proc/{zygote.pid}/task/{zygote.pid}/children")
    return children.read_text().split() if children.exists() else []
