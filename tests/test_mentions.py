"""What is listed for a person to look at: every way that our attacks take, and nothing that a right attempt does."""

from __future__ import annotations

import pytest

from dojo.content import catalog, proofs
from dojo.content.master import read_text
from dojo.grading.telling.mentions import mentions
from tests.conftest import Grade

SOLUTION = read_text(catalog.katas()["softmax"].master)


def test_no_right_attempt_mentions_anything() -> None:
    right = {
        f"{name} {style}": source
        for name, kata in catalog.katas().items()
        for style, source in ({"solution": read_text(kata.master)} | proofs.right_attempts(kata)).items()
    }
    assert len(right) > 300
    found = {name: mentions({"": source}) for name, source in right.items()}
    assert {name: words for name, words in found.items() if words} == {}


@pytest.mark.parametrize(
    ("source", "word"),
    [
        ("import sys\nsys._getframe()", "sys (line 1)"),
        ("import torch\ntorch.equal = lambda a, b: True", "torch.equal = … (line 2)"),
        ("import torch\nx = getattr(torch, 'soft' + 'max')", "getattr of torch (line 2)"),
        ("from torch.utils._python_dispatch import _disable_current_modes", "_disable_current_modes (line 1)"),
        ("import torch\ntorch.ops.aten.softmax.int", "torch.ops (line 2)"),
        ("from dojo.judge import proxy", "dojo.judge (line 1)"),
        ("().__class__.__base__.__subclasses__()", "__subclasses__ (line 1)"),
        ("def f():\n    return eval('1')", "eval (line 2)"),
    ],
)
def test_a_way_around_the_judge_is_listed_with_its_line(source: str, word: str) -> None:
    assert word in mentions({"": source})


def test_what_a_notebook_brings_is_not_listed_and_its_cells_are_named() -> None:
    assert mentions({"": "from dojo import check"}) == []
    assert mentions({"cell 3, ": "import gc"}) == ["gc (cell 3, line 1)"]
    assert mentions({"": "def f(:"}) == []


def test_a_verdict_says_what_is_mentioned_and_judges_nothing_by_it(graded: Grade) -> None:
    verdict = graded("softmax", f"{SOLUTION}\nimport gc\n")
    assert verdict.verdict == "passed"
    assert [each.partition(" (")[0] for each in verdict.mentions] == ["gc"]
    assert verdict.to_json()["mentions"] == verdict.mentions
