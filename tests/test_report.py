"""The page about practice: one file, safe against what attempts print, and right in a real browser."""

from __future__ import annotations

import re
import subprocess
import time
from pathlib import Path

import pytest
import torch

from dojo.content import catalog
from dojo.content.master import read_text
from dojo.contracts.checks import known_bugs
from dojo.notebook import html as notebook_html
from dojo.practice import database, report
from dojo.verdict.page import html
from dojo.verdict.page.heatmap import picture
from dojo.verdict.types import Check, Label, Outcome, Section, Tier, Verdict
from tests.conftest import BROWSER, BROWSER_FLAGS, Grade, in_browser

PROBE = """<script>
window.addEventListener("error", event => document.body.dataset.error = event.message);
</script>"""
ASK = """<script>
const click = name => [...document.querySelectorAll("th button")].find(b => b.textContent === name).click();
const first = () => document.querySelector("table.sortable tbody tr").cells[1].textContent;
const seen = [first()]; click("attempts"); click("attempts"); seen.push(first()); click("kata"); seen.push(first());
document.querySelector("details summary").click();
const maps = [...document.querySelectorAll(".map img")];
seen.push(document.querySelector("details").open, maps.length > 2 && maps.every(m => m.complete && m.naturalWidth > 1));
maps[2].dispatchEvent(new MouseEvent("mousemove"));
seen.push(maps[2].title.endsWith("the allowed error"), document.documentElement.scrollWidth <= window.innerWidth);
const box = document.querySelector(".wide"), cue = document.querySelector(".cue");
seen.push(box.scrollWidth > box.clientWidth + 4 ? !cue.hidden && box.matches(".more") : cue.hidden);
document.body.dataset.seen = JSON.stringify(seen);
</script>"""


@pytest.fixture(scope="module")
def past(graded: Grade) -> list[database.Attempt]:
    """A failed rope with pictures, and a passed mask."""
    found = []
    for number, (name, bug) in enumerate((("rope", 0), ("causal_mask", None), ("rope", 1))):
        kata = catalog.katas()[name]
        master = read_text(kata.master)
        verdict = graded(name, master if bug is None else known_bugs.bugs_of(kata)[bug].plant(master))
        failing = [{"name": c.name, "diagnosis": c.diagnosis} for c in verdict.checks if not c.outcome.harmless]
        found.append(
            database.Attempt(
                time.time() - 9000 + number, name, "grade", verdict.verdict, verdict.tiers, failing, 1.0,
                90.0, 0, master, verdict.to_json(pictures=True),
            )
        )  # fmt: skip
    return found


def test_a_page_needs_nothing_from_elsewhere(past: list, tmp_path: Path) -> None:
    html.write(tmp_path / "page.html", report.of_history(past))
    text = (tmp_path / "page.html").read_text()
    assert not re.search(r"""(?:src|href)=["'](?!data:)""", text)
    assert "https://" not in re.sub(r"<pre>.*?</pre>", "", text, flags=re.DOTALL)
    assert "pairs (i, i + d_k/2)" in text
    assert "2 of 24 passed" not in text
    assert "1 of 24 passed" in text


def test_an_attempt_cannot_write_into_the_page(graded: Grade, tmp_path: Path) -> None:
    evil = "def softmax(x, dim=-1):\n    raise ValueError('<script>alert(1)</script>')\n"
    html.write(tmp_path / "page.html", html.of_run([graded("softmax", evil)]))
    text = (tmp_path / "page.html").read_text()
    assert "<script>alert" not in text
    assert "&lt;script&gt;alert" in text


