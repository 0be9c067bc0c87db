"""Bad tests of the debug katas: each ends in its sentence."""

from __future__ import annotations

import pytest

from dojo.content import catalog, master
from tests.conftest import Grade, told

HANDED_OUT = "`test` rejects the program that was handed out"
PLANTED = "`test` rejects the solution with one of the planted bugs in it, whichever"
ANY = {  # what it does, the check that it fails, and the sentence
    "passes always": ("return None", "handed_out", HANDED_OUT),
    "raises always": ("assert False, program", "the_solution", "`test` accepts a right program"),
    "stumbles": ("{}['missing']", "the_solution", "it gives no answer about the solution: KeyError: 'missing'"),
    "answers False": ("return False", "the_solution", "it returned False instead of None"),
    "reads the program": ("assert program.attend.__code__", "the_solution", "a test may not read the program"),
}
Q = "q, k, v = torch.randn(3, 2, 5, 12)"
X = "x, c, d = torch.randn(2, 5, 12), program.Cache(5), program.Cache(5)"
TABLE = "lambda ids, cache: torch.eye(6).mul(5)[ids].roll(1, -1), torch.tensor([[2, 3]]), 4"
OWN = {
    "debug_lm": {
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
            PLANTED,
        ),
    },
    "debug_decoding": {
        "looks at shapes": (f"{X}; assert program.attend(x, c).shape == (2, 5, 4)", "handed_out", HANDED_OUT),
        "compares the program with itself": (
            f"{X}; assert torch.equal(program.attend(x, c), program.attend(x, d))", "handed_out", HANDED_OUT,
        ),
        "wants equality": (
            f"{X}; assert torch.equal(program.attend(x, c), attend(x, Cache(5)))", "float64",
            "it rests on exact equality",
        ),
        "takes a private name": (
            "assert program.Model(9, 6).qkv_proj.weight.shape == (18, 6)", "sdpa",
            "it rests on the private name `qkv_proj`",
        ),
        "feeds all at once": (
            f"{X}; assert torch.allclose(program.attend(x, c), attend(x, Cache(5)), atol=1e-4)", "planted", PLANTED,
        ),
        "writes one row without filters": (
            f"u = torch.rand(1, 4); assert torch.equal(program.generate({TABLE}, u), generate({TABLE}, u))",
            "handed_out", HANDED_OUT,
        ),
    },
}  # fmt: skip
BAD = [(name, what) for name, own in OWN.items() for what in ANY | own]


@pytest.mark.parametrize(("name", "what"), BAD, ids=lambda each: each)
def test_a_bad_test_ends_in_its_sentence(name: str, what: str, graded: Grade) -> None:
    body, check, sentence = (ANY | OWN[name])[what]
    solution = master.read_text(catalog.katas()[name].master)
    verdict = graded(name, f"{solution}\n\ndef test(program):\n    {body}\n", keyword=f"Testtest and {check}")
    assert verdict.verdict == "failed"
    assert sentence in told(verdict)
