"""Interviews on the page, in a real browser: a ladder, a hunt, a review, a reload, a kill, a terminal beside it."""

from __future__ import annotations

import json
import re
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dojo.content import catalog, master, stages
from dojo.content.catalog import Trouble
from dojo.grading.options import Entry
from dojo.practice.hunt import findings
from dojo.practice.interview import timed_session
from dojo.practice.interview.timed_session import End, TimedSession
from dojo.verdict.types import Verdict
from tests.conftest import copy_of_project, in_browser
from tests.test_stages import MADE_UP, NAME, body
from tests.web import Server, entered, verdict

live = pytest.importorskip("dojo.web.live")
HOSTILE = "<img src=x onerror='window.hacked = 1'> {{ 7 * 7 }}"
QUESTIONS = """

# %% [markdown] tags=["solution", "questions"]
# ### How many bytes have `n` floats?
#
# - Four each.
#
# Answer: `4 * n` bytes, within 5 %. Settings: `n` 8, 32.
#
# Source: a book
#
# ### Why a function?
#
# - It is **called**.
#
# Source: a book
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A page of a project with a made-up ladder in it."""
    folder = tmp_path_factory.mktemp("interviews")
    root = copy_of_project(folder / "project")
    proofs = root / "graders" / "interviews" / NAME
    proofs.mkdir(parents=True)
    (root / "solutions" / "interviews" / f"{NAME}.py").write_text((MADE_UP / f"{NAME}.py").read_text() + QUESTIONS)
    shutil.copy(MADE_UP / f"{NAME}_contract.py", proofs / "contract.py")
    served = Server(root, folder)
    yield served
    served.stop()


@pytest.fixture
def tab(browser: Any, server: Server) -> Iterator[Any]:
    made = entered(browser, server)
    yield made
    made.context.close()


def prepared(server: Server, *words: str) -> Path:
    """The folder of a session that a terminal has made for later."""
    done = server.dojo(*words, "--prepare")
    assert done.returncode == 0, done.stderr
    return Path(done.stdout.splitlines()[-1])


def at(server: Server, folder: Path) -> str:
    """The address of a session."""
    return server.at(f"/session/{folder.parent.name[:-1]}/{folder.name}")


def begin(tab: Any, server: Server, folder: Path) -> None:
    tab.goto(at(server, folder))
    tab.click(".start button")


def save(tab: Any, folder: Path, name: str, text: str) -> None:
    """Replace what stands in the editor, and save it by the key."""
    tab.click(".cm-content")
    tab.keyboard.press("Control+A")
    tab.keyboard.insert_text(text)
    tab.keyboard.press("Control+s")
    deadline = time.monotonic() + 20
    while (folder / f"{name}.py").read_text() != text:
        assert time.monotonic() < deadline
        time.sleep(0.02)


def end(tab: Any) -> None:
    tab.click("text=End it")
    tab.click(".q-dialog >> text=End it")


def state(folder: Path) -> dict[str, Any]:
    return json.loads((folder / timed_session.STATE).read_text())


def shows(tab: Any, words: str) -> None:
    tab.wait_for_function("words => document.body.innerText.includes(words)", arg=words)


def accessible(tab: Any) -> None:
    """Axe finds nothing, wide and narrow, and nothing is wider than a phone."""
    from axe_playwright_python.sync_playwright import Axe

    for width, scheme in ((1280, "light"), (390, "dark")):
        tab.set_viewport_size({"width": width, "height": 900})
        tab.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        tab.wait_for_timeout(300)
        found = Axe().run(tab, context={"exclude": [[".cm-editor"]]})
        assert found.violations_count == 0, found.generate_report()
        assert tab.evaluate("document.documentElement.scrollWidth") <= width
    tab.set_viewport_size({"width": 1280, "height": 900})
    tab.emulate_media(color_scheme="light")


