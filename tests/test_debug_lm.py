"""Bad tests of the small GPT: each ends in its sentence."""

from __future__ import annotations

import pytest

from dojo.content import catalog, master
from tests.conftest import Grade, told

SOLUTION = master.read_text(catalog.katas()["debug_lm"].master)
HANDED_OUT = "`test` rejects the program that was handed out"
Q = "q, k, v = torch.randn(3, 2, 5, 12)"
BAD = {  # what it does, the check that it fails, and the sentence
    "passes always": ("return None", "handed_out", HANDED_OUT),
    "raises always": ("assert False, program", "the_solution", "`test` accepts a right program"),
    "stumbles": ("{}['missing']", "the_solution", "it gives no answer about the solution: KeyError: 'missing'"),
    "answers False": ("return False", "the_solution", "it returned False instead of None"),
    "looks at shapes": (f"{Q}; assert program.attend(q, k, v, 3).shape == q.shape", "handed_out", HANDED_OUT),
    "compares the program with itself": (
        f"{Q}; assert torch.equal(program.attend(q, k, v, 3), program.attend(q, k, v, 3))", "handed_out",
        HANDED_OUT,
    ),
    "wants equality": (
        f"{Q}; assert torch.equal(program.attend(q, k, v, 3), attend(q, k, v, 3))", "float64_inside",
        "it rests on exact equality",
    ),
    "takes a private name": (
        "assert program.Block(12, 3).o_proj.weight.shape == (12, 12)", "fused",
        "it rests on the private name `o_proj`",
    ),
    "sees attention alone": (
        f"{Q}; assert torch.allclose(program.attend(q, k, v, 3), attend(q, k, v, 3), atol=1e-4)", "planted",
        "`test` rejects the solution with one of the planted bugs in it, whichever",
    ),
    "reads the program": ("assert program.attend.__code__", "the_solution", "a test may not read the program"),
}  # fmt: skip


@pytest.mark.parametrize("what", BAD)
def test_a_bad_test_ends_in_its_sentence(what: str, graded: Grade) -> None:
    body, check, sentence = BAD[what]
    verdict = graded("debug_lm", f"{SOLUTION}\n\ndef test(program):\n    {body}\n", keyword=f"Testtest and {check}")
    assert verdict.verdict == "failed"
    assert sentence in told(verdict)
