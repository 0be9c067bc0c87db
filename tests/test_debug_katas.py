"""Bad tests of the debug katas: each ends in its sentence."""

from __future__ import annotations

import json
from itertools import combinations

import pytest

from dojo.content import catalog, master, proofs
from dojo.grading.pytest_plugin import OTHERWISE
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
TRAINERS = (
    "a = program.Model(9, 4); b = copy.deepcopy(a); work = [torch.randint(1, 9, (2, 6)), torch.randint(1, 9, (1, 3))]; "
    "theirs, mine = program.Trainer(a, 0.1, 2, 8), Trainer(b, 0.1, 2, 8)"
)
STATES = "a.parameters(), b.parameters()"
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
    "debug_trainer": {
        "reads the program": ("assert program.rate.__code__", "the_solution", "a test may not read the program"),
        "looks at types": (f"{TRAINERS}; assert isinstance(theirs.update(work), float)", "handed_out", HANDED_OUT),
        "compares the program with itself": (
            f"{TRAINERS}; assert theirs.update(work) == program.Trainer(b, 0.1, 2, 8).update(work)", "handed_out",
            HANDED_OUT,
        ),
        "wants equal floats": (
            f"{TRAINERS}; assert theirs.update(work) == mine.update(work)", "sums_and", "it rests on exact equality",
        ),
        "wants equal weights": (
            f"{TRAINERS}; theirs.update(work); mine.update(work); assert all(map(torch.equal, {STATES}))", "sums_and",
            "it rests on exact equality",
        ),
        "takes a private name": (
            f"{TRAINERS}; assert theirs.optimizer", "no_optimizer", "it rests on the private name `optimizer`",
        ),
        "trains without a stop": (
            f"{TRAINERS}; pairs = [(theirs.update(work), mine.update(work)) for _ in range(4)]; "
            "assert all(abs(a - b) < 1e-4 for a, b in pairs)", "planted", PLANTED,
        ),
    },
}  # fmt: skip
BAD = [  # what each has of its own on every run
    pytest.param(name, what, marks=[pytest.mark.proof] * (what in ANY))
    for name, own in OWN.items()
    for what in ANY | own
]


@pytest.mark.parametrize(("name", "what"), BAD, ids=lambda each: each)
def test_a_bad_test_ends_in_its_sentence(name: str, what: str, graded: Grade) -> None:
    body, check, sentence = (ANY | OWN[name])[what]
    solution = master.read_text(catalog.katas()[name].master)
    verdict = graded(name, f"{solution}\n\ndef test(program):\n    {body}\n", keyword=f"Testtest and {check}")
    assert verdict.verdict == "failed"
    assert sentence in told(verdict)


def with_bugs(name: str, count: int) -> list[tuple[tuple[str, ...], str]]:
    """The solution with this many of the planted bugs left in it, in every choice of them."""
    kata = catalog.katas()[name]
    known = {bug.name: bug for bug in proofs.bugs(kata)}
    found = []
    for some in combinations(catalog.load(kata.grader).Testtest.planted, count):
        source = master.read_text(kata.master)
        for each in some:
            source = known[each].plant(source)
        found.append((some, source))
    return found


def mended(name: str, source: str, graded: Grade) -> list[str]:
    """What a verdict says of how many are mended; no planted bug is named in it."""
    verdict = graded(name, source)
    shown = json.dumps(verdict.to_json())
    for planted in catalog.load(catalog.katas()[name].grader).Testtest.planted:
        assert f"equals “{planted}”" not in shown
        assert planted not in {check.diagnosis for check in verdict.checks}
    return [remark for remark in verdict.remarks if "mended" in remark or "otherwise" in remark]


@pytest.mark.proof
@pytest.mark.parametrize("name", OWN)
def test_mended_bugs_are_counted_and_none_is_named(name: str, graded: Grade) -> None:
    (_, source), *_ = with_bugs(name, 2)
    # what stands otherwise than it was handed out is told by what it does
    assert mended(name, source.replace("    return ", "    return   ").replace(" = ", "  =  "), graded) == [
        "2 of 4 mended"
    ]


@pytest.mark.proof
@pytest.mark.parametrize("count", range(5))
@pytest.mark.parametrize("name", OWN)
def test_every_choice_of_mended_bugs_is_counted(name: str, count: int, graded: Grade) -> None:
    for some, source in with_bugs(name, count):
        assert mended(name, source, graded) == [f"{4 - count} of 4 mended"], some


@pytest.mark.proof
def test_a_mistake_that_was_not_handed_out_is_told_as_one(graded: Grade) -> None:
    kata = catalog.katas()["debug_lm"]
    source = master.read_text(kata.master)
    assert source.count("head_dim**0.5") == 1
    assert mended("debug_lm", source.replace("head_dim**0.5", "3.0"), graded) == [OTHERWISE.format(count=4)]
