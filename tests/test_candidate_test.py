"""Attempts with two parts, a mended program and a test of it: good tests pass, and bad ones end in their sentences."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from dojo.content import catalog, master, proofs
from dojo.content.catalog import Kata, Trouble
from dojo.contracts.checks.candidate_test.contract import Hunted
from dojo.grading.options import Entry, Options
from dojo.grading.run import run
from dojo.judge import worker_handle
from dojo.judge.fork_server import ForkServer
from dojo.judge.worker import trial
from dojo.practice.hunt import with_test
from dojo.verdict.types import Outcome, Verdict
from tests import terminal
from tests.conftest import SEED, copy_of_project, failures, on_core, told

HERE = Path(__file__).parent
TESTS = HERE / "tests_of_candidates"
GOOD = (TESTS / "good.py").read_text()

# A made-up kata: RMSNorm with two bugs in its stub. Its grader is no module of the real kata's name.
TRACK = "debug"
HANDED_OUT = {
    "mean_square = wide.square().mean(dim=-1, keepdim=True)": "wide.square().sum(dim=-1, keepdim=True)",
    "normed = wide * torch.rsqrt(mean_square + self.eps)": "wide * torch.rsqrt(mean_square)",
}
GRADER = """
from dojo.contracts import CandidateTest


class Testtest(CandidateTest):
    planted = ("the sum of squares instead of their mean", "no eps")
    but = (  # a test sees no dtype inside, and not how a weight starts
        "squared in half precision", "the root rounded to half precision", "the result left in float32",
        "weight starts as zeros", "an explicit dtype ignored", "eps 1e-6 instead of 1e-5", "eps 1e-8 instead of 1e-5",
    )
"""
MUTANT = """
half of the root  [mutant scaling]
    the root of the mean square, and nothing else, is what is divided by.
    normed = wide *  →  normed = 0.5 * wide *
