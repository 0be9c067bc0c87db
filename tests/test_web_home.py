"""Home, plan, history and report in a real browser: the same records as the terminal's, found by keyboard alone."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dojo.content import catalog, master
from dojo.practice import database
from dojo.verdict.types import Check, Label, Outcome, Section, Tier, Verdict
from dojo.web import difference
from tests.conftest import COUNT, copy_of_project, in_browser
from tests.test_web import HOSTILE
from tests.web import Server, entered

PAGES = ("/", "/plan", "/history/rope?verdict=1", "/history/dpo", "/paths", "/report", "/rules")
FIRST, SECOND = "def rope(x):\n    return x\n", "def rope(x):\n    # < & >\n    return -x\n"
SHIFTS = """new PerformanceObserver(list => {
  for (const entry of list.getEntries()) window.shifted = (window.shifted ?? 0) + entry.value;
}).observe({type: "layout-shift", buffered: true})"""
LOADS, GROWTH = 20, 8  # loads of home, and megabytes that twenty of them may leave behind
SHOWN = 1.5  # seconds until home shows
lines = st.lists(st.sampled_from(["a = 1", "b = 2", "b = 3", "", "    return a"]), max_size=12).map("\n".join)


@given(lines, lines)
def test_a_difference_holds_every_line_that_differs_and_no_other(old: str, new: str) -> None:
    found = list(difference.pairs(old, new))
    for side, other, gone in (("old", "new", "gone"), ("new", "old", "new")):
        text = (old if side == "old" else new).splitlines()
        shown = [getattr(pair, side) for pair in found if getattr(pair, side).number]
        assert all("".join(piece for piece, _ in s.pieces) == text[s.number - 1] for s in shown)
        alone = [getattr(pair, side).number for pair in found if pair.kind == gone]
        assert not [pair for pair in found if pair.kind == gone and getattr(pair, other).number]
        assert len(alone) + sum(pair.kind == "changed" for pair in found) == len(text) - same(found, old, new)
    assert bool(found) is (old.splitlines() != new.splitlines())


def same(found: list[difference.Pair], old: str, new: str) -> int:
    """How many lines both texts have in common, shown or not."""
    changes = [pair for pair in found if pair.kind not in ("same", "gap")]
    return len(old.splitlines()) - sum(bool(pair.old.number) for pair in changes)


def test_signs_tell_a_difference_without_its_colors_and_markup_is_text() -> None:
    for side_by_side in (True, False):
        made = difference.table(FIRST, SECOND + HOSTILE[0], ("attempt 1", "attempt 2"), side_by_side)
        signs = re.findall(r'class="sign">(.)<', made)
        assert {"-", "+"} <= set(signs)
        assert "&lt; &amp; &gt;" in made
        assert "<script" not in made


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server on a history of rope, wrong and then passed, and hostile words of dpo."""
    folder = tmp_path_factory.mktemp("web")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DOJO_HOME", str(folder))
        past = [remembered("rope", FIRST, "failed", 7000), remembered("rope", SECOND, "passed", 3600)]
        hostile = remembered("lora", "\n".join(HOSTILE), "failed", 500, " ".join(HOSTILE))
        assert database.remember([*past, hostile]) is None
    served = Server(copy_of_project(folder / "project"), folder)
    yield served
    served.stop()


def remembered(kata: str, text: str, word: str, ago: float, said: str = "off by one") -> database.Attempt:
    """An attempt of which one check failed, or none."""
    outcome = Outcome.PASSED if word == "passed" else Outcome.WRONG
    checks = [Check("test_a", Tier.CORE, Outcome.PASSED), Check("test_b", Tier.ROBUST, Outcome.PASSED)]
    checks.append(Check("test_c", Tier.CORE, outcome, 0.1, [Section(Label.FACTS, said)], diagnosis=said))
    verdict = Verdict(kata, said, word, checks, "cpu", "2.13.0", 1.0, 7)
    return database.Attempt(
        time.time() - ago, kata, "grade", word, verdict.tiers, [], 1.0, None, 0, text, verdict.to_json(pictures=True)
    )


@pytest.fixture
def tab(browser: Any, server: Server) -> Iterator[Any]:
    found = entered(browser, server)
    found.wait_for_selector(".katas a.kata")
    yield found
    found.context.close()


def shown(tab: Any) -> list[str]:
    """The katas that home shows."""
    return [link.inner_text() for link in tab.locator(".katas li:not(.hidden) a.kata").all() if link.is_visible()]


def found(tab: Any, words: str) -> str:
    """What home says about what was found, once it says these words."""
    from playwright.sync_api import expect

    said = tab.locator(".found[role=status]")
    expect(said).to_have_text(re.compile(words))
    return said.inner_text()


