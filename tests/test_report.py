"""The page about practice: one file, safe against what attempts print, and right in a real browser."""

from __future__ import annotations

import re
import subprocess
import time
from pathlib import Path
from xml.etree import ElementTree

import pytest
import torch

from dojo.content import catalog, proofs
from dojo.content.master import read_text
from dojo.notebook import html as notebook_html
from dojo.practice import database, report
from dojo.verdict.page import card, html
from dojo.verdict.page.heatmap import picture
from dojo.verdict.types import Check, Label, Outcome, Section, Tier, Verdict
from tests.conftest import BROWSER, BROWSER_FLAGS, COUNT, Grade, chromium, in_browser

SVG = "{http://www.w3.org/2000/svg}"
MEASURE = """() => {
  const fills = ["card", "tile", "strong", "quiet", "good", "part"].map(name => `.${name}`);
  const fill = name => getComputedStyle(document.querySelector(name)).fill;
  return [[...document.querySelectorAll("text")].map(text => text.getBBox()).map(box => [box.x, box.width]),
          Object.fromEntries(fills.map(name => [name, fill(name)]))];
}"""
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
        verdict = graded(name, master if bug is None else proofs.bugs(kata)[bug].plant(master))
        failing = [{"name": c.name, "diagnosis": c.diagnosis} for c in verdict.checks if not c.outcome.harmless]
        found.append(
            database.Attempt(
                time.time() - 9000 + number, name, "grade", verdict.verdict, verdict.tiers, failing, 1.0,
                90.0, 0, master, verdict.to_json(pictures=True),
            )
        )  # fmt: skip
    return found


def test_a_page_needs_nothing_from_elsewhere(past: list) -> None:
    text = report.of_history(past)
    assert not re.search(r"""(?:src|href)=["'](?!data:)""", text)
    assert "https://" not in re.sub(r"<pre>.*?</pre>", "", text, flags=re.DOTALL)
    assert "pairs (i, i + d_k/2)" in text
    assert f"2 of {COUNT} solved" not in text
    assert f"1 of {COUNT} solved" in text


def test_an_attempt_cannot_write_into_the_page(graded: Grade) -> None:
    evil = "def softmax(x, dim=-1):\n    raise ValueError('<script>alert(1)</script>')\n"
    text = html.of_run([graded("softmax", evil)])
    assert "<script>alert" not in text
    assert "&lt;script&gt;alert" in text


def shared(title: str, robust: int, minutes: float | None) -> str:
    """The card of a verdict of which so many of the robust checks hold."""
    asked = ((Tier.CORE, 6, 6), (Tier.ROBUST, robust, 18), (Tier.FAST, 3, 3))
    checks = [
        Check(f"{tier}{n}", tier, Outcome.PASSED if n < right else Outcome.WRONG)
        for tier, right, count in asked
        for n in range(count)
    ]
    word = "passed" if robust == 18 else "failed"
    verdict = Verdict("rope", "/home/ada/secret/rope.py", word, checks, "cpu", "2.13.0", 1.0, 7)
    assert card.worth_sharing(verdict)
    return card.svg(verdict, title, 3, 25, minutes)


def test_a_card_tells_kata_tiers_and_time_and_nothing_about_its_owner() -> None:
    texts = [each.text for each in ElementTree.fromstring(shared("Norms < 1 & more", 18, 21.4)).iter(f"{SVG}text")]
    assert texts[:4] == ["dojo · rope", "level 3 of 5", "Norms < 1 & more", "✓ passed"]
    assert texts[4:-1] == ["core", "6 of 6", "robust", "18 of 18", "fast", "3 of 3", "21 min, par 25 min"]
    core = shared("Rotary position embedding", 11, None)
    assert ">right; not yet robust<" in core
    assert ">par 25 min<" in core
    assert "ada" not in core
    assert ".py" not in core


def test_a_verdict_without_a_right_core_is_not_shared() -> None:
    wrong = [Check("a", Tier.CORE, Outcome.WRONG), Check("b", Tier.ROBUST, Outcome.PASSED)]
    for word, checks in (("failed", wrong), ("broken", []), ("empty", []), ("unjudged", [])):
        assert not card.worth_sharing(Verdict("rope", "", word, checks, "cpu", "2.13.0", 1.0, 7))


