"""Gradings on another device than the CPU: nothing of a check may be left behind there."""

from __future__ import annotations

import subprocess
import sys

import pytest

from dojo.content import catalog

UNTIED = {
    "gpt2"
}  # a module that is moved to the fake device gets parameters of its own for each name, so none are tied
TRACKS = {
    kata.track: [each.name for each in catalog.katas().values() if each.track == kata.track and each.name not in UNTIED]
    for kata in catalog.katas().values()
}


def test_a_solution_passes_on_another_device_be_it_a_function_a_module_or_an_optimizer() -> None:
    grade_on_fake_device(["softmax", "mha", "adamw"])


@pytest.mark.proof
@pytest.mark.parametrize("track", TRACKS)
def test_solutions_pass_on_another_device(track: str) -> None:
    grade_on_fake_device(TRACKS[track])


def grade_on_fake_device(names: list[str]) -> None:
    words = [sys.executable, "-m", "tests.fake_device", *names]
    done = subprocess.run(words, cwd=catalog.ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]
    assert [line.partition(":")[0] for line in done.stdout.splitlines()] == names