@in_browser
def test_a_ladder_goes_through_two_stages_with_a_question_and_a_reload(tab: Any, server: Server) -> None:
    tab.goto(server.at(f"/interviews?kata={NAME}"))
    shows(tab, f"dojo mock {NAME}")
    tab.click("text=Prepare it")
    tab.wait_for_url("**/session/mock/*")
    shows(tab, "10 minutes from when you begin")
    folder = server.folder / "mocks" / tab.url.rpartition("/")[2]
    assert not state(folder)["spent"], "no clock runs before it begins"
    tab.click(".start button")
    tab.fill("input[aria-label='Ask the interviewer']", f"what about the shape? {HOSTILE}")
    tab.keyboard.press("Enter")
    shows(tab, "That of x")
    shows(tab, HOSTILE)
    first = (folder / f"{NAME}.py").read_text()
    assert "**Shape.**" not in first, "the contract is not handed out"
    save(tab, folder, NAME, body("return x * 2")(first))
    tab.click(".cm-content")
    tab.keyboard.press("Control+End")
    tab.keyboard.insert_text("\n# typed while it was graded\n")
    shows(tab, "Stage 2 of 3")
    shows(tab, "Now let me say how often")
    shows(tab, "not saved")
    assert "times=2" in (folder / f"{NAME}.py").read_text()
    before = state(folder)["spent"]
    tab.reload()
    shows(tab, "Now let me say how often")
    shows(tab, "what about the shape?")
    draft = "() => document.querySelector('.cm-content').cmTile?.view?.state?.doc.toString() ?? ''"
    assert "both changed" not in tab.inner_text("body"), tab.evaluate(draft)
    tab.keyboard.press("Control+s")
    tab.wait_for_function("() => document.querySelector('.file').innerText.includes('saved')")
    tab.wait_for_timeout(300)
    now = (folder / f"{NAME}.py").read_text()
    assert "# typed while it was graded" in now
    assert "def twice(x, times=2):" in now
    save(tab, folder, NAME, body("return x * times")(now))
    shows(tab, "Make it a layer")
    tab.click("text=Hide the clock")
    shows(tab, "Show the clock")
    assert "left" not in tab.inner_text(".clock")
    assert state(folder)["spent"] >= before
    end(tab)
    shows(tab, "Question 1 of 2")
    number = 4 * int(re.search(r"How many bytes have (\d+) floats", tab.inner_text(".question"))[1])
    tab.fill(".question input", f"{number} bytes")
    tab.keyboard.press("Enter")
    shows(tab, f"{number} bytes is right: {number} bytes for n = ")
    tab.click(".question button:has-text('easy')")
    shows(tab, "Question 2 of 2")
    tab.click("text=Leave the rest")
    tab.wait_for_selector(".scorecard")
    row = tab.locator(".scorecard tbody tr").first.inner_text()
    assert re.match(r"1\s+0:\d\d of 4 min\s+passed\s+Shape", row), row
    assert tab.get_by_role("link", name="linear", exact=True).is_visible(), "what to practice next"
    assert (state(folder)["end"], state(folder)["concluded"]) == (End.ENDED, True)
    assert tab.evaluate("window.hacked") is None
    accessible(tab)


@in_browser
@pytest.mark.proof
def test_a_server_that_is_killed_loses_nothing(browser: Any, server: Server) -> None:
    folder = prepared(server, "mock", NAME)
    tab = entered(browser, server)
    begin(tab, server, folder)
    tab.fill("input[aria-label='Ask the interviewer']", "which shape?")
    tab.keyboard.press("Enter")
    shows(tab, "That of x")
    first = (folder / f"{NAME}.py").read_text()
    save(tab, folder, NAME, body("return x * 2")(first))
    shows(tab, "Stage 2 of 3")
    tab.click("button:has-text('Hint')")
    shows(tab, "An argument with a default")
    tab.wait_for_timeout(2500)  # a heartbeat
    tab.click(".cm-content")
    tab.keyboard.press("Control+End")
    tab.keyboard.insert_text("# not saved yet")
    tab.wait_for_timeout(500)
    server.kill()
    kept = state(folder)
    assert (kept["stage"], kept["hinted"], kept["end"]) == (2, {"2": 1}, End.OPEN)
    tab.context.close()
    server.start()
    tab = entered(browser, server)
    tab.goto(at(server, folder))
    for words in ("Stage 2 of 3", "That of x", "An argument with a default", "not saved"):
        shows(tab, words)
    assert kept["spent"] <= state(folder)["spent"] < kept["spent"] + 10
    accessible(tab)
    beside = server.dojo("mock", "--resume", str(folder))
    assert "is open in another terminal, or on the page" in beside.stderr
    asked = server.dojo("ask", "the", "default", "--mock", str(folder))
    assert "As before" in asked.stdout
    shows(tab, "you asked: the default")
    tab.context.close()


