"""`prove`: a kata that holds, one that does not, and where each fault is said to stand."""

from __future__ import annotations

import io
import re
import shutil
from pathlib import Path

import pytest

from dojo.content import catalog
from dojo.judge.fork_server import ForkServer
from dojo.proving import mutants, price, prove
from tests.conftest import SEED

KATAS = catalog.katas()


@pytest.fixture
def kata(tmp_path: Path) -> catalog.Kata:
    """causal_mask in a project of its own, which may be spoiled."""
    for folder in ("solutions", "graders", "katas", "notebooks"):
        shutil.copytree(catalog.ROOT / folder / "attention", tmp_path / folder / "attention")
    return catalog.katas(tmp_path)["causal_mask"]


def test_the_plan_the_steps_and_the_price_are_told() -> None:
    out = io.StringIO()
    steps = [step for step in prove.STEPS if step.name in ("files", "stub")]
    assert not any(each.faults for each in prove.prove(KATAS["causal_mask"], steps, SEED, out))
    said = out.getvalue()
    assert said.startswith("proving causal_mask, 2 steps:\n  files    stub and notebook are what the master gives")
    assert re.search(r"\n  stub     holds +\d+\.\d CPU-s\n", said)
    assert re.search(r"\ncausal_mask: proven · \d+ lines by hand · \d+\.\d CPU-seconds\n$", said)


def test_a_row_that_no_check_rejects_is_told_with_its_line(kata: catalog.Kata, server: ForkServer) -> None:
    table = kata.proofs / "wrong.txt"
    lines = table.read_text().count("\n")
    line = "return key_position <= query_position[:, None]"
    same = "return torch.le(key_position, query_position[:, None])"
    table.write_text(f"{table.read_text()}\nthe same  [mistake]\n    {line}  →  {same}\n")
    said = prove.faults(kata, ["wrong"], server, SEED)
    assert said == [f"graders/attention/causal_mask/wrong.txt:{lines + 2}: no check fails 'the same'"]


def test_what_does_not_fit_and_what_is_stale_is_told(kata: catalog.Kata, server: ForkServer) -> None:
    with (kata.proofs / "wrong.txt").open("a") as table:
        table.write("\nnowhere  [mistake]\n    a line that is not there  →  x\n")
    kata.notebook.unlink()
    stale, unfit = prove.faults(kata, ["files"], server, SEED)
    assert stale == "notebooks/attention/causal_mask.ipynb: not what the master gives: run `build`"
    assert re.fullmatch(r"graders/\S+/wrong.txt:\d+: 'a line that is not there' does not stand in the code", unfit)


def test_a_row_that_gives_no_python_is_told_with_its_line(kata: catalog.Kata, server: ForkServer) -> None:
    with (kata.proofs / "wrong.txt").open("a") as table:
        table.write("\nunfinished  [mistake]\n    return key_position <= query_position[:, None]  →  return (\n")
    (said,) = prove.faults(kata, ["files"], server, SEED)
    told = r"graders/\S+/wrong.txt:\d+: with 'unfinished' line \d+ is no Python: '\(' was never closed"
    assert re.fullmatch(told, said)


def test_a_right_answer_that_fails_is_told_by_its_file(kata: catalog.Kata, server: ForkServer) -> None:
    right = kata.proofs / "right" / "upside_down.py"
    right.parent.mkdir(exist_ok=True)
    right.write_text("import torch\ndef causal_mask(q_len, k_len=None, *, device=None):\n    return torch.ones(1)\n")
    said = prove.faults(kata, ["right"], server, SEED)
    assert said
    assert all(line.startswith("graders/attention/causal_mask/right/upside_down.py: ") for line in said)


def test_a_mutant_knows_its_line() -> None:
    found = list(mutants.mutants("def f(x):\n\n    return x + 1\n"))
    assert (3, "return x + 1  →  return x - 1") in [(number, change) for _, number, change in found]


def test_the_price_that_is_quoted_is_the_price() -> None:
    (told,) = re.findall(r"(\d+) lines by\s+hand in the mean", (catalog.ROOT / "README.md").read_text())
    assert int(told) == round(price.mean(KATAS.values()))
