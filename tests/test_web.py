"""The page of a kata in a real browser: a beginner's walk, two tabs, a terminal beside it, a server that is killed."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from dojo.content import catalog, lessons, master, proofs
from tests.conftest import copy_of_project, in_browser
from tests.test_attacks import HANGS, attacks
from tests.web import Server, entered, graded, typed, verdict

pytestmark = in_browser
ROPE = "katas/positions/rope.py"
HOSTILE = [
    "<script>window.hacked = 1</script>",
    "<img src=x onerror='window.hacked = 1'>",
    "<svg/onload='window.hacked = 1'>",
    "</pre><iframe srcdoc='<script>parent.hacked = 1</script>'></iframe>",
    "<a href='javascript:window.hacked = 1'>click</a>",
    "{{ 7 * 7 }} {% raw %}",
    "<style>body { display: none }</style>",
    "${window.hacked = 1}",
    "<math><mtext></form><form><mglyph><style></math><img src onerror='window.hacked = 1'>",
    "\u202egnisrever \u2066",
    "\x1b[2J\x1b[31mred\x07",
    "<details open ontoggle='window.hacked = 1'>",
    "' onmouseover='window.hacked = 1' x='",
    '"><body onload="window.hacked = 1">',
    "<!--><img src=x onerror='window.hacked = 1'>-->",
    "&lt;script&gt;window.hacked = 1&lt;/script&gt;",
    "<template><script>window.hacked = 1</script></template>",
    "<v-html>{{ constructor.constructor('window.hacked = 1')() }}</v-html>",
    "\u0000 \ufffe \u202e",
    "a" * 5000,
]

SUM_SHIFTS = """() => {
  window.moved = 0;
  // an editor that is opened scrolls to the code by itself, on a slow machine after grading was asked for
  const scrolled = ({node}) => !node || (node.closest ? node : node.parentElement)?.closest(".cm-content");
  new PerformanceObserver(list => list.getEntries().forEach(shift => {
    if (!shift.hadRecentInput && !shift.sources.every(scrolled)) window.moved += shift.value;
  })).observe({type: "layout-shift"});
}"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("web")
    served = Server(copy_of_project(folder / "project"), folder)
    yield served
    served.stop()


@pytest.fixture
def tab(browser: Any, server: Server) -> Iterator[Any]:
    """A tab at softmax's page, whose stub is fresh; what the test before has not saved is settled for the file."""
    kata = catalog.katas()["softmax"]
    (server.folder / kata.say(kata.stub)).write_text(master.stub_text(kata))
    found = entered(browser, server, "/kata/softmax")
    found.wait_for_selector(".cm-content")
    if found.locator("text=Take the file").count():
        found.click("text=Take the file")
    found.wait_for_function("() => document.querySelector('.cm-content').textContent.includes('def softmax')")
    yield found
    found.context.close()


def right(name: str) -> str:
    """The code of the reference."""
    return master.solution_code(master.read_text(catalog.katas()[name].master))


def test_a_beginners_walk_from_a_wrong_answer_to_the_next_kata(tab: Any):
    assert graded(tab).startswith("softmax: not started")
    bug = proofs.bugs(catalog.katas()["softmax"])[0]
    typed(tab, bug.plant(master.read_text(catalog.katas()["softmax"].master)))
    assert graded(tab).startswith("softmax: wrong")
    assert f"equals “{bug.name}”" in tab.inner_text(".verdict")
    assert tab.locator(".verdict img").count() == 3  # expected, got, error
    tab.click("text=Hint")
    tab.wait_for_selector(".hint")
    assert tab.locator("text=The solution, explained").count() == 0
    typed(tab, right("softmax"))
    assert graded(tab).startswith("softmax: passed with 1 hint")
    tab.click("text=The solution, explained")
    tab.wait_for_selector("text=Why it is done this way")
    tab.click("a:has-text('Next:')")
    tab.wait_for_url("**/kata/*")
    tab.wait_for_selector(".cm-content")


def test_a_syntax_error_is_told_and_its_line_marked(tab: Any):
    typed(tab, "def softmax(x, dim=-1):\n    return (\n")
    assert graded(tab).startswith("softmax: broken")
    assert "never closed" in tab.inner_text(".verdict")
    assert tab.locator(".cm-line.failing").count() == 1