@in_browser
@pytest.mark.proof
def test_a_hunt_is_solved_and_tells_what_was_planted(tab: Any, server: Server) -> None:
    folder = prepared(server, "hunt", "causal_mask", "--yes", "--seed", "1")
    begin(tab, server, folder)
    shows(tab, "find the bug in causal_mask.py")
    solution = master.solution_code(master.read_text(catalog.katas()["causal_mask"].master))
    save(tab, folder, "causal_mask", solution)
    tab.wait_for_selector(".scorecard")
    shows(tab, "solved in 0:")
    (name,) = state(folder)["planted"]["causal_mask"]
    shows(tab, f"Planted: {name}")
    shows(tab, "Your fix: ")
    assert "passed" in verdict(tab)
    tab.reload()
    shows(tab, f"Planted: {name}")
    accessible(tab)


@in_browser
@pytest.mark.proof
def test_a_review_hears_remarks_by_line(tab: Any, server: Server) -> None:
    folder = prepared(server, "review", "rope", "--yes", "--seed", "3")
    begin(tab, server, folder)
    bug, *_ = bugs = findings.of(timed_session.load(folder))
    line = bug.places[0][0]
    tab.click(f"button[aria-label='Remark on line {line}']")
    tab.fill("input[aria-label='What is wrong there']", HOSTILE)
    tab.keyboard.press("Enter")
    shows(tab, f"noted: line {line}.")
    assert tab.locator(".beside .pre-line").inner_text() == HOSTILE
    tab.fill("input[aria-label=Line]", "9999")
    tab.fill("input[aria-label='What is wrong there']", "nothing")
    tab.keyboard.press("Enter")
    shows(tab, "there is no line 9999: rope.py has 1 to")
    tab.fill("input[aria-label=Line]", "25")
    tab.fill("input[aria-label='What is wrong there']", "taken back soon")
    tab.keyboard.press("Enter")
    tab.click("button[aria-label='Take back the remark on line 25']")
    shows(tab, "taken back: line 25.")
    accessible(tab)
    tab.click("text=The review is done")
    tab.wait_for_selector(".scorecard")
    shows(tab, f"1 of {len(bugs)}")
    shows(tab, f"Found, line {line}: {bug.name}")
    shows(tab, f"You, at line {line}: {HOSTILE}")
    assert tab.evaluate("window.hacked") is None


@in_browser
def test_what_may_be_held_is_chosen_told_and_given_up(tab: Any, server: Server) -> None:
    tab.goto(server.at("/interviews?kind=hunt&kata=rope"))
    shows(tab, "You have not passed rope yet, and a hunt hands over the solution, bugs and all.")
    shows(tab, "dojo hunt rope")
    accessible(tab)
    tab.click("text=Prepare it")
    shows(tab, "You may leave this page.")
    tab.click(".card >> text=Cancel")
    shows(tab, "given up")
    tab.goto(server.at("/session/mock/..%2Fkatas"))
    assert "This cannot be shown" in tab.inner_text("body") or "404" in tab.inner_text("body")


@in_browser
@pytest.mark.proof
def test_a_patch_is_rejected_for_a_reason_and_mended(tab: Any, server: Server) -> None:
    folder = prepared(server, "hunt", "alibi", "--assistant", "--yes", "--seed", "0")
    begin(tab, server, folder)
    tab.click("text=Reject the patch")
    shows(tab, "say which line is wrong and why")
    tab.fill("input[aria-label=Line]", "3")
    tab.fill("input[aria-label='What is wrong there']", "looks odd")
    tab.keyboard.press("Enter")
    shows(tab, "noted: line 3.")
    tab.click("text=Reject the patch")
    shows(tab, "Your remarks")
    accessible(tab)
    end(tab)
    tab.wait_for_selector(".scorecard")
    shows(tab, "rejected, ")
    shows(tab, "False alarm" if not state(folder)["planted"]["alibi"] else "bugs named")


