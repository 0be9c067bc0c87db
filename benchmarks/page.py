"""The page in the browser: how soon it is up, how long a grading takes on it, and what it needs of memory.

    nox -s bench -- page [KATA ...] [--rounds 5]

Being up is told as a ratio to `import torch`, measured in turn with it. Gradings are timed in Chromium, from the key to
the verdict, of a known bug on a page just opened and then of the solution typed over it, the first round aside. Memory
is the proportional set size of the server, its judge and all workers.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(PROJECT))

from benchmarks import subjects  # noqa: E402
from benchmarks.speed import family, proportional_bytes  # noqa: E402
from dojo.content import catalog, master, proofs  # noqa: E402
from tests.conftest import chromium, copy_of_project  # noqa: E402
from tests.web import Server, entered, typed  # noqa: E402

KATAS = ["softmax", "rope", "gqa", "kv_cache", "adamw", "lm"]
TIMED = """() => {
  const line = document.querySelector(".verdict .line");
  let begun;
  document.addEventListener("keydown", () => begun = performance.now(), {capture: true});
  window.timed = new Promise(resolve => new MutationObserver((_, self) => {
    if (/grading/.test(line.textContent)) return;
    self.disconnect();
    requestAnimationFrame(() => resolve(performance.now() - begun));
  }).observe(line, {childList: true, characterData: true, subtree: true}));
}"""
UP, GRADED, LOADED = 2.5, 0.5, 1.5  # the goals: times `import torch`; seconds in the median; seconds


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="KATA", default=KATAS, help="katas or tracks that are graded")
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    katas, rounds = subjects.chosen(parser, args.names), args.rounds
    folder = Path(tempfile.mkdtemp(prefix="dojo-page-"))
    project = copy_of_project(folder / "project")
    torch, up = list[float](), list[float]()
    for _ in range(rounds):
        torch.append(_clocked(lambda: subprocess.run([sys.executable, "-c", "import torch"], check=True)))
        begun = time.perf_counter()
        server = Server(project, folder)
        up.append(time.perf_counter() - begun)
        server.stop()
    ratio = statistics.median(up) / statistics.median(torch)
    print(f"up in {statistics.median(up):.2f} s, {ratio:.2f} x `import torch` (goal {UP})", flush=True)
    server = Server(project, folder)
    with chromium() as opened:
        tab = entered(opened, server)
        for path, mark in (("/", "h1"), ("/kata/gqa", ".cm-content")):
            times = [_clocked(lambda path=path, mark=mark: _loaded(tab, server.at(path), mark)) for _ in range(rounds)]
            print(f"{path} shown in {statistics.median(times):.2f} s (goal {LOADED})", flush=True)
        medians = dict[str, list[float]](wrong=[], mended=[])
        for kata in katas:
            times = dict[str, list[float]](wrong=[], mended=[])
            for _ in range(rounds + 1):
                for what, seconds in _graded_and_mended(tab, server, kata).items():
                    times[what].append(seconds)
            for what, each in times.items():
                medians[what].append(statistics.median(each[1:]))  # the first knows no oracle
            print(f"{kata.name}: {', '.join(f'{what} {each[-1]:.2f} s' for what, each in medians.items())}", flush=True)
        told = ", ".join(f"{what} {statistics.median(each):.2f} s" for what, each in medians.items())
        print(f"all: {told} in the median (goal {GRADED})")
    used = sum(map(proportional_bytes, family(server.process.pid)))
    alone = proportional_bytes(server.process.pid)
    print(f"memory: {used >> 20} MiB, the server alone {alone >> 20}")
    server.stop()
    return 0


def _clocked(what: Callable[[], object]) -> float:
    begun = time.perf_counter()
    what()
    return time.perf_counter() - begun


def _graded_and_mended(tab: Any, server: Server, kata: catalog.Kata) -> dict[str, float]:
    """Seconds that a wrong answer takes on a page just opened, and then the right one."""
    right = master.read_text(kata.master)
    (server.folder / kata.say(kata.stub)).write_text(proofs.bugs(kata)[0].plant(right))
    _loaded(tab, server.at(f"/kata/{kata.name}"), ".cm-content")
    tab.wait_for_timeout(1000)  # it opens at the code, and the judge may be preparing
    wrong = _until_the_verdict(tab)
    typed(tab, right)
    tab.wait_for_timeout(500)
    return {"wrong": wrong, "mended": _until_the_verdict(tab)}


def _until_the_verdict(tab: Any) -> float:
    """Seconds from the key to the verdict, by the clock of the page: to look at it all the time would slow it down."""
    tab.evaluate(TIMED)
    tab.keyboard.press("Control+Enter")
    return tab.evaluate("window.timed") / 1000


def _loaded(tab: Any, address: str, mark: str) -> None:
    tab.goto(address)
    tab.wait_for_selector(mark)


if __name__ == "__main__":
    sys.exit(main())
