"""The graders' own proof: stubs are not started, right answers pass, wrong ones fail, and what `dojo prove` asks."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dojo.content import catalog, master, proofs
from dojo.contracts.checks.candidate_test import corpus
from dojo.judge.fork_server import ForkServer
from dojo.proving import matrix, prove
from tests.conftest import SEED, Grade, failures, on_core, told

KATAS = catalog.katas()
REJECTED_BY = Path(__file__).parent / "rejected_by"
FEW = 2  # right answers of a kata whose values are judged in the usual tests
RIGHT = [
    pytest.param(name, style, marks=pytest.mark.proof if number >= FEW else (), id=f"kata_{name}_{style}")
    for name, kata in KATAS.items()
    for number, style in enumerate(proofs.right_attempts(kata))
]
# The tests that attempts define take a worker for each program that they are tried on.
TESTED = [
    (name, style)
    for name in KATAS
    if "test" in master.names(KATAS[name])
    for style in ("the_solution", *proofs.right_attempts(KATAS[name]))
]
PROGRAM = "not Testtest"
EACH = pytest.mark.parametrize("name", KATAS, ids=lambda name: f"kata_{name}_")


@EACH
def test_solution_passes(name: str, graded: Grade) -> None:
    verdict = graded(name, master.read_text(KATAS[name].master), keyword=f"{PROGRAM} or the_program")
    assert verdict.verdict == "passed", told(verdict)


@pytest.mark.proof
@pytest.mark.parametrize(("name", "style"), TESTED, ids=[f"kata_{name}_{style}" for name, style in TESTED])
def test_right_test_passes(name: str, style: str, graded: Grade) -> None:
    source = proofs.right_attempts(KATAS[name]).get(style) or master.read_text(KATAS[name].master)
    verdict = graded(name, source, keyword="Testtest")
    assert verdict.verdict == "passed", told(verdict)


@pytest.mark.parametrize("name", dict.fromkeys(name for name, _ in TESTED))
def test_stub_is_the_solution_with_the_planted_bugs(name: str) -> None:
    kata = KATAS[name]
    stub, source = master.stub_text(kata), master.read_text(kata.master)
    for bug in (bug for bug in proofs.bugs(kata) if bug.name in catalog.load(kata.grader).Testtest.planted):
        source = bug.plant(source)
    assert corpus.program(stub) == corpus.program(source)


@EACH
def test_stub_is_not_started(name: str, graded: Grade) -> None:
    assert graded(name, master.stub_text(KATAS[name])).verdict == "empty"


@pytest.mark.parametrize(("name", "style"), RIGHT)
def test_right_attempt_passes(name: str, style: str, graded: Grade) -> None:
    verdict = graded(name, proofs.right_attempts(KATAS[name])[style], keyword=f"{PROGRAM} and not {matrix.CLOCK}")
    assert verdict.verdict == "passed", told(verdict)


@pytest.mark.proof
@pytest.mark.parametrize(("name", "style"), RIGHT)
def test_right_attempt_is_no_slower_than_is_allowed(name: str, style: str, graded: Grade) -> None:
    verdict = graded(name, proofs.right_attempts(KATAS[name])[style], keyword=matrix.CLOCK)
    assert not failures(verdict), told(verdict)


@EACH
def test_every_wrong_answer_fails_a_check(
    name: str, server: ForkServer, core: int | None, request: pytest.FixtureRequest
) -> None:
    """The one that `rejected_by/NAME.json` names for it, or else any; `--update` writes those files anew."""
    path = REJECTED_BY / f"{name}.json"
    own = json.loads(path.read_text("utf-8")) if path.exists() else {}
    with on_core(core):
        found = matrix.survivors(KATAS[name], server, SEED, own)
    assert not found, "\n".join(found)
    if request.config.getoption("--update"):
        path.write_text(json.dumps(own, indent=1, ensure_ascii=False) + "\n", "utf-8")


@pytest.mark.proof
@pytest.mark.parametrize("name", [name for name, kata in KATAS.items() if proofs.field(kata)])
def test_what_the_field_writes_passes_core_and_says_why_it_fails_robust(name: str, server: ForkServer) -> None:
    assert not prove.faults(KATAS[name], ["field"], server, SEED)


@pytest.mark.proof
@EACH
def test_the_kill_matrix_is_whole(name: str, server: ForkServer, core: int | None) -> None:
    with on_core(core):
        found = matrix.faults(KATAS[name], server, SEED)
    assert not found, "\n".join(found)


@EACH
def test_its_files_are_whole(name: str, server: ForkServer) -> None:
    assert not prove.faults(KATAS[name], ["files"], server, SEED)
