"""A failing call as a script: it runs by itself, shows what came and what must come, and says nothing of the dojo."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from dojo.content import catalog, master, proofs
from dojo.grading.options import Entry, Options
from dojo.grading.run import run
from dojo.judge.fork_server import ForkServer
from dojo.verdict import repro
from dojo.verdict.causes import causes
from tests.conftest import SEED


def written(kata: catalog.Kata, source: str, server: ForkServer, folder: Path) -> Path:
    """The script of the first failing call of this attempt."""
    attempt, script = folder / "attempt.py", folder / "failing.py"
    attempt.write_text(source)
    verdict = run([Entry.of_file(kata, attempt)], Options(SEED, scripts=True), server)[0]
    repro.write(script, next(c.check.script for c in causes(verdict.checks) if c.check.script), attempt, catalog.ROOT)
    return script


def ran(script: Path) -> str:
    done = subprocess.run([sys.executable, script], cwd=script.parent, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    ("name", "bug"),
    [
        ("softmax", "dim ignored: always the last dimension"),
        ("batchnorm", "batch statistics in evaluation"),
        *(
            pytest.param(*each, marks=pytest.mark.proof)
            for each in (
                ("linear", "the result scaled by its standard deviation"),
                ("activations", "a gradient of 0 at exactly 0"),
                ("swiglu", "silu whose gradient is nan far below zero"),
                ("batchnorm", "unbiased in the result"),
                ("manual_backprop", "the weight left out of grad_x"),
            )
        ),
    ],
)
def test_the_script_shows_that_what_came_is_not_what_must(
    name: str, bug: str, server: ForkServer, tmp_path: Path
) -> None:
    kata = catalog.katas()[name]
    planted = next(each for each in proofs.bugs(kata) if each.name == bug)
    script = written(kata, planted.plant(master.read_text(kata.master)), server, tmp_path)
    assert float(ran(script).rpartition("largest difference ")[2]) != 0
    code = "\n".join(line for line in script.read_text().splitlines() if "path" not in line)
    assert "dojo" not in code


def test_what_the_attempt_raised_cannot_run_in_the_script(server: ForkServer, tmp_path: Path) -> None:
    text = "'''\\n\\\"\\\"\\\"\\nprint('taken over')\\n\\rprint('taken over')\\u2028print('taken over')"
    source = f'def softmax(x, dim=-1):\n    raise ValueError("{text}")\n'
    script = written(catalog.katas()["softmax"], source, server, tmp_path)
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=60)
    assert "taken over" not in done.stdout
    assert done.stderr.rstrip().splitlines()[-1] != ""
    assert "attempt.py" in done.stderr


def test_what_is_too_large_for_a_script_is_said() -> None:
    import torch

    call = repro.FailingCall("f", None, {}, (torch.zeros(repro.MOST + 1),), {}, ("x",))
    with pytest.raises(ValueError, match="100001 numbers"):
        call.script("title")
