"""The measuring commands run, say what they found, and refuse what they cannot do in a sentence."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from benchmarks import at_7b, bench
from benchmarks.peers import PEERS, REASONS
from dojo.content import catalog, proofs
from dojo.content.catalog import ROOT
from dojo.proving import idiom

SMALL = 2, 64, 4, 2, 16, 64, 128, 100, 128  # sizes of `at_7b`, in their order there


def run(name: str, *words: str, status: int = 0) -> str:
    command = [sys.executable, f"benchmarks/{name}.py", *words]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.mark.proof
def test_mutants_are_counted_and_the_survivors_explained(tmp_path: Path) -> None:
    shown = run("mutants", "rmsnorm", "--out", str(tmp_path / "docs" / "mutants.md"))
    assert "| `rmsnorm` | 37 | 36 | 1 | 0 |" in shown
    page = (tmp_path / "docs" / "mutants.md").read_text()
    assert "float64 is wider" in page
    assert "Of the mutants that are mistakes, 100.0% are rejected." in page


@pytest.mark.proof
def test_a_soak_writes_what_it_ran_and_goes_on_from_there(tmp_path: Path) -> None:
    out = tmp_path / "soak.json"
    words = ["causal_mask", "--attempts", "0", "--bugs", "1", "--load", "1", "--press", "8", "--out", str(out)]
    assert "| causal_mask | 1 | 0 |" in run("soak", *words, "--solution", "1")
    assert json.loads(out.read_text())["causal_mask"]["solution"]["runs"] == 1
    assert "| causal_mask | 2 | 0 |" in run("soak", *words, "--solution", "2")


@pytest.mark.proof
def test_a_bench_writes_its_table_and_draws_its_plot(tmp_path: Path) -> None:
    page, plot = tmp_path / "bench.md", tmp_path / "bench.png"
    shown = run("bench", "lora", "causal_mask", "--pairs", "1", "--out", str(page), "--plot", str(plot))
    assert "nox -s bench -- lora causal_mask --pairs 1" in page.read_text()
    rows = [line.split(" | ") for line in shown.splitlines() if line.startswith("| `")]
    assert [cells[1] for cells in rows] == ["`causal_mask`", "`LoRALinear`"]
    assert [len(cell.split()) for cell in rows[1][3:8]] == [4, 4, 4, 4, 4]  # a ratio for each size
    assert rows[0][5] == "–", "a mask has no gradient"
    assert plot.read_bytes().startswith(b"\x89PNG")


def test_every_kata_of_tensors_has_a_peer() -> None:
    katas = [kata for kata in catalog.katas().values() if kata.track not in ("debug", "interviews")]
    tensors = {kata.name for kata in katas if next(idiom.subjects(kata), None)}
    assert tensors <= {each.kata for each in PEERS}  # one whose callable takes a function or an optimizer may have one
    assert {each.name for each in PEERS} >= set(REASONS)


def test_what_is_beyond_a_limit_is_marked_with_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(REASONS, "softmax", "it shows the shift")
    peer = next(each for each in PEERS if each.name == "softmax")
    slow = bench.Row(peer, [1.0, 1.21, 1.3], [0.9], [1.5], [1.51], [4.0], [4.1])
    assert slow.beyond() == ["time", "bytes"]
    marked = "| 1.00 **1.21** **1.30** | 0.90 | 1.50 | **1.51** | 4.00 (4.10) | time, bytes: it shows the shift |"
    assert marked in bench.table([slow])
    within = bench.Row(peer, [1.2, 1.3], [1.3], [1.5], [], [4.0], [4.0])
    assert not within.beyond()
    assert "it shows the shift" not in bench.table([within])


def test_bytes_are_all_that_a_call_is_given() -> None:
    x = torch.ones(1000)
    assert bench.allocated(lambda: (x + x) * x) == 2 * 4000
    assert bench.allocated(lambda: x[10:].view(-1)) == 0


def test_a_kata_without_tensors_is_refused() -> None:
    assert "nothing to measure against" in run("bench", "bpe_train", status=2)


@pytest.mark.proof
def test_clocks_count_false_alarms_and_misses() -> None:
    shown = run("clocks", "rmsnorm", "--races", "1", "--load", "0", "--slow", "20")  # one race must be no lottery
    races = 1 + len(proofs.right_attempts(catalog.katas()["rmsnorm"]))  # the solution's too
    assert f"In all {races} races of right attempts: 0 called slow" in shown
    assert "Of 1 slow ones 1 were caught" in shown


def test_margins_name_the_largest_error() -> None:
    assert "linear  " in run("margins", "linear", "--seeds", "3")


@pytest.mark.proof
@pytest.mark.parametrize("name", ["mutants", "soak", "bench", "margins", "clocks"])
def test_a_wrong_name_is_told_in_a_sentence(name: str) -> None:
    assert "did you mean rope" in run(name, "rpoe", status=2)


def test_without_a_gpu_what_needs_one_says_so() -> None:
    if not torch.cuda.is_available():
        assert "there is no GPU here" in run("bench", "linear", "--device", "cuda", status=2)
        assert "there is no GPU here" in run("on_gpu", "linear", status=2)


@pytest.mark.proof
@pytest.mark.parametrize("case", at_7b.CASES, ids=lambda case: case.name)
def test_what_is_measured_on_a_gpu_agrees_with_its_peer(case: at_7b.Case, monkeypatch: pytest.MonkeyPatch) -> None:
    small = dict(zip("BATCH SEQ HEADS KV_HEADS HEAD_DIM D_MODEL D_FF VOCAB TOKENS".split(), SMALL, strict=True))
    for name, size in small.items():
        monkeypatch.setattr(at_7b, name, size)
    clock = bench.seconds
    monkeypatch.setattr(bench, "seconds", lambda run, calls, device: clock(run, calls, "cpu"))
    for dtype in at_7b.DTYPES:
        found = at_7b.figures(case, dtype, pairs=1, moved=1e10, made=1e10)
        assert found.forward > 0
        assert (found.backward is not None) is case.backward