@in_browser
@pytest.mark.proof
def test_a_loop_is_silent_has_a_break_and_compares_numbers(tab: Any, server: Server) -> None:
    folder = prepared(server, "mock", "--track", "basics", "--minutes", "16", "--level", "1", "--real", "--seed", "1")
    begin(tab, server, folder)
    name = next(iter(sorted(folder.glob("1-*")))).name[2:]
    file = folder / f"1-{name}"
    save(tab, file, name, f"print({HOSTILE!r})\nassert 1 > 2\n")
    shows(tab, f"{name} is wrong on the example you gave")
    shows(tab, HOSTILE)
    assert tab.locator("button:has-text('Hint')").count() == 0
    end(tab)
    shows(tab, "Question 1 of")
    tab.locator(".question input, .question textarea").first.fill("12")
    tab.click("text=Show the points")
    shows(tab, "How well did you know it?")
    accessible(tab)
    tab.click(".question button:has-text('good')")
    shows(tab, "Question 2 of")
    tab.click("text=Leave the rest")
    shows(tab, "Round 1 is over. The clock stands still")
    spent = state(next(iter(sorted(folder.glob("2-*")))))["spent"]
    assert spent == 0


@in_browser
@pytest.mark.proof
def test_the_clock_stops_when_the_last_page_has_gone(browser: Any, server: Server) -> None:
    folder = prepared(server, "mock", NAME)
    tab = entered(browser, server)
    begin(tab, server, folder)
    shows(tab, "doubles a tensor")
    tab.context.close()
    time.sleep(live.GONE + 4)
    stopped = state(folder)["spent"]
    time.sleep(3)
    assert state(folder)["spent"] == stopped
    assert stopped < live.GONE + 5
    tab = entered(browser, server)
    tab.goto(at(server, folder))
    shows(tab, "doubles a tensor")
    tab.context.close()


def test_a_draft_grows_with_its_file(tmp_path: Path) -> None:
    from dojo.web.drafts import Draft

    path = tmp_path / "twice.py"
    path.write_text("a = 1\n")
    draft = Draft(path, tmp_path)
    draft.edit("a = 1\nb = 2\n")
    path.write_text("a = 1\nc = 3\n")
    draft.grow(lambda text: f"{text}c = 3\n")
    assert (draft.text, draft.conflict, draft.unsaved) == ("a = 1\nb = 2\nc = 3\n", False, True)
    path.write_text("else\n")

    def fails(text: str) -> str:
        raise Trouble("no")

    draft.grow(fails)
    assert draft.conflict


def test_troubles_of_the_judge_are_raised() -> None:
    class Dead:
        seed = 1

        def grade(self, *_: object) -> Verdict:
            raise RuntimeError("it died")

    with pytest.raises(RuntimeError, match="died"):
        live.JudgeGrader(Dead(), diagnose=True).grade(Entry.of_solution(catalog.katas()["softmax"]))


def test_one_process_holds_a_session(tmp_path: Path) -> None:
    import subprocess
    import sys

    held = TimedSession(tmp_path, "mock", ["softmax"], 60.0)
    held.save()
    program = (
        "import pathlib, sys; from dojo.practice.interview import timed_session as t\n"
        "with t.alone(t.load(pathlib.Path(sys.argv[1]))): pass"
    )
    words = [sys.executable, "-c", program, str(tmp_path)]
    with timed_session.alone(held):
        refused = subprocess.run(words, capture_output=True, text=True, cwd=catalog.ROOT)
    assert "is open in another terminal, or on the page" in refused.stderr
    assert subprocess.run(words, capture_output=True, cwd=catalog.ROOT).returncode == 0


def test_the_round_that_is_held_is_the_first_with_code_left(tmp_path: Path) -> None:
    over, open_ = (TimedSession(tmp_path, "mock", ["softmax"], 60.0, end=end) for end in (End.ENDED, End.OPEN))
    assert live.current([over, open_, open_]) is open_
    assert live.current([over, over]) is over
    assert stages.of(catalog.katas()["softmax"]) == ()
    with pytest.raises(Trouble, match="there is no mock of the name"):
        live.find(None, "mock", "../katas")