def test_a_notebook_and_a_page_show_a_failure_alike() -> None:
    got, expected = torch.ones(4, 6), torch.zeros(4, 6, dtype=torch.float64)
    pictured = picture(got, expected, torch.full((4, 6), 2.0), ("seq", "dim"))
    told = [Section(Label.FACTS, "a < b")]
    checks = [Check(name, Tier.CORE, Outcome.WRONG, 0.1, told, "<bug>", pictured) for name in ("test_a", "test_b")]
    checks.append(Check("test_c", Tier.FAST, Outcome.PASSED))
    verdict = Verdict("rope", "katas/rope.py", "failed", checks, "cpu", "2", 1.0, 1)
    shown = html.failure(checks[0].to_json(pictures=True))
    assert shown.startswith('<details open><summary><span class="bad">✗</span> core · a: wrong</summary>')
    for words in ("equals <b>&lt;bug&gt;</b>", "a &lt; b", 'alt="error: 24 elements beyond the allowed error"'):
        assert words in shown
    assert shown in html.of_run([verdict])
    assert shown in notebook_html.of(verdict)
    assert html.failure(checks[1].to_json(pictures=True), opened=False) in notebook_html.of(verdict)


def test_a_page_about_nothing_says_how_to_begin(tmp_path: Path) -> None:
    assert "nox -s grade" in report.of_history([])


@in_browser
@pytest.mark.parametrize("width", [1000, 380])
def test_a_browser_draws_sorts_and_opens_it_without_an_error(past: list, tmp_path: Path, width: int) -> None:
    page = tmp_path / "page.html"
    html.write(page, report.of_history(past))
    page.write_text(page.read_text().replace("<body>", "<body>" + PROBE).replace("</body>", ASK + "</body>"))
    command = [BROWSER, "--headless", *BROWSER_FLAGS, f"--window-size={width},1200", "--dump-dom"]
    command.append(f"--user-data-dir={tmp_path / 'profile'}")
    shown = subprocess.run([*command, page.as_uri()], capture_output=True, text=True, timeout=60, check=True).stdout
    body = re.search(r"<body[^>]*>", shown)[0]
    assert "data-error" not in body
    seen = re.search(r'data-seen="([^"]*)"', body)[1].replace("&quot;", '"')
    assert seen == '["linear","rope","absolute_positions",true,true,true,true,true]', seen


def test_a_page_says_what_it_is_about_and_what_the_colours_mean(graded: Grade, tmp_path: Path) -> None:
    wrong = graded("softmax", "def softmax(x, dim=-1):\n    return x\n", diagnose=False, stop_at_first=True)
    right = Verdict("rope", "katas/positions/rope.py", "passed", [], "cpu", "2", 1.0, 1)
    page = tmp_path / "page.html"
    for verdicts, title, pictured in (([wrong], "dojo: softmax failed", True), ([right], "dojo: rope passed", False)):
        html.write(page, html.of_run(verdicts), html.title_of_run(verdicts))
        text = page.read_text()
        assert f"<title>{title}</title>" in text
        assert f"<h1>{title}</h1>" in text
        assert ('<p class="legend">' in text) is pictured
    assert html.title_of_run([wrong, right]) == "dojo: 1 of 2 katas passed"
    html.write(page, "")
    assert "<title>dojo: practice</title>" in page.read_text()


def test_points_of_the_chart_are_labelled_where_there_is_room() -> None:
    now = time.time()
    brief = {"kind": "mock", "verdict": "passed", "tiers": {}, "failing": [], "seconds": 1.0, "hints": 0, "text": ""}
    names = list(catalog.katas())
    past = [
        database.Attempt(at=now - 9e5 * n, kata=name, spent=60.0 * (n + 1), **brief) for n, name in enumerate(names)
    ]
    page = report.of_history(past)
    texts = re.findall(r'<text x="([\d.]+)" y="([\d.]+)">(\w+)</text>', page)
    dots = [(float(x), float(y)) for x, y in re.findall(r'<circle cx="([\d.]+)" cy="([\d.]+)"', page)]
    labels = [(float(x), float(y), name) for x, y, name in texts if name in names]
    assert len(labels) > 12
    for n, (x, y, name) in enumerate(labels):
        assert x + 6.5 * len(name) <= 600
        assert not any(x - 5 < a < x + 6.5 * len(name) + 5 and abs(y - 4 - b) < 10 for a, b in dots)
        for a, b, other in labels[:n]:
            assert abs(y - b) > 10 or x + 6.5 * len(name) < a or a + 6.5 * len(other) < x