@in_browser
class TestHome:
    def test_it_tells_where_one_stands_and_what_is_next(self, tab: Any, server: Server) -> None:
        told = server.dojo("next").stdout.splitlines()
        assert tab.inner_text(".tally").startswith(f"1 of {COUNT} solved")
        assert tab.locator(".next li").count() == 3
        assert tab.inner_text(".next li >> nth=0").splitlines()[1].lower() in told[0].lower()
        assert "1 of 3" in tab.inner_text("#track-positions .track")

    def test_words_are_looked_for_in_names_titles_and_topics_and_all_must_be_found(self, tab: Any) -> None:
        tab.keyboard.press("/")
        tab.keyboard.type("masked rows")
        found(tab, rf"^\d of {COUNT}")
        assert {"sdpa", "mha"} <= set(shown(tab))
        assert "contract: Masked rows" in tab.inner_text("li:has(a[href='/kata/mha']) .topics")
        tab.fill("input[type=search]", "rotary")
        found(tab, rf"^1 of {COUNT}")
        assert shown(tab) == ["rope"]
        tab.fill("input[type=search]", "rotary masked")
        assert "No kata is like that" in found(tab, "No kata")

    def test_arrows_walk_from_kata_to_kata_and_the_way_back_keeps_the_search(self, tab: Any) -> None:
        tab.keyboard.press("/")
        tab.keyboard.type("softmax")
        found(tab, rf"^\d of {COUNT}")
        for key in ("ArrowDown", "ArrowDown", "ArrowUp"):
            tab.keyboard.press(key)
        assert tab.evaluate("document.activeElement.textContent") == "softmax"
        tab.keyboard.press("Enter")
        tab.wait_for_selector(".cm-content")
        tab.go_back()
        found(tab, rf"^\d of {COUNT}")
        assert tab.input_value("input[type=search]") == "softmax"

    def test_filters_go_by_level_minutes_and_state(self, tab: Any) -> None:
        katas = catalog.katas().values()
        level, minutes, state = (f"label:has-text('{name}') select" for name in ("Level", "Minutes", "State"))
        tab.select_option(level, "1")
        tab.select_option(minutes, "10")
        fit = {kata.name for kata in katas if kata.level == 1 and kata.minutes <= 10}
        found(tab, rf"^{len(fit)} of")
        assert set(shown(tab)) == fit
        tab.select_option(level, "")
        tab.select_option(minutes, "")
        tab.select_option(state, "passed")
        found(tab, "^1 of")
        assert shown(tab) == ["rope"]

    def test_what_a_terminal_grades_shows_without_a_reload(self, tab: Any, server: Server) -> None:
        from playwright.sync_api import expect

        tab.fill("input[type=search]", "softmax")
        state = tab.locator("li:has(a[href='/kata/softmax']) .state")
        expect(state).to_have_text("not started")
        stub = server.folder / "katas/basics/softmax.py"
        stub.write_text(master.solution_code(master.read_text(catalog.katas()["softmax"].master)), "utf-8")
        done = server.dojo("grade", "softmax")
        assert done.returncode == 0, done.stdout + done.stderr
        expect(state).to_have_text(re.compile("passed|right"), timeout=5000)
        assert tab.input_value("input[type=search]") == "softmax"
        expect(tab.locator(".tally")).to_have_text(re.compile(rf"2 of {COUNT} solved"))

    @pytest.mark.parametrize("words", HOSTILE[:4])
    def test_what_is_searched_for_is_text(self, tab: Any, server: Server, words: str) -> None:
        from urllib.parse import quote

        tab.goto(server.at(f"/?q={quote(words)}"))
        found(tab, "No kata")
        assert tab.input_value("input[type=search]") == words
        assert tab.evaluate("window.hacked") is None