"""


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> Kata:
    """The made-up kata, in a project of its own."""
    root = tmp_path_factory.mktemp("example")
    kata = catalog.katas()["rmsnorm"]
    text = master.read_text(kata.master)
    for right, wrong in HANDED_OUT.items():
        name = right.partition(" = ")[0]
        marked = f"### BEGIN SOLUTION\n        {right}\n        ### HANDED OUT\n        # {name} = {wrong}\n"
        text = text.replace(f"        {right}\n", f"        {marked}        ### END SOLUTION\n")
    head, _, rest = text.partition("        wide = ")
    body, _, tail = rest.partition("        ### END SOLUTION\n\n\n# %% [markdown]")
    text = head.replace("        ### BEGIN SOLUTION\n", "").replace("        ### END SOLUTION\n", "")
    answer = GOOD.partition("def test(program):\n")[2]
    text += (
        f"        wide = {body}\n\n# %%\ndef test(program):\n    ### BEGIN SOLUTION\n{answer}    ### END SOLUTION\n\n\n"
    )
    for folder, content in {"solutions": text + "# %% [markdown]" + tail, "katas": ""}.items():
        (root / folder / TRACK).mkdir(parents=True)
        (root / folder / TRACK / "rmsnorm.py").write_text(content)
    proofs_of = root / "graders" / TRACK / "rmsnorm"
    shutil.copytree(kata.proofs, proofs_of)
    (proofs_of / "right.txt").unlink()
    (proofs_of / "right").mkdir(exist_ok=True)
    for style, program in (proofs.right_attempts(kata) | proofs.field(kata)).items():
        (proofs_of / "right" / f"{style}.py").write_text(program)  # without a test: what a test must accept
    for name, more in {"contract.py": GRADER, "wrong.txt": MUTANT}.items():
        (proofs_of / name).write_text((kata.proofs / name).read_text() + more)
    return catalog.katas(root)["rmsnorm"]


def grade(kata: Kata, source: str, server: ForkServer, core: int | None, **options: object) -> Verdict:
    entry = Entry(kata, source, "attempt.py", "nox -s grade -- rmsnorm --attempt attempt.py")
    with on_core(core):
        return run([entry], Options(**{"seed": SEED} | options), server)[0]


def test_the_stub_is_the_program_with_its_bugs(example: Kata) -> None:
    stub = master.stub_text(example)
    assert "mean_square = wide.square().sum(dim=-1, keepdim=True)" in stub
    assert "rsqrt(mean_square)" in stub
    assert "HANDED" not in stub + master.solution_code(master.read_text(example.master))
    assert stub.count("raise NotImplementedError") == 1
    assert master.names(example) == ["RMSNorm", "test"]


def test_a_mended_program_with_a_good_test_passes(example: Kata, server: ForkServer, core: int | None) -> None:
    source = master.solution_code(master.read_text(example.master))
    verdict = grade(example, source, server, core, keyword="Testtest")
    assert verdict.verdict == "passed", told(verdict)
    assert [check.outcome for check in verdict.checks].count(Outcome.PASSED) >= 15
    assert verdict.remarks[0] == "the fix changes 2 lines of the program that was handed out"
    assert verdict.remarks[1].startswith("the test rejects 1")


def test_the_program_handed_out_with_a_good_test_fails(example: Kata, server: ForkServer, core: int | None) -> None:
    stub = master.stub_text(example).partition("def test")[0]
    verdict = grade(example, f"{stub}\n{GOOD}", server, core, tier="core")
    said = told(verdict)
    assert "`test` accepts the mended program that it stands beside" in said
    assert "RMSNorm::test_values_match_the_definition" in said
    assert {check.name for check in failures(verdict) if "Testtest" in check.name} == {
        "Testtest::test_accepts_the_program_beside_it"
    }


SOLUTION = "accepts the solution"
HANDED = "rejects the program handed out"
OTHERWISE = "accepts what is written otherwise"
ACCEPTS_IT = "`test` rejects the program that was handed out\nit accepts it"
REJECTS_IT = "`test` accepts a right program\nit rejects the solution: AssertionError"
NO_ANSWER = "a test returns None for a right program, and raises AssertionError for a wrong one\n"
NO_ANSWER += "it gives no answer about the solution: "
SAYS = {  # the check that a bad test ends in, and its sentence
    "always_passes": (HANDED, ACCEPTS_IT),
    "always_raises": (SOLUTION, REJECTS_IT),
    "always_raises_its_own_error": (SOLUTION, f"{NO_ANSWER}ValueError: wrong"),
    "returns_false": (SOLUTION, f"{NO_ANSWER}it returned False instead of None"),
    "shapes_only": (HANDED, ACCEPTS_IT),
    "compares_with_itself": (HANDED, ACCEPTS_IT),
    "exact_equality": (f"{OTHERWISE} (length", "it rests on exact equality, or on a tolerance that is too fine"),
    "one_seed_only": (HANDED, "its answer about it depends on the seed: it accepts it under"),
    "reads_the_code": (SOLUTION, f"{NO_ANSWER}Refused: a test may not read the program (__code__)"),
    "reads_the_source": (SOLUTION, f"{NO_ANSWER}ImportError: a test may not import inspect"),
    "reads_the_source_by_the_back_door": (SOLUTION, NO_ANSWER),
    "looks_at_frames": (SOLUTION, f"{NO_ANSWER}Refused: a test may not look at frames (sys._getframe)"),
    "searches_with_gc": (SOLUTION, "an attempt may not search the interpreter"),
    "traces_the_program": (SOLUTION, f"{NO_ANSWER}Refused: a test may not look at frames (sys.settrace)"),
    "tells_by_name": (SOLUTION, REJECTS_IT),
    "counts_its_calls": (HANDED, ACCEPTS_IT),
    "hangs": (SOLUTION, f"{NO_ANSWER}no answer after 2 s of processor time"),
    "exits": (SOLUTION, f"{NO_ANSWER}SystemExit: wrong"),
    "ends_its_process": (SOLUTION, f"{NO_ANSWER}the attempt ended its own process (exit status 0)"),
    "patches_torch": (HANDED, ACCEPTS_IT),
    "patches_the_program": (HANDED, ACCEPTS_IT),
    "asserts_in_a_thread": (HANDED, ACCEPTS_IT),
    "swallows": (HANDED, ACCEPTS_IT),
    "private_name": (f"{OTHERWISE} (t5", "it rests on the private name `eps`, which this program does not have"),
}

BY_CHANCE = ("tells_by_address", "tells_by_order", "tells_by_time")  # what they see says nothing of the program
PLANTED = Hunted(
    ("no eps", "1 + weight"),
    tuple(
        "the mean subtracted, divided by the deviation, eps outside the square root, eps ignored, no square root, "
        "the mean over the sequence too, the mean over the batch, the weight applied before the norm, no weight, "
        "the sum of squares instead of their mean".split(", ")
    ),
)


def grade_with(
    test: str,
    server: ForkServer,
    core: int | None,
    kata: str = "rmsnorm",
    hunted: Hunted = PLANTED,
    **options: object,
) -> Verdict:
    """The verdict on a solution with a test beside it, as in a hunt."""
    made = catalog.katas()[kata]
    source = f"{master.solution_code(master.read_text(made.master))}\n\n{test}"
    entry = Entry(made, source, "attempt.py", f"nox -s grade -- {kata} --attempt attempt.py", hunted=hunted)
    with on_core(core):
        return run([entry], Options(**{"seed": SEED} | options), server)[0]


@pytest.mark.proof
def test_a_good_test_passes_in_a_hunt(server: ForkServer, core: int | None) -> None:
    verdict = grade_with(GOOD, server, core)
    assert verdict.verdict == "passed", told(verdict)
    names = tuple(
        bug.name for bug in proofs.bugs(catalog.katas()["mha"]) if bug.name.startswith(("heads", "soft", "mask"))
    )
    names = tuple(name for name in names if "divide" not in name and "half" not in name and "10000" not in name)
    hunted = Hunted(("no scale", "context ignored"), names)
    verdict = grade_with((TESTS / "mha.py").read_text(), server, core, "mha", hunted, keyword="Testtest")
    assert verdict.verdict == "passed", told(verdict)


def bad(name: str) -> str:
    return (TESTS / "bad" / f"{name}.py").read_text()


def test_every_bad_test_has_its_sentence() -> None:
    assert {path.stem for path in (TESTS / "bad").glob("*.py")} == {*SAYS, *BY_CHANCE}


@pytest.mark.parametrize("name", SAYS)
def test_a_bad_test_ends_in_its_sentence(
    name: str, server: ForkServer, core: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    check, sentence = SAYS[name]
    if name == "hangs":
        monkeypatch.setattr(worker_handle, "CPU_LIMIT", 1.0)
    verdict = grade_with(bad(name), server, core, keyword=check)
    assert verdict.verdict == "failed"
    assert verdict.checks
    assert sentence in told(verdict)


def test_what_rests_on_initial_values_is_told_so(server: ForkServer, core: int | None) -> None:
    test = """
