"""The measuring commands run, say what they found, and refuse what they cannot do in a sentence."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from dojo.content import catalog, proofs
from dojo.content.catalog import ROOT


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
def test_a_bench_draws_its_table_and_its_plot(tmp_path: Path) -> None:
    shown = run("bench", "softmax", "swiglu", "--pairs", "3", "--plot", str(tmp_path / "bench.png"))
    assert "| `softmax` | `softmax` | " in shown
    assert "| `swiglu` | `SwiGLU` | " in shown
    assert (tmp_path / "bench.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.proof
def test_clocks_count_false_alarms_and_misses() -> None:
    shown = run("clocks", "rmsnorm", "--races", "1", "--load", "0", "--slow", "20")  # one race must be no lottery
    races = 1 + len(proofs.right_attempts(catalog.katas()["rmsnorm"]))  # the solution's too
    assert f"In all {races} races of right attempts: 0 called slow" in shown
    assert "Of 1 slow ones 1 were caught" in shown


def test_margins_name_the_largest_error() -> None:
    assert "linear  " in run("margins", "linear", "--seeds", "3")


@pytest.mark.parametrize("name", ["mutants", "soak", "bench", "margins", "clocks"])
def test_a_wrong_name_is_told_in_a_sentence(name: str) -> None:
    assert "did you mean rope" in run(name, "rpoe", status=2)


def test_without_a_gpu_the_bench_says_so() -> None:
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        assert "there is no GPU here" in run("bench", "linear", "--device", "cuda", status=2)