@pytest.mark.proof
def test_one_check_can_be_graded_again_with_the_same_inputs(tab: Any):
    typed(tab, "import torch\n\n\ndef softmax(x, dim=-1):\n    return x.exp() / x.exp().sum()\n")
    seed = re.search(r"seed (\d+)", graded(tab) + tab.inner_text(".verdict"))
    tab.click("text=just this check >> nth=0")
    tab.wait_for_function("() => /all 1 checks/.test(document.querySelector('.verdict').textContent)")
    assert seed
    assert f"seed {seed[1]}" in tab.inner_text(".verdict")


@pytest.mark.proof
def test_an_endless_loop_shows_that_it_runs_and_can_be_canceled(tab: Any):
    typed(tab, "import torch\n\n\ndef softmax(x, dim=-1):\n    while True:\n        pass\n")
    tab.keyboard.press("Control+s")
    tab.wait_for_function("() => / [1-9]\\.\\d s/.test(document.querySelector('.verdict').textContent)")
    tab.click("text=Cancel")
    assert verdict(tab) == "softmax: canceled, and not judged"


@pytest.mark.proof
def test_cancel_ends_what_its_own_tab_asked_for(tab: Any, server: Server):
    typed(tab, "import torch\n\n\ndef softmax(x, dim=-1):\n    while True:\n        pass\n")
    other = tab.context.new_page()
    other.goto(server.at("/kata/rope"))
    other.wait_for_selector(".cm-content")
    tab.keyboard.press("Control+s")
    tab.wait_for_function("() => / [1-9]\\.\\d s/.test(document.querySelector('.verdict').textContent)")
    other.click("text=Save and grade")  # and waits for its turn
    other.click("text=Cancel")
    assert verdict(other) == "rope: canceled, and not judged"
    assert tab.inner_text(".verdict .line") == "grading softmax …"
    tab.click("text=Cancel")
    assert verdict(tab) == "softmax: canceled, and not judged"
    typed(tab, right("softmax"))
    assert graded(tab).startswith("softmax: passed")


def test_a_terminal_beside_the_page_and_the_page_have_one_truth(tab: Any, server: Server):
    path = server.folder / "katas/basics/softmax.py"
    path.write_text(right("softmax"))
    tab.wait_for_function("() => document.querySelector('.cm-content').textContent.includes('amax')")
    assert graded(tab).startswith("softmax: passed")
    assert "passed" in server.dojo("history", "softmax").stdout
    typed(tab, "# from the page\n")
    tab.wait_for_selector("text=not saved")
    path.write_text("# from the terminal\n")
    tab.wait_for_selector("text=was changed elsewhere")
    tab.keyboard.press("Control+s")
    assert path.read_text() == "# from the terminal\n"  # not before the user has chosen
    tab.click("text=Keep my edit")
    tab.wait_for_selector(".file >> text=saved")
    assert path.read_text() == "# from the page\n"
    kept = [copy.read_text() for copy in (server.folder / ".dojo/kept").glob("softmax-*.py")]
    assert "# from the terminal\n" in kept


@pytest.mark.proof
def test_two_tabs_show_one_draft_and_a_closed_one_loses_nothing(tab: Any, server: Server):
    other = tab.context.new_page()
    other.goto(tab.url)
    other.wait_for_selector(".cm-content")
    typed(tab, "# typed in the first\n")
    other.wait_for_function("() => document.querySelector('.cm-content').textContent.includes('typed in the first')")
    tab.close()
    third = other.context.new_page()
    third.goto(other.url)
    third.wait_for_function("() => document.querySelector('.cm-content').textContent.includes('typed in the first')")
    assert "typed in the first" not in (server.folder / "katas/basics/softmax.py").read_text()
    third.click(".cm-content")
    graded(third)  # saves it: the draft would be there for the next test too


