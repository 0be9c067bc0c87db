"""The page for the interviewer: it has what the candidate does not get, for every kata, and prints on two sheets."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from dojo.cli.main import main
from dojo.content import catalog, master, stages
from dojo.practice.interview import interviewer
from tests.conftest import BROWSER, BROWSER_FLAGS, in_browser

KATAS = catalog.katas()
LADDERS = [name for name, kata in KATAS.items() if stages.of(kata)]


def text_of(page: str) -> str:
    return " ".join(re.sub(r"<[^>]+>", "", page.partition("<main>")[2]).split())


@pytest.mark.parametrize("name", ["gqa", "debug_lm", *LADDERS])
def test_the_page_has_topics_hints_and_questions(name: str) -> None:
    page = interviewer.of_kata(KATAS[name])
    for topic in master.contract(KATAS[name]):
        assert f"<dt>{topic}</dt>" in page
    assert page.count("<li>") >= len(master.hints(KATAS[name])) + 2 * len(master.questions(KATAS[name]))
    assert f"{name} --attempt FILE --sandbox" in text_of(page)
    for stage in stages.of(KATAS[name]):
        assert f"Stage {stage.number} <small>{stage.minutes} min" in page
    assert "$" not in text_of(page), "formulas are in Unicode"


def test_a_log_is_shown_line_by_line() -> None:
    page = interviewer.of_kata(KATAS["trainer_ladder"])
    assert "\n  50  4.488  1.360  0.00296      64\n" in page
    assert "```" not in page


def test_every_kata_has_a_page() -> None:
    for kata in KATAS.values():
        assert interviewer.of_kata(kata).count("<section") >= 4, kata.name


@in_browser
@pytest.mark.parametrize("name", ["kv_cache", *LADDERS])
def test_it_prints_on_two_sheets(name: str, tmp_path: Path) -> None:
    page, printed = tmp_path / "page.html", tmp_path / "page.pdf"
    page.write_text(interviewer.of_kata(KATAS[name]), "utf-8")
    to = [f"--print-to-pdf={printed}", "--no-pdf-header-footer"]
    subprocess.run([str(BROWSER), "--headless", *BROWSER_FLAGS, *to, page.as_uri()], check=True, timeout=60)
    assert 1 <= len(re.findall(rb"/Type */Page\b", printed.read_bytes())) <= 2


def test_a_page_that_is_there_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "page.html"
    out.write_text("my notes")
    kept: list[bytes] = []
    monkeypatch.setattr("dojo.content.files.keep", lambda folder, path, content: kept.append(content))
    assert main(["interviewer", "gqa", "--out", str(out)]) == 0
    assert kept == [b"my notes"]
    assert "for the interviewer" in out.read_text("utf-8")
