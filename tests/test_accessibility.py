"""The pages can be read by everybody: axe-core finds nothing, on a wide and a narrow screen, in light and in dark."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from dojo.content import catalog, master, proofs
from dojo.practice import database, report
from dojo.practice.interview import interviewer
from dojo.verdict.page import html
from dojo.verdict.types import Verdict
from tests.conftest import Grade, in_browser

PHONE, DESKTOP = 390, 1280
TALLEST = 4000  # pixels of a page about one mistake, on a phone: five screens


@pytest.fixture(scope="module")
def pages(graded: Grade, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The page about a failed grading, about one that passed, and the report about both."""
    failed, passed = graded("rope", wrong("rope")), graded("causal_mask", right("causal_mask"))
    past = [remembered(failed, 9000, ""), remembered(passed, 3000, right("causal_mask"))]
    folder = tmp_path_factory.mktemp("pages")
    texts = {
        "failed": html.of_run([failed]),
        "passed": html.of_run([passed]),
        "report": report.of_history(past),
        "nothing": report.of_history([]),
        "interviewer": interviewer.of_kata(catalog.katas()["kv_cache"]),
    }
    for name, text in texts.items():
        (folder / f"{name}.html").write_text(text, "utf-8")
    return {path.stem: path for path in folder.iterdir()}


def right(name: str) -> str:
    return master.read_text(catalog.katas()[name].master)


def wrong(name: str) -> str:
    return proofs.bugs(catalog.katas()[name])[0].plant(right(name))


def remembered(verdict: Verdict, ago: float, text: str) -> database.Attempt:
    """A verdict as the history holds it."""
    failing = [{"name": c.name, "diagnosis": c.diagnosis} for c in verdict.checks if not c.outcome.harmless]
    return database.Attempt(
        time.time() - ago, verdict.kata, "grade", verdict.verdict, verdict.tiers, failing, 1.0,
        90.0, 1, text, verdict.to_json(pictures=True),
    )  # fmt: skip


@in_browser
@pytest.mark.parametrize("scheme", ["light", pytest.param("dark", marks=pytest.mark.proof)])
@pytest.mark.parametrize("width", [PHONE, DESKTOP])
def test_axe_finds_nothing_on_any_page(browser, pages: dict[str, Path], width: int, scheme: str) -> None:
    from axe_playwright_python.sync_playwright import Axe

    view = browser.new_page(viewport={"width": width, "height": 844}, color_scheme=scheme)
    for name, path in pages.items():
        view.goto(path.as_uri())
        view.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")
        found = Axe().run(view)
        assert found.violations_count == 0, f"{name}: {found.generate_report()}"
        assert view.evaluate("document.documentElement.scrollWidth <= window.innerWidth"), f"{name} is too wide"
    view.close()


@in_browser
def test_the_page_about_one_mistake_is_a_few_screens_of_a_phone(browser, pages: dict[str, Path]) -> None:
    view = browser.new_page(viewport={"width": PHONE, "height": 844})
    view.goto(pages["failed"].as_uri())
    assert view.evaluate("document.documentElement.scrollHeight") < TALLEST
    view.close()
