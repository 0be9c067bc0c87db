"""Strange files as attempts: each is graded or refused in a sentence, and none crashes or hangs the judge."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dojo.content import catalog, master
from dojo.content.catalog import ROOT, Trouble
from dojo.grading import options
from tests.conftest import Grade, told

KATA = catalog.katas()["softmax"]
RIGHT = master.solution_code(master.read_text(KATA.master))


def graded_file(path: Path, *words: str) -> tuple[int, str]:
    command = [sys.executable, "-m", "dojo", "grade", "softmax", "--attempt", str(path), "--no-record", *words]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize("link", [os.symlink, os.link])
def test_a_link_to_the_solution_is_refused(tmp_path: Path, link) -> None:
    path = tmp_path / "attempt.py"
    try:
        link(KATA.master, path)
    except OSError:
        pytest.skip("no such links between these file systems")
    status, said = graded_file(path)
    assert status == 2
    assert "is a link to solutions/basics/softmax.py, the answer itself" in said


def test_a_link_to_an_attempt_and_a_path_with_dots_are_graded(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "mine.py").write_text(RIGHT)
    (tmp_path / "link.py").symlink_to(tmp_path / "mine.py")
    assert options.read(tmp_path / "link.py") == RIGHT
    assert options.read(tmp_path / "folder" / ".." / "mine.py") == RIGHT


@pytest.mark.parametrize("name", ["huge.py", "huge.ipynb"])
def test_two_gigabytes_are_refused_at_once(tmp_path: Path, name: str) -> None:
    with (tmp_path / name).open("wb") as file:
        file.truncate(2 << 30)
    with pytest.raises(Trouble, match="has 2147483648 bytes; an attempt has at most 4194304"):
        options.read(tmp_path / name)


def test_what_is_no_regular_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.py")
    with pytest.raises(Trouble, match="no regular file"):
        options.read(tmp_path / "pipe.py")
    with pytest.raises(Trouble, match="is a folder"):
        options.read(tmp_path)
    with pytest.raises(Trouble, match=r"there is no file .*rope\.py"):
        options.read(tmp_path / "rope.py")


def test_bytes_that_are_no_text_are_refused_and_a_mark_of_order_is_read(tmp_path: Path, graded: Grade) -> None:
    (tmp_path / "latin.py").write_bytes("# é\n".encode("latin-1"))
    with pytest.raises(Trouble, match=r"is not UTF-8 text \(byte 2\): save it as UTF-8"):
        options.read(tmp_path / "latin.py")
    (tmp_path / "mark.py").write_bytes(b"\xef\xbb\xbf" + RIGHT.encode())
    assert graded("softmax", options.read(tmp_path / "mark.py")).verdict == "passed"


@pytest.mark.parametrize(
    ("source", "says"),
    [
        (RIGHT + "\0", "null bytes"),
        (RIGHT + "\nx = " + "(" * 5000 + ")" * 5000, "too many nested parentheses"),
        (RIGHT + "\nx = " + "-" * 200_000 + "1", "Error"),
        (RIGHT + "\nx = " + "+".join(["1"] * 50_000), "Error"),
        ("\ud800".encode("utf-8", "surrogatepass").decode("utf-8", "replace"), "SyntaxError"),
    ],
    ids=["null", "parentheses", "signs", "sum", "replacement"],
)
def test_a_source_that_chokes_the_parser_is_broken_and_told(source: str, says: str, graded: Grade) -> None:
    verdict = graded("softmax", source)
    assert verdict.verdict == "broken"
    assert says in told(verdict)


def test_a_file_that_goes_away_while_it_is_graded_is_graded_all_the_same(tmp_path: Path) -> None:
    path = tmp_path / "attempt.py"
    path.write_text(RIGHT)
    command = [sys.executable, "-m", "dojo", "grade", "softmax", "--attempt", str(path), "--no-record"]
    environment = os.environ | {"PYTHONUNBUFFERED": "1"}
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, env=environment)

    time.sleep(1.0)  # read by now or never: the judge is still importing torch
    path.unlink()
    shown, _ = process.communicate(timeout=120)
    assert process.returncode == 0
    assert "softmax: passed" in shown