def test_what_was_typed_is_there_after_the_server_was_killed(browser: Any, tmp_path: Path):
    server = Server(copy_of_project(tmp_path / "project"), tmp_path)
    tab = entered(browser, server, "/kata/rope")
    tab.wait_for_selector(".cm-content")
    typed(tab, "# not saved yet\n")
    tab.wait_for_selector("text=not saved")
    server.kill()
    # nothing can be typed where nothing keeps it
    tab.wait_for_function("() => document.body.inert")
    server.start()
    # the same tab comes back by itself
    tab.wait_for_function(
        "() => !document.body.inert && document.querySelector('.cm-content')?.textContent.includes('not saved yet')"
    )
    server.stop()
    tab.context.close()
    assert (server.folder / ".dojo" / "web.json").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    "start", [pytest.param(n, marks=[pytest.mark.proof] * bool(n)) for n in range(0, len(HOSTILE), 5)]
)
def test_what_an_attempt_says_is_text_and_never_markup(tab: Any, start: int):
    texts = HOSTILE[start : start + 5]
    says = "\n".join(f"print({text!a})" for text in texts)
    raises = f"raise ValueError({' '.join(texts)!a})"
    typed(tab, f"{says}\n\n\ndef softmax(x, dim=-1):\n    print({texts[0]!a})\n    {raises}\n")
    assert graded(tab).startswith("softmax: wrong")
    tab.wait_for_timeout(300)
    assert tab.evaluate("window.hacked") is None
    shown = tab.inner_text(".verdict")
    assert all(text[:20] in shown for text in texts if text.isascii() and text.isprintable() and len(text) < 200)
    assert tab.locator(".verdict iframe, .verdict script, .verdict form, .verdict a[href^=javascript]").count() == 0


@pytest.mark.proof
def test_a_long_file_and_a_long_print_do_not_hang_the_page(tab: Any, server: Server):
    lines = "\n".join(f"a{number} = {number}" for number in range(5000))
    path = server.folder / "katas/basics/softmax.py"
    path.write_text(f"{lines}\nprint('x' * 50_000_000)\n{right('softmax')}")
    tab.wait_for_function("() => /a\\d+ = \\d+/.test(document.querySelector('.cm-content').textContent)")
    tab.click(".cm-content")
    tab.keyboard.press("Control+Home")
    tab.keyboard.type("b = 0\n")
    assert graded(tab).startswith("softmax: passed")
    assert path.read_text().startswith("b = 0\na0 = 0\na1 = 1\n")
    assert len(tab.inner_text(".verdict")) < 50_000


def test_no_request_leaves_the_machine(browser: Any, server: Server):
    tab, asked = entered(browser, server), list[str]()
    tab.on("request", lambda request: asked.append(request.url))
    tab.goto(server.at("/kata/gqa"))
    tab.wait_for_selector(".cm-content")
    foreign = [
        url for url in asked if not url.startswith((server.at("/"), "data:", "blob:", f"ws://127.0.0.1:{server.port}/"))
    ]
    assert asked
    assert not foreign
    tab.context.close()


@pytest.mark.proof
def test_a_stage_is_opened_in_the_file_and_its_prompt_shown(browser: Any, server: Server):
    tab = entered(browser, server, "/kata/attention_ladder")
    tab.wait_for_selector(".cm-content")
    assert tab.locator("h2:has-text('Stage 2')").count() == 0
    tab.click("text=Open stage 2")
    tab.wait_for_selector("h2:has-text('Stage 2')")
    tab.context.close()


@pytest.mark.proof
def test_twenty_gradings_in_a_row_take_no_more_memory(browser: Any, server: Server):
    import psutil

    tab = entered(browser, server, "/kata/gqa")
    tab.wait_for_selector(".cm-content")
    typed(tab, right("gqa"))
    graded(tab)
    process = psutil.Process(server.process.pid)

    def memory() -> int:
        found = []
        for _ in range(10):  # what a grading leaves to be done is done within two seconds
            tab.wait_for_timeout(200)
            with suppress(psutil.NoSuchProcess):  # a worker may end meanwhile
                found.append(sum(each.memory_info().rss for each in [process, *process.children(recursive=True)]))
        return min(found)

    before = 0
    for number in range(20):
        if number == 5:
            before = memory()
        assert graded(tab).startswith("gqa: passed")
    assert memory() < 1.1 * before
    tab.context.close()


@pytest.mark.proof
def test_every_attack_fails_on_the_page_too_and_leaves_it_as_it_was(tab: Any, server: Server):
    path = server.folder / "katas/basics/softmax.py"
    for name, text in attacks().items():
        if name in HANGS:
            continue  # a grading that runs into its time limit is canceled above
        path.write_text(text)
        tab.wait_for_function("() => document.querySelector('.file').textContent.includes('saved')")
        tab.wait_for_timeout(700)  # until the editor has followed the file
        told = graded(tab)
        assert re.match(r"softmax: (wrong|broken|right)", told), (name, told)
        assert path.read_text() == text, name
    path.write_text(right("softmax"))
    tab.wait_for_timeout(700)
    assert graded(tab).startswith("softmax: passed")
    assert tab.evaluate("window.hacked") is None


