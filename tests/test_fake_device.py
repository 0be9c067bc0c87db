"""Gradings on another device than the CPU: nothing of a check may be left behind there."""

from __future__ import annotations

import subprocess
import sys

import pytest

from dojo.content import catalog

TRACKS = sorted({kata.track for kata in catalog.katas().values()})


@pytest.mark.parametrize("track", TRACKS)
def test_each_check_passes_on_another_device(track: str) -> None:
    grade_on_fake_device(track)


@pytest.mark.proof
@pytest.mark.parametrize("track", TRACKS)
def test_solutions_pass_all_checks_on_another_device(track: str) -> None:
    grade_on_fake_device(track, "--everything")


def grade_on_fake_device(track: str, *more: str) -> None:
    names = [name for name, kata in catalog.katas().items() if kata.track == track]
    words = [sys.executable, "-m", "tests.fake_device", *names, *more]
    done = subprocess.run(words, cwd=catalog.ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]
    assert [line.partition(":")[0] for line in done.stdout.splitlines()] == names
