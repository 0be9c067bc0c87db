"""A lesson in JupyterLab, in a real browser: typed, run, read, saved, and graded again from the saved file."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page

from dojo.content import catalog, lessons, master
from tests.conftest import chromium, copy_of_project, in_browser

TOKEN = "of-this-test"  # nobody else can ask this server to run code
ANSWER = """\
import torch


def softmax(x, dim=-1):
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    e = (wide - wide.amax(dim, keepdim=True)).exp()
    return (e / e.sum(dim, keepdim=True)).to(x.dtype)
"""


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[tuple[Path, str]]:
    """The folder of a fresh project, and the address of a JupyterLab that serves it."""
    with served(tmp_path) as found:
        yield found


@pytest.fixture(scope="module")
def lab_of_lessons(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, str]]:
    """The same for several tests, each of another kata."""
    with served(tmp_path_factory.mktemp("lab")) as found:
        yield found


@contextmanager
def served(tmp_path: Path) -> Iterator[tuple[Path, str]]:
    """The folder of a fresh project, and the address of a JupyterLab that serves it as `nox -s lab` does."""
    folder = copy_of_project(tmp_path / "project")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    own = {f"JUPYTER_{kind}_DIR": str(tmp_path / kind) for kind in ("CONFIG", "DATA", "RUNTIME")}
    own |= {f"JUPYTERLAB_{kind}_DIR": str(tmp_path / kind) for kind in ("SETTINGS", "WORKSPACES")}
    own |= {"HOME": str(tmp_path), "DOJO_HOME": str(tmp_path / "history")}
    command = [sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", "--ServerApp.root_dir=."]
    command += [f"--ServerApp.port={port}", f"--IdentityProvider.token={TOKEN}", "--ServerApp.port_retries=0"]
    command += ["--ServerApp.contents_manager_class=dojo.notebook.paired.PairedFiles"]
    log = (tmp_path / "lab.log").open("wb")
    server = subprocess.Popen(command, cwd=folder, env=os.environ | own, stdout=log, stderr=log)
    deadline = time.monotonic() + 60
    while True:
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/api/status?token={TOKEN}", timeout=5).close()
            break
        except OSError:
            assert server.poll() is None, (tmp_path / "lab.log").read_text()
            assert time.monotonic() < deadline, (tmp_path / "lab.log").read_text()
            time.sleep(0.2)
    yield folder, f"http://127.0.0.1:{port}"
    server.send_signal(signal.SIGTERM)
    server.wait(30)
    log.close()


@contextmanager
def lab_page(address: str, path: str, height: int = 1400) -> Iterator[tuple[Page, Locator]]:
    """A notebook in the Lab of this address, once its kernel is there, alone on the page; and its code cells."""
    from playwright.sync_api import expect

    with chromium() as browser:
        page = browser.new_page(viewport={"width": 1200, "height": height})
        page.goto(f"{address}/lab/tree/{path}?reset&token={TOKEN}")
        expect(page.get_by_text("Python 3 (ipykernel) | Idle")).to_be_visible(timeout=60_000)
        yield page, page.locator(".jp-Notebook .jp-CodeCell")


@pytest.mark.proof
@in_browser
def test_an_answer_typed_in_lab_is_judged_there_saved_on_both_sides_and_graded_alike(lab, tmp_path: Path) -> None:
    from playwright.sync_api import expect

    folder, address = lab
    with lab_page(address, "notebooks/basics/softmax.ipynb") as (page, cells):
        stub = cells.filter(has_text="def softmax")
        stub.locator(".cm-content").click(timeout=60_000)
        page.keyboard.press("Control+a")
        page.keyboard.insert_text(ANSWER)
        page.keyboard.press("Shift+Enter")
        expect(stub.locator(".jp-InputPrompt")).to_contain_text("[1]", timeout=60_000)
        grading = cells.filter(has_text='check("softmax")')
        grading.locator(".cm-content").click()
        page.keyboard.press("Shift+Enter")
        shown = grading.locator(".jp-OutputArea-output").last
        expect(shown).to_contain_text("softmax: passed", timeout=90_000)
        expect(shown).to_contain_text(re.compile(r"(\d+) of \1 checks"))
        page.screenshot(path=os.environ.get("DOJO_SCREENSHOT", tmp_path / "lab.png"))
        page.keyboard.press("Control+s")
        kata = catalog.katas(folder)["softmax"]
        deadline = time.monotonic() + 30
        while "wide.amax" not in master.read_text(kata.stub):  # the server brings it up to date
            assert time.monotonic() < deadline
            time.sleep(0.2)
    done = subprocess.run(
        [sys.executable, "-m", "dojo", "grade", "softmax", "--no-record"],
        cwd=folder, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "softmax: passed" in done.stdout
    assert '# check("softmax")' in master.read_text(kata.stub)
    assert master.read_text(kata.stub).startswith("# %% [markdown]\n# # ")  # no header came with Jupytext


@pytest.mark.proof
@in_browser
def test_a_lesson_in_lab_leads_from_a_wrong_step_to_its_name_and_to_the_right_one(lab, tmp_path: Path) -> None:
    from playwright.sync_api import expect

    folder, address = lab
    with lab_page(address, "notebooks/basics/softmax.ipynb") as (page, cells):
        figure = page.locator(".jp-OutputArea-output img")
        expect(figure).to_have_attribute("alt", re.compile("Three curves over a factor"), timeout=60_000)
        assert figure.evaluate("image => image.naturalWidth") > 300, "it is drawn before anything has run"
        for source in ('figure("softmax")', "import torch"):
            cells.filter(has_text=source).first.locator(".cm-content").click()
            page.keyboard.press("Shift+Enter")
        step = cells.filter(has_text="def shifted")
        shown = step.locator(".jp-OutputArea-output").last
        for answer, told in (("min", "the smallest entry is subtracted"), ("max", "softmax step 1: passed")):
            step.locator(".cm-content").click()
            page.keyboard.press("Control+a")
            page.keyboard.insert_text(
                f'def shifted(row):\n    return row - row.{answer}()\n\n\ncheck("softmax", step=1)'
            )
            page.keyboard.press("Shift+Enter")
            expect(shown).to_contain_text(told, timeout=90_000)
            figure.scroll_into_view_if_needed()
            page.screenshot(path=os.environ.get("DOJO_SCREENSHOT", str(tmp_path / "lesson.png")))
        page.keyboard.press("Control+s")
        notebook, deadline = folder / "notebooks/basics/softmax.ipynb", time.monotonic() + 30
        while "row - row.max()" not in notebook.read_text("utf-8"):
            assert time.monotonic() < deadline
            time.sleep(0.2)
    stub = (folder / "katas/basics/softmax.py").read_text("utf-8")
    assert stub == master.stub_text(catalog.katas(folder)["softmax"])


@pytest.mark.proof
@in_browser
@pytest.mark.parametrize("name", [kata.name for kata in catalog.katas().values() if lessons.of(kata)])
def test_each_lesson_is_walked_in_lab_to_a_pass_of_its_kata(lab_of_lessons: tuple[Path, str], name: str) -> None:
    from playwright.sync_api import expect

    folder, address = lab_of_lessons
    kata = catalog.katas(folder)[name]
    lesson = lessons.of(kata)
    assert lesson is not None
    with lab_page(address, kata.say(kata.notebook), height=7000) as (page, cells):  # all cells at once
        picture = page.locator(".jp-OutputArea-output img").first
        expect(picture).to_have_attribute("alt", lesson.alternative, timeout=60_000)

        def run(cell: Locator, source: str = "", told: str = "") -> None:
            cell.locator(".cm-content").click(timeout=60_000)
            if source:
                page.keyboard.press("Control+a")
                page.keyboard.insert_text(source)
            page.keyboard.press("Shift+Enter")
            if told:
                expect(cell.locator(".jp-OutputArea-output").last).to_contain_text(told, timeout=120_000)

        run(cells.filter(has_text=f'figure("{name}")').first)
        run(cells.filter(has_text="from torch import").first)  # the kata's imports; an example has others
        for step in lesson.steps:
            cell, check = cells.filter(has_text=f"step={step.number})"), f'check("{name}", step={step.number})'
            mistake = next(row for row in step.rows if not row.right)
            wrong = f"from math import inf, nan\n\n\ndef {step.name}(*_, **__):\n    return {mistake.value!r}\n"
            run(cell, f"{wrong}\n\n{check}", f"step {step.number}: wrong")
            run(cell, f"{step.solution}\n\n\n{check}", f"step {step.number}: passed")
        stub = cells.filter(has_text="NotImplementedError").first
        run(stub, master.solution_code(master.read_text(kata.master)))
        run(cells.filter(has_text=f'check("{name}")').first, told=f"{name}: passed")
