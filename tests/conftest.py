"""What the tests share: one fork server for the whole run, and a short way to grade a source."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from dojo.content import catalog
from dojo.grading import parallel
from dojo.grading.options import Entry, Options
from dojo.grading.run import run
from dojo.judge import pool
from dojo.judge.fork_server import ForkServer
from dojo.judge.worker.isolation import confinement
from dojo.verdict.types import Check, Outcome, Verdict
from tests import changed

settings.register_profile("dojo", deadline=None, suppress_health_check=[HealthCheck.too_slow])  # of a busy machine
settings.load_profile("dojo")
SEED = 20261120
collect_ignore = ["attacks", "golden", "tests_of_candidates"]  # no tests of ours
os.environ["DOJO_HOME"] = tempfile.mkdtemp(prefix="dojo-tests-")  # what tests do is nobody's history
PLAN = pytest.StashKey[changed.Plan]()
CORES = pool.cores()
COUNT = len(catalog.katas())


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update", action="store_true", help="write the verdicts in tests/golden anew")
    parser.addoption(
        "--changed",
        nargs="?",
        const=changed.SINCE_MAIN,
        metavar="COMMIT",
        help="only what proves the katas that changed since this commit, by default the last one of main before",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Make the plan of `--changed`, and tell it once."""
    if since := config.getoption("--changed"):
        config.stash[PLAN] = changed.plan(since)
        if not hasattr(config, "workerinput"):
            print(config.stash[PLAN], flush=True)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep what the plan wants."""
    if plan := config.stash.get(PLAN, None):
        kept, others = list[pytest.Item](), list[pytest.Item]()
        for item in items:
            (kept if plan.wants(item) else others).append(item)
        config.hook.pytest_deselected(items=others)
        items[:] = kept


@pytest.fixture(scope="session")
def core() -> int | None:
    """The processor on which these tests judge; those of another process of the run have another one."""
    return CORES[int(os.environ.get("PYTEST_XDIST_WORKER", "gw0")[2:]) % len(CORES)] if CORES else None


@contextmanager
def on_core(core: int | None) -> Iterator[None]:
    """Keep this process to one processor for a while."""
    confinement.keep_to(core)
    try:
        yield
    finally:
        if CORES:
            os.sched_setaffinity(0, CORES)


@pytest.fixture(scope="session")
def server(core: int | None) -> Iterator[ForkServer]:
    """The process that all workers of these tests are forked from."""
    parent = ForkServer()
    server = parent.split(core)
    parallel.import_all()
    yield server
    server.close()
    parent.close()


@pytest.fixture(scope="session")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the project, for what a notebook passes is remembered in the project that it is in."""
    return copy_of_project(tmp_path_factory.mktemp("project"))


def copy_of_project(to: Path) -> Path:
    """What a user works with, in a folder of its own; tests of a debug kata are held against what proves it."""
    for folder in ("dojo", "katas", "solutions", "graders", "notebooks"):
        shutil.copytree(catalog.ROOT / folder, to / folder)
    shutil.copy(catalog.ROOT / "pyproject.toml", to)
    return to


BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None)
in_browser = pytest.mark.skipif(BROWSER is None, reason="no Chromium on this machine")
BROWSER_FLAGS = ("--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-sync")


@contextmanager
def chromium(*more: str) -> Iterator[Any]:
    """The machine's browser, started with `more` flags."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=BROWSER, args=[*BROWSER_FLAGS, *more])
        yield started
        started.close()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """A browser, one for all tests of a module."""
    with chromium() as started:
        yield started


Grade = Callable[..., Verdict]


@pytest.fixture(scope="session")
def graded(server: ForkServer, core: int | None) -> Grade:
    """`graded(kata, source, seed=…, tier=…)` is the verdict on a source."""

    def judge(kata: str, source: str, label: str = "attempt.py", **options: object) -> Verdict:
        options = {"seed": SEED} | options
        entry = Entry(catalog.katas()[kata], source, label, f"nox -s grade -- {kata} --attempt {label}")
        with on_core(core):
            return run([entry], Options(**options), server)[0]

    return judge


def failures(verdict: Verdict) -> list[Check]:
    """The checks of a verdict that keep it from passing."""
    return [check for check in verdict.checks if not check.outcome.harmless]


def told(verdict: Verdict) -> str:
    """All that a verdict says about its failures."""
    assert all(check.outcome is not Outcome.GRADER_ERROR for check in verdict.checks), verdict
    return "\n".join([verdict.message, *(f"{c.name} {c.outcome}: {c.message}" for c in failures(verdict))])


def children_of(server: ForkServer) -> list[str]:
    """The processes that a fork server has forked and that are not gone, where the system tells.

    The one for candidates' tests stays as long as the server does.
    """
    children = Path(f"/proc/{server.pid}/task/{server.pid}/children")
    found = children.read_text().split() if children.exists() else []
    return [pid for pid in found if server._warm is None or pid != str(server._warm.pid)]
