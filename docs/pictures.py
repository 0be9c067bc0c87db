"""Takes docs/pictures/*.png, the main screens of the page in the browser, with a week of practice behind them.

`nox -s pictures` takes them anew; they need a Chromium.
"""

from __future__ import annotations

import io
import json
import sys
import tempfile
import time
from datetime import date, timedelta
from pathlib import Path
from typing import Any

from PIL import Image  # which matplotlib brings

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from dojo.content import catalog, master, proofs  # noqa: E402
from tests.conftest import chromium, copy_of_project  # noqa: E402
from tests.web import Server, entered, graded, typed  # noqa: E402

PICTURES = ROOT / "docs" / "pictures"
SIZE = {"width": 1280, "height": 800}
MOST, COLORS = 200_000, 256  # bytes of a picture, and its colors
# what was graded, how many days ago, and which of the kata's known bugs was in it; none in one that was right
WEEK = (
    ("softmax", 8.0, 0), ("softmax", 7.99, None), ("linear", 7.0, None), ("rmsnorm", 7.0, None), ("layernorm", 6.0, 0),
    ("sdpa", 6.0, 0), ("sdpa", 5.99, None), ("causal_mask", 5.0, None), ("rope", 3.0, 0), ("rope", 2.99, None),
    ("mha", 1.0, 0),
)  # fmt: skip


def main() -> None:
    """Practice for a week, and look."""
    PICTURES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, chromium() as opened:
        server = practised(Path(folder))
        try:
            for name, show in {"home": home, "wrong": wrong, "passed": passed, "interview": interview}.items():
                take(opened, server, name, show)
            take(opened, server, "home-dark", home, color_scheme="dark")
            take(opened, server, "history", lambda tab, server: tab.goto(server.at("/history/rope?old=1&new=2")))
            take(opened, server, "report", lambda tab, server: tab.goto(server.at("/report")))
        finally:
            server.stop()


def practised(folder: Path) -> Server:
    """A server on a copy of the project with that week in its history, and a plan."""
    project, attempt = copy_of_project(folder / "project"), folder / "attempt.py"
    server = Server(project, folder)
    for name, _, bug in WEEK:
        attempt.write_text(text_of(name, bug), "utf-8")
        catalog.katas(project)[name].stub.write_text(attempt.read_text("utf-8"), "utf-8")
        server.dojo("grade", name, "--seed", "7")
    exported = folder / "week.jsonl"
    server.dojo("history", "--export", str(exported))
    lines = [json.loads(line) for line in exported.read_text("utf-8").splitlines()]
    for line, (_, days, _) in zip(lines, WEEK, strict=True):
        line["at"] -= 86400 * days
    exported.write_text("\n".join(map(json.dumps, lines)), "utf-8")
    for old in folder.glob("attempts.sqlite*"):
        old.unlink()
    server.dojo("history", "--import", str(exported))
    for name in ("softmax", "rope"):
        server.dojo("reset", name)
    server.dojo("plan", "--date", str(date.today() + timedelta(12)), "--hours", "9", "--for", "inference")
    return server


def text_of(name: str, bug: int | None) -> str:
    """A kata's solution, with that known bug in it."""
    kata = catalog.katas()[name]
    text = master.read_text(kata.master)
    return master.solution_code(text if bug is None else proofs.bugs(kata)[bug].plant(text))


def home(tab: Any, server: Server) -> None:
    """Home, as it is opened."""
    tab.goto(server.at("/"))
    tab.wait_for_selector(".katas a.kata")


def wrong(tab: Any, server: Server) -> None:
    """A kata whose answer is wrong, and why."""
    tab.goto(server.at("/kata/rope"))
    tab.wait_for_selector(".cm-content")
    typed(tab, text_of("rope", 0))
    graded(tab)
    tab.evaluate("document.querySelector('.nicegui-codemirror').style.height = '15rem'")
    tab.keyboard.press("Control+Home")


def passed(tab: Any, server: Server) -> None:
    """A kata that has passed, and its solution explained."""
    tab.goto(server.at("/kata/softmax"))
    tab.wait_for_selector(".cm-content")
    typed(tab, text_of("softmax", None))
    graded(tab)
    tab.click("text=The solution, explained")
    tab.wait_for_timeout(1000)
    tab.evaluate(
        "[...document.querySelectorAll('summary')].find(s => /explained/.test(s.textContent)).scrollIntoView()"
    )


def interview(tab: Any, server: Server) -> None:
    """An interview in stages, begun."""
    tab.goto(server.at("/interviews?kind=ladder&kata=attention_ladder"))
    tab.click("text=Prepare it")
    tab.click(".start button")
    tab.wait_for_selector(".cm-content")


def take(opened: Any, server: Server, name: str, show: Any, **how: Any) -> None:
    """Go there, and take the picture."""
    tab = entered(opened, server, viewport=SIZE, reduced_motion="reduce", **how)
    show(tab, server)
    tab.mouse.move(0, 0)
    time.sleep(2)
    path = PICTURES / f"{name}.png"
    picture = Image.open(io.BytesIO(tab.screenshot()))
    picture.convert("RGB").quantize(COLORS, dither=Image.Dither.NONE).save(path, optimize=True)
    tab.context.close()
    size = path.stat().st_size
    assert size < MOST, f"{path} has {size} bytes, and a picture has at most {MOST}"
    print(f"{path.relative_to(ROOT)}: {size / 1000:.0f} KB", flush=True)


if __name__ == "__main__":
    main()