@pytest.mark.proof
@pytest.mark.skipif(shutil.which("bwrap") is None, reason="no bubblewrap on this machine")
def test_who_lets_other_machines_in_has_attempts_in_the_sandbox(browser: Any, tmp_path: Path):
    server = Server(copy_of_project(tmp_path / "project"), tmp_path, "--host", "127.0.0.1")
    tab = entered(browser, server, "/kata/softmax")
    tab.wait_for_selector(".cm-content")
    typed(tab, f"import os\n\nassert not os.path.exists({str(server.folder / 'solutions')!r})\n{right('softmax')}")
    assert graded(tab).startswith("softmax: passed")
    server.stop()
    tab.context.close()


def test_the_door_is_shut_without_bubblewrap(tmp_path: Path):
    command = [sys.executable, "-m", "dojo", "web", "--host", "127.0.0.1", "--no-open"]
    found = subprocess.run(command, env=os.environ | {"PATH": str(tmp_path)}, capture_output=True, text=True)
    assert found.returncode == 2
    assert "needs bubblewrap" in found.stderr


TAUGHT = [kata.name for kata in catalog.katas().values() if lessons.of(kata)]


LESSONS = [pytest.param(name, marks=[pytest.mark.proof] * bool(n)) for n, name in enumerate(TAUGHT)]


@pytest.mark.parametrize("name", LESSONS)
def test_a_lesson_leads_from_a_wrong_step_to_its_name_to_the_right_one_and_to_the_kata(
    browser: Any, server: Server, name: str
):
    kata = catalog.katas()[name]
    tab = entered(browser, server, f"/kata/{name}")
    tab.wait_for_selector(".cm-content")
    tab.click("text=A lesson first")
    picture = tab.locator(".lesson img").first
    picture.wait_for()
    assert picture.evaluate("image => image.decode().then(() => image.naturalWidth)") > 300
    for step in lessons.of(kata).steps:
        place, verdict_of = tab.locator(".step").nth(step.number - 1), f".step >> nth={step.number - 1} >> .line"
        mistake = next(row for row in step.rows if not row.right)
        wrong = f"from math import inf, nan\n\n\ndef {step.name}(*_, **__):\n    return {mistake.value!r}\n"
        for text, told in ((wrong, "wrong"), (step.solved, "passed")):
            place.locator(".cm-content").click()
            tab.keyboard.press("Control+A")
            tab.keyboard.insert_text(text)
            tab.keyboard.press("Control+Enter")
            tab.wait_for_selector(f"{verdict_of} >> text=step {step.number}: {told}")
            if told == "wrong" and len({row.call for row in step.rows}) == 1:
                assert mistake.why in place.inner_text()
    (server.folder / kata.say(kata.stub)).write_text(right(name))
    tab.wait_for_timeout(800)  # until the editor has followed the file
    tab.click("text=Save and grade")
    tab.wait_for_function(f"() => /{name}: passed/.test(document.querySelector('.work .verdict .line').textContent)")
    tab.click("text=Look at it")
    tab.context.close()


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), pytest.param(390, "dark", marks=pytest.mark.proof)])
def test_everybody_can_use_the_page_of_a_kata_and_nothing_moves_while_a_verdict_comes(
    browser: Any, server: Server, width: int, scheme: str
):
    from axe_playwright_python.sync_playwright import Axe

    how = {"viewport": {"width": width, "height": 900}, "color_scheme": scheme, "reduced_motion": "reduce"}
    bug = proofs.bugs(catalog.katas()["gqa"])[0]
    path = server.folder / "katas/attention/gqa.py"
    path.write_text(bug.plant(master.read_text(catalog.katas()["gqa"].master)))
    tab = entered(browser, server, "/kata/gqa", **how)
    tab.wait_for_selector(".cm-content[aria-label]")
    tab.evaluate(SUM_SHIFTS)
    assert graded(tab).startswith("gqa: wrong")
    tab.wait_for_timeout(500)
    assert tab.evaluate("window.moved") < 0.01
    found = Axe().run(tab)
    assert not found.violations_count, found.generate_report()
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    tab.context.close()