@in_browser
class TestPlan:
    def test_it_is_made_here_refused_in_the_words_of_the_terminal_and_cleared_when_asked(
        self, tab: Any, server: Server
    ) -> None:
        from playwright.sync_api import expect

        tab.goto(server.at("/plan"))
        tab.wait_for_selector("form.plan")
        tab.evaluate("document.querySelector('form').noValidate = true")  # a browser may be older than its checks
        refused, day = tab.locator("form .trouble"), tab.locator("input[type=date]")
        day.fill("2020-01-01")
        tab.keyboard.press("Enter")
        expect(refused).to_have_text(f"2020-01-01 has passed: today is {date.today()}")
        day.fill((date.today() + timedelta(12)).isoformat())
        tab.fill("label:has-text('Hours') input", "0")
        tab.click("text=Make the plan")
        expect(refused).to_have_text("'0' is no number of hours between 0 and 2000")
        tab.fill("label:has-text('Hours') input", "6")
        tab.fill("label:has-text('know already') input", "ropee")
        tab.click("text=Make the plan")
        expect(refused).to_have_text(re.compile("no kata or track is called 'ropee': did you mean rope"))
        tab.fill("label:has-text('know already') input", "mha gqa")
        tab.click("text=Make the plan")
        expect(tab.locator(".done")).to_have_text("The plan is made.")
        days = tab.locator(".days > li")
        expect(days).not_to_have_count(0)
        told = " ".join(server.dojo("plan").stdout.split())
        for link in days.locator("a").all()[:3]:
            assert link.inner_text().removesuffix(" again") in told
        assert tab.inner_text(".track.whole .count") in told

        tab.click("text=Clear the plan")
        tab.wait_for_selector("dialog[open]")
        tab.keyboard.press("Escape")
        tab.wait_for_selector("dialog[open]", state="detached")
        assert days.count()
        tab.click("text=Clear the plan")
        tab.click("text=Forget it")
        expect(tab.locator(".done")).to_have_text(re.compile("The plan is forgotten; a copy is .*plan-.*json"))
        assert "there is no plan yet" in server.dojo("plan").stdout

    def test_a_plan_that_a_terminal_makes_shows_and_one_that_cannot_be_read_is_told(
        self, tab: Any, server: Server
    ) -> None:
        from playwright.sync_api import expect

        tab.goto(server.at("/plan"))
        tab.wait_for_selector("form.plan")
        server.dojo("plan", "--date", str(date.today() + timedelta(9)), "--hours", "5")
        expect(tab.locator(".days > li.today")).to_have_count(1, timeout=5000)
        (server.home / "plan.json").write_text("{")
        expect(tab.locator("[role=alert].trouble").first).to_contain_text("plan.json cannot be read")
        tab.goto(server.at("/"))
        expect(tab.locator(".trouble")).to_contain_text("plan.json cannot be read")
        assert shown(tab)
        (server.home / "plan.json").unlink()


@in_browser
class TestHistory:
    def test_it_lists_attempts_and_shows_what_two_differ_in_and_the_verdict_on_each(
        self, tab: Any, server: Server
    ) -> None:
        tab.goto(server.at("/history/rope"))
        rows = [row.inner_text().split("\t") for row in tab.locator(".attempts tbody tr").all()]
        assert [row[0] for row in rows] == ["2", "1"]
        assert rows[0][3] == "passed"
        assert rows[1][3:6] == ["wrong", "1/2", "1/1"]
        signs = [sign for sign in tab.locator(".broad .sign").all_inner_texts() if sign.strip()]
        assert signs == ["-", "+", "+"]
        tab.select_option("label:has-text('layout') select", "one")
        tab.wait_for_selector(".difference.one tr.old:has-text('return x')")
        tab.click("button[aria-label='Verdict of attempt 1']")
        tab.wait_for_selector("text=The verdict on attempt 1")
        assert "rope: wrong, 2 of 3 checks passed" in tab.inner_text("section[aria-label=Verdict]")
        tab.reload()
        tab.wait_for_selector("text=The verdict on attempt 1")
        assert tab.locator(".difference.one").count() == 1

    def test_an_attempt_is_brought_back_and_a_fresh_start_made_only_when_asked_and_with_a_copy(
        self, tab: Any, server: Server
    ) -> None:
        from playwright.sync_api import expect

        stub, done = server.folder / "katas/positions/rope.py", tab.locator(".done")
        mine = "# mine\n" + stub.read_text("utf-8")
        stub.write_text(mine, "utf-8")
        tab.goto(server.at("/history/rope"))
        tab.click("button[aria-label='Bring back of attempt 2']")
        tab.wait_for_function("() => document.activeElement.textContent.trim() == 'Leave it'")
        tab.keyboard.press("Enter")
        assert stub.read_text("utf-8") == mine
        tab.click("button[aria-label='Bring back of attempt 2']")
        tab.click("text=Bring attempt 2 back")
        expect(done).to_have_text(re.compile(r"rope\.py is the attempt of .* again; what was there is in \.dojo/kept/"))
        assert stub.read_text("utf-8") == SECOND
        (copy,) = (path for path in (server.folder / ".dojo/kept").glob("rope-*.py") if path.read_text("utf-8") == mine)
        assert copy.name in done.inner_text()
        tab.click("text=Start afresh …")
        tab.click("dialog >> text=Start afresh")
        expect(done).to_have_text(re.compile("is a fresh stub; what you had is in .dojo/kept/rope"))
        assert "raise NotImplementedError" in stub.read_text("utf-8")

    def test_a_hunts_attempt_is_not_brought_back_and_an_unknown_kata_is_told(self, tab: Any, server: Server) -> None:
        tab.goto(server.at("/history/ropee"))
        assert "did you mean rope" in tab.inner_text("body")
        tab.goto(server.at("/history/kmeans"))
        assert "kmeans has no history yet" in tab.inner_text("body")

    def test_what_attempts_say_is_text_in_history_and_report(self, tab: Any, server: Server) -> None:
        for path in ("/history/lora?verdict=1", "/report"):
            tab.goto(server.at(path))
            tab.wait_for_selector("h2")
            tab.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")
            tab.wait_for_timeout(300)
            assert "<script>window.hacked = 1</script>" in tab.inner_text("body")
            assert tab.evaluate("window.hacked") is None