def test(program):
    torch.manual_seed(1)
    module = program.MultiHeadAttention(8, 2)
    torch.manual_seed(1)
    assert torch.equal(module.q_proj.weight, nn.Linear(8, 8, bias=False).weight)
"""
    hunted = Hunted(("no output projection",), tuple(bug.name for bug in proofs.bugs(catalog.katas()["mha"])[:10]))
    verdict = grade_with(test, server, core, "mha", hunted, keyword="with other initial values")
    assert "it rests on initial values, or on the order of random draws" in told(verdict)


def test_floats_that_a_program_gives_are_compared_loosely_where_equality_is_taken_away() -> None:
    class Trainer:
        def update(self) -> float:
            return 0.1 + 0.2

    program = {"rate": lambda: 2.0, "Trainer": Trainer, "count": lambda: 3}
    trial._give_near_floats(program)
    loss = program["Trainer"]().update()
    assert loss == 0.3
    assert 0.3 == loss  # noqa: SIM300  # the other side is asked first
    assert abs(loss - 0.3) < 1e-12
    assert loss != 0.31
    assert loss - 0.2 == pytest.approx(0.1)
    assert program["rate"]() == 2.0001
    assert type(program["count"]()) is int


@pytest.mark.parametrize("name", BY_CHANCE)
def test_a_test_that_goes_by_chance_does_not_pass(name: str, server: ForkServer, core: int | None) -> None:
    verdict = grade_with(bad(name), server, core, keyword="Testtest", tier="core")
    verdict = grade_with(bad(name), server, core, keyword="Testtest") if verdict.verdict == "passed" else verdict
    assert verdict.verdict == "failed"


@pytest.mark.proof
@pytest.mark.parametrize("name", [*SAYS, *BY_CHANCE])
def test_no_bad_test_passes(name: str, server: ForkServer, core: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    if name == "hangs":
        monkeypatch.setattr(worker_handle, "CPU_LIMIT", 1.0)
    assert grade_with(bad(name), server, core).verdict in ("failed", "broken")


@pytest.mark.proof
def test_a_hunt_asks_for_a_test_and_tells_at_the_end_what_it_let_through(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOJO_HOME", str(tmp_path / "home"))
    project = copy_of_project(tmp_path / "project")
    solution = master.solution_code(master.read_text(project / "solutions" / "basics" / "rmsnorm.py"))

    def save(test: str) -> Callable[[int, int], None]:
        def write(*_: int) -> None:
            (folder,) = (project / "hunts").iterdir()
            handed_out = (folder / "rmsnorm.py").read_text()
            assert "raise NotImplementedError" in handed_out or "import torch" in handed_out
            (folder / "rmsnorm.py").write_text(f"{solution}\n\n{test}")

        return write

    steps = [("from now", save(bad("shapes_only"))), ("rmsnorm: ", save(GOOD))]
    words = ["hunt", "rmsnorm", "--with-test", "--yes", "--seed", "3", "--bugs", "2"]
    shown, status = terminal.run(words, steps, project, patience=120.0, columns=120)
    assert "The test at the end of rmsnorm.py is yours to write" in shown
    assert "`test` rejects the program that was handed out" in shown
    assert status == 0, shown
    assert re.search(r"the test rejects 1\d of 1\d further mistakes", shown)
    assert "solved in" in shown


def test_a_test_is_not_asked_for_where_there_is_nothing_to_hold_it_against(
    example: Kata, server: ForkServer, tmp_path: Path
) -> None:
    for folder in ("solutions", "graders", "katas"):
        shutil.copytree(example.root / folder, tmp_path / folder, ignore=shutil.ignore_patterns("right*"))
    with pytest.raises(Trouble, match="1 right programs"):
        with_test.mistakes_for(catalog.katas(tmp_path)["rmsnorm"], 3, 1, server)