@in_browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_card_is_readable_in_a_browser(scheme: str, tmp_path: Path) -> None:
    longest = max((kata.title for kata in catalog.katas().values()), key=len)
    (tmp_path / "card.svg").write_text(shared(longest, 11, 21.4), "utf-8")
    with chromium() as browser:
        page = browser.new_page(color_scheme=scheme)
        page.goto(f"file://{tmp_path}/card.svg")
        boxes, colours = page.evaluate(MEASURE)
    assert all(x >= 40 and x + width <= 600 for x, width in boxes), "a text leaves its card"
    assert all(contrast(colours[".card"], colours[f".{css}"]) >= 4.5 for css in ("strong", "quiet", "good", "part"))
    assert all(contrast(colours[".tile"], colours[f".{css}"]) >= 4.5 for css in ("quiet", "good", "part"))


def contrast(one: str, other: str) -> float:
    """The contrast of two colours as browsers write them, rgb(…), by WCAG's rule."""
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def luminance(colour: str) -> float:
    shares = [int(value) / 255 for value in re.findall(r"\d+", colour)]
    linear = [share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4 for share in shares]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_a_notebook_and_a_page_show_a_failure_alike() -> None:
    got, expected = torch.ones(4, 6), torch.zeros(4, 6, dtype=torch.float64)
    pictured = picture(got, expected, torch.full((4, 6), 2.0), ("seq", "dim"))
    told = [Section(Label.FACTS, "a < b")]
    failed = {"sections": told, "diagnosis": "<bug>", "picture": pictured}
    checks = [Check(name, Tier.CORE, Outcome.WRONG, **failed) for name in ("test_a", "test_b")]
    checks.append(Check("test_c", Tier.FAST, Outcome.PASSED))
    verdict = Verdict("rope", "katas/rope.py", "failed", checks, "cpu", "2", 1.0, 1)
    checks[1].cause = "test_a"
    notebook = notebook_html.verdict_html(verdict)
    shown = notebook[notebook.index("<details open>") : notebook.rindex("</details>")]
    assert shown.startswith('<details open>\n<summary><span class="bad">✗</span> core · must hold: a: wrong</summary>')
    for words in ("equals <b>&lt;bug&gt;</b>", "a &lt; b", 'alt="error: 24 elements beyond the allowed error"'):
        assert words in shown
    assert shown in html.of_run([verdict])
    assert "<summary>the same cause fails 1 more check</summary>\n<ul>\n<li>core · b</li>\n</ul>" in shown
    checks[1].cause = ""
    assert notebook_html.verdict_html(verdict).count("<details open>") == 1, "only the first cause is opened"


def test_a_page_about_nothing_says_how_to_begin() -> None:
    assert "nox -s grade" in report.of_history([])


@in_browser
@pytest.mark.parametrize("width", [1000, 380])
def test_a_browser_draws_sorts_and_opens_it_without_an_error(past: list, tmp_path: Path, width: int) -> None:
    page = tmp_path / "page.html"
    page.write_text(report.of_history(past).replace("<body>", "<body>" + PROBE).replace("</body>", ASK + "</body>"))
    command = [BROWSER, "--headless", *BROWSER_FLAGS, f"--window-size={width},1200", "--dump-dom"]
    command.append(f"--user-data-dir={tmp_path / 'profile'}")
    shown = subprocess.run([*command, page.as_uri()], capture_output=True, text=True, timeout=60, check=True).stdout
    body = re.search(r"<body[^>]*>", shown)[0]
    assert "data-error" not in body
    seen = re.search(r'data-seen="([^"]*)"', body)[1].replace("&quot;", '"')
    assert seen == '["dropout","rope","absolute_positions",true,true,true,true,true]', seen


def test_a_page_says_what_it_is_about_and_what_the_colours_mean(graded: Grade) -> None:
    wrong = graded("softmax", "def softmax(x, dim=-1):\n    return x\n", diagnose=False, stop_at_first=True)
    right = Verdict("rope", "katas/positions/rope.py", "passed", [], "cpu", "2", 1.0, 1)
    for verdicts, title, pictured in (([wrong], "dojo: softmax wrong", True), ([right], "dojo: rope passed", False)):
        text = html.of_run(verdicts)
        assert f"<title>{title}</title>" in text
        assert f"<h1>{title}</h1>" in text
        assert ('<p class="legend">' in text) is pictured
    assert html.title_of_run([wrong, right]) == "dojo: 1 of 2 katas passed"
    assert "<title>dojo: practice</title>" in report.of_history([])


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
