"""An exception that everybody has met is told with the question that mends it."""

from __future__ import annotations

import pytest

from dojo.content import catalog, master
from dojo.verdict.slips import slip
from tests.conftest import Grade, told

SIZES = "The size of tensor a (7) must match the size of tensor b (3) at non-singleton dimension 1"
KEEPDIM = "a reduction without `keepdim=True`?"
SELF = "is `self` missing in the definition of the method?"
PAIR = "`max` over a dimension gives values and indices: is `.values` missing?"


@pytest.mark.parametrize(
    ("text", "lines", "operation", "question"),
    [
        (SIZES, "x - m", ["sub", "(3, 7)", "(3,)"], KEEPDIM),
        (SIZES, "m / x", ["div", "(2, 7)", "(2, 3, 7)"], KEEPDIM),
        (SIZES, "x - x.amax(dim)", ["sub", "(3, 7)", "?"], KEEPDIM),
        (SIZES, "x - x.amax(dim, keepdim=True)", ["sub", "(3, 7)", "?"], ""),
        (SIZES, "q + k", ["add", "(3, 7)", "(3, 5)"], ""),
        ("mat1 and mat2 shapes cannot be multiplied", "x @ w.sum(0)", ["matmul", "(3, 7)", "(7,)"], ""),
        ("Block.forward() takes 1 positional argument but 2 were given", "", [], SELF),
        ("Block.forward() takes 2 positional arguments but 5 were given", "", [], ""),
        ("softmax() takes 1 positional argument but 2 were given", "", [], ""),
        ("unsupported operand type(s) for -: 'Tensor' and 'torch.return_types.max'", "", [], PAIR),
        ("'torch.return_types.max' object has no attribute 'exp'", "", [], PAIR),
    ],
)
def test_an_exception_suggests_a_question(text: str, lines: str, operation: list[str], question: str) -> None:
    assert slip(text, lines, operation) == question


SOFTMAX = """
import torch

def softmax(x, dim=-1):
    top = {}
    exp = torch.exp(x - top)
    return exp / exp.sum(dim, keepdim=True)
"""


@pytest.mark.parametrize(("line", "question"), [("x.amax(dim)", KEEPDIM), ("x.max(dim)", PAIR)])
def test_the_question_stands_in_the_verdict(line: str, question: str, graded: Grade) -> None:
    assert question in told(graded("softmax", SOFTMAX.format(line), tier="core"))


def test_a_method_without_self_is_asked_about(graded: Grade) -> None:
    source = master.read_text(catalog.katas()["linear"].master)
    assert source.count("def forward(self, ") == 1
    assert SELF in told(graded("linear", source.replace("def forward(self, ", "def forward("), tier="core"))