@in_browser
def test_the_report_is_the_one_that_is_written_to_a_file_and_its_tables_sort(tab: Any, server: Server) -> None:
    tab.goto(server.at("/report"))
    tab.wait_for_selector("table.sortable")
    assert tab.locator("table.sortable tbody tr").count() == COUNT
    assert tab.locator("svg circle").count() >= 1
    head = tab.locator("th button", has_text="attempts")
    head.click()
    head.click()
    assert tab.inner_text("table.sortable tbody tr >> nth=0 >> th") == "rope"


@in_browser
def test_the_house_rules_are_those_of_the_docs_or_it_is_said_where_they_belong(tab: Any, server: Server) -> None:
    tab.goto(server.at("/rules"))
    assert "house_rules.md cannot be read" in tab.inner_text("body")
    (server.folder / "docs").mkdir()
    (server.folder / "docs/house_rules.md").write_bytes((catalog.ROOT / "docs/house_rules.md").read_bytes())
    tab.reload()
    assert tab.locator("article ol > li").count() == 12
    assert tab.locator("h1").count() == 1


@in_browser
def test_a_history_that_cannot_be_read_is_told_and_katas_are_shown(browser: Any, tmp_path: Path) -> None:
    (tmp_path / "attempts.sqlite").write_text("no database, but long enough to look like one" * 40)
    served = Server(copy_of_project(tmp_path / "project"), tmp_path)
    tab = entered(browser, served)
    tab.wait_for_selector(".katas a.kata")
    told = "it is not known what is solved: "
    assert told in tab.inner_text(".trouble")
    assert tab.inner_text(".trouble") in " ".join(served.dojo("list").stderr.split())
    tab.goto(served.at("/history/rope"))
    assert "move the file away" in tab.inner_text("body")
    tab.context.close()
    served.stop()


@in_browser
@pytest.mark.parametrize(
    ("width", "scheme"),
    [
        pytest.param(390, "dark", marks=pytest.mark.proof),
        (1280, "light"),
        pytest.param(390, "light", marks=pytest.mark.proof),
        pytest.param(1280, "dark", marks=pytest.mark.proof),
        pytest.param(2560, "light", marks=pytest.mark.proof),
        pytest.param(640, "light", marks=pytest.mark.proof),  # what a screen of 1280 has left at a zoom of 200 %
    ],
)
def test_everybody_can_read_every_page_and_nothing_moves_while_it_loads(
    browser: Any, server: Server, width: int, scheme: str
) -> None:
    from axe_playwright_python.sync_playwright import Axe

    how = {"viewport": {"width": width, "height": 844}, "color_scheme": scheme, "reduced_motion": "reduce"}
    tab = entered(browser, server, **how)
    tab.context.add_init_script(SHIFTS)
    for path in PAGES:
        tab.goto(server.at(path))
        tab.wait_for_selector("h1")
        tab.wait_for_timeout(700)
        assert tab.evaluate("window.shifted ?? 0") == 0, f"{path} moves"
        found = Axe().run(tab)
        assert found.violations_count == 0, f"{path}: {found.generate_report()}"
        assert tab.evaluate("document.documentElement.scrollWidth <= window.innerWidth"), f"{path} is too wide"
        assert tab.locator("h1").count() == 1
    tab.context.close()


@pytest.mark.proof
@in_browser
def test_home_shows_soon_and_twenty_loads_leave_nothing_behind(tab: Any, server: Server) -> None:
    def resident() -> float:
        time.sleep(7)  # seconds after which a page that was left is forgotten
        pages = int(Path(f"/proc/{server.process.pid}/statm").read_text().split()[1])
        return pages * 4096 / 2**20

    def load() -> float:
        begun = time.monotonic()
        tab.goto(server.at("/"))
        tab.wait_for_selector(".katas a.kata")
        return time.monotonic() - begun

    took = [load() for _ in range(LOADS)]
    before = resident()
    took += [load() for _ in range(LOADS)]
    assert resident() < before + GROWTH
    assert min(took) < SHOWN
