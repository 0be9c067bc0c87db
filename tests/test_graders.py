"""The graders' own proof: stubs are not started, right attempts pass, and the kill matrix of each kata is whole.

The matrix has a row for each known bug and each mistake that the project holds, and a column for each check. Every row
fails a check; every check is failed by a row; every bug is diagnosed by its name where it fails.
"""

from __future__ import annotations

import pytest

from dojo.content import catalog, master, proofs
from dojo.content.rows import Row
from dojo.contracts.checks.candidate_test import corpus
from dojo.grading import claims
from dojo.grading.kill_matrix import Outcomes, kill_matrix
from dojo.grading.options import Options
from dojo.grading.telling.diagnosis import PYTHONS_OWN, Diagnosis
from dojo.judge.fork_server import ForkServer
from dojo.verdict.failures import Fault, Raised
from dojo.verdict.types import Tier
from tests import house_mistakes
from tests.conftest import SEED, Grade, failures, on_core, told

KATAS = catalog.katas()
RIGHT = [(name, style) for name, kata in KATAS.items() for style in proofs.right_attempts(kata)]
# The tests that attempts define take a worker for each program that they are tried on.
TESTED = [
    (name, style)
    for name in KATAS
    if "test" in master.names(KATAS[name])
    for style in ("the_solution", *proofs.right_attempts(KATAS[name]))
]
PROGRAM = "not Testtest"
CLOCK = "test_time_stays_near_the_reference"
RACED = {"softmax", "swiglu"}  # a contract of functions and one of modules: their race is the same in every kata
FEWEST_BUGS = {"rope": 12, "mha": 12, "gqa": 12, "lm": 12}


@pytest.mark.parametrize("name", KATAS, ids=lambda name: f"kata_{name}_")
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


@pytest.mark.parametrize("name", KATAS, ids=lambda name: f"kata_{name}_")
def test_stub_is_not_started(name: str, graded: Grade) -> None:
    assert graded(name, master.stub_text(KATAS[name])).verdict == "empty"


@pytest.mark.parametrize(("name", "style"), RIGHT, ids=[f"kata_{name}_{style}" for name, style in RIGHT])
def test_right_attempt_passes(name: str, style: str, graded: Grade) -> None:
    verdict = graded(name, proofs.right_attempts(KATAS[name])[style], keyword=f"{PROGRAM} and not {CLOCK}")
    assert verdict.verdict == "passed", told(verdict)


@pytest.mark.proof
@pytest.mark.parametrize(("name", "style"), RIGHT, ids=[f"kata_{name}_{style}" for name, style in RIGHT])
def test_right_attempt_is_no_slower_than_is_allowed(name: str, style: str, graded: Grade) -> None:
    verdict = graded(name, proofs.right_attempts(KATAS[name])[style], keyword=CLOCK)
    assert not failures(verdict), told(verdict)


@pytest.mark.parametrize("name", KATAS, ids=lambda name: f"kata_{name}_")
def test_kill_matrix_is_whole(name: str, server: ForkServer, core: int | None) -> None:
    with on_core(core):
        found = troubles(KATAS[name], server, brief=True)
    assert not found, "\n".join(found)


@pytest.mark.proof
@pytest.mark.parametrize("name", KATAS, ids=lambda name: f"kata_{name}_")
def test_every_place_of_the_kill_matrix(name: str, server: ForkServer, core: int | None) -> None:
    with on_core(core):
        found = troubles(KATAS[name], server, brief=False)
    assert not found, "\n".join(found)


@pytest.mark.parametrize("name", KATAS, ids=lambda name: f"kata_{name}_")
def test_kata_has_its_bugs_and_its_right_attempts(name: str) -> None:
    assert len(proofs.bugs(KATAS[name])) >= FEWEST_BUGS.get(name, 8)
    assert len(proofs.right_attempts(KATAS[name])) >= 5


def troubles(kata: catalog.Kata, server: ForkServer, brief: bool) -> list[str]:
    """What is wrong with the kill matrix of a kata, a line each; if brief, without the bugs that it takes over."""
    options, source = Options(SEED), master.read_text(kata.master)
    if "test" in master.names(kata) or "torch.optim" in source:  # else each worker waits for torch's optimisers
        server = server.warm()
    every = {bug.name: bug for bug in proofs.bugs(kata)}
    own = {bug.name for bug in proofs.own_bugs(kata)}
    bugs = {name: bug for name, bug in every.items() if not brief or name in own}
    sources = {name: bug.plant(source) for name, bug in bugs.items()} | proofs.mistakes(kata)
    outcomes, checks = kill_matrix(kata, sources, options, server, every_place=not brief)
    unhurt = {row for row, found in outcomes.items() if not any(found.values())}
    if unhurt:  # what only takes its time
        rows = {row: sources[row] for row in unhurt}
        late, _ = kill_matrix(kata, rows, options, server, lambda row, check, clocked: clocked)
        for row, found in late.items():
            outcomes[row] |= found
    unfailed = [check for check in checks if not any(found.get(check) for found in outcomes.values())]
    said = [f"no check fails {row!r}" for row, found in outcomes.items() if not any(found.values())]
    said += [f"{row!r} breaks the check {check}: {error!r}" for row, check, error in _grader_errors(outcomes)]
    said += [f"{name!r} raises {fault.text!r}" for name, fault in _raised(bugs, outcomes)]
    misdiagnosed, unknown = _misdiagnosed(bugs, outcomes, checks)
    while unknown:  # the places left out that may tell them apart
        rows = {row: sources[row] for row, _ in unknown}
        more, _ = kill_matrix(kata, rows, options, server, lambda row, check, _, places=unknown: (row, check) in places)
        for row, found in more.items():
            every_found = outcomes[row] | found
            outcomes[row] = {check: every_found[check] for check in checks if check in every_found}
        misdiagnosed, unknown = _misdiagnosed(bugs, outcomes, checks)
    said += [f"{name!r} is told as {names}" for name, names in misdiagnosed]
    others = {name: bug.plant(source) for name, bug in every.items() if name not in bugs}
    unfailed = _unfailed_by(others, kata, unfailed, server)
    house = (*house_mistakes.CALLS, *house_mistakes.MODULES)
    if brief and kata.name not in RACED:
        unfailed = [check for check in unfailed if CLOCK not in check]
    unfailed = _unfailed_by({name: house_mistakes.wrapped(kata, name) for name in house}, kata, unfailed, server)
    if not brief:
        failed = {row: [check for check, fault in found.items() if fault] for row, found in outcomes.items()}
        if claims.unproven(kata, failed):  # what any kata may get wrong
            rows = {name: house_mistakes.wrapped(kata, name) for name in house}
            more, _ = kill_matrix(kata, rows, options, server)
            failed |= {row: [check for check, fault in found.items() if fault] for row, found in more.items()}
        said += claims.unproven(kata, failed)
    return said + [f"no known mistake fails the check {check}" for check in unfailed]


def _grader_errors(outcomes: Outcomes) -> list[tuple[str, str, Exception]]:
    return [
        (row, check, error)
        for row, found in outcomes.items()
        for check, error in found.items()
        if isinstance(error, Exception) and not isinstance(error, Fault)
    ]


def _raised(bugs: dict[str, Row], outcomes: Outcomes) -> list[tuple[str, Raised]]:
    """Bugs that show as an exception of Python's own where they show first, although their rows do not say so."""
    first = {name: next((fault for fault in outcomes[name].values() if fault), None) for name in bugs}
    return [
        (name, fault)
        for name, fault in first.items()
        if isinstance(fault, Raised) and fault.kind in PYTHONS_OWN and bugs[name].mark != proofs.RAISES
    ]


def _misdiagnosed(
    bugs: dict[str, Row], outcomes: Outcomes, checks: dict[str, Tier]
) -> tuple[list[tuple[str, list[str]]], set[tuple[str, str]]]:
    """Bugs that are told by no name, or by another one, and the empty places of the matrix that this rests on."""
    wrong, unknown = [], set()
    timeless = [check for check in checks if CLOCK not in check]
    for name, bug in bugs.items():
        asked = {(name, check) for check in timeless}

        def outcome(other: Row, check: str, asked: set[tuple[str, str]] = asked) -> Fault | None:
            asked.add((other.name, check))
            return _fault(outcomes[other.name].get(check))

        diagnosis: Diagnosis[str] = Diagnosis(bugs.values(), outcome)
        faults = {check: _fault(outcomes[name].get(check)) for check in checks}
        ran = [check for check, tier in checks.items() if tier is not Tier.FAST and check in outcomes[name]]
        passed = [check for check in ran if not faults[check]]
        for check, fault in faults.items():
            if fault:
                diagnosis.see(check, fault)
        told_as = {other.name for other in diagnosis.named(passed).values()}
        if told_as != {name} and bug.mark != proofs.RAISES:
            wrong.append((name, sorted(told_as)))
            unknown |= {(row, check) for row, check in asked if check not in outcomes[row]}
    return wrong, unknown


def _fault(outcome: Fault | Exception | None) -> Fault | None:
    return outcome if isinstance(outcome, Fault) else None


def _unfailed_by(sources: dict[str, str], kata: catalog.Kata, unfailed: list[str], server: ForkServer) -> list[str]:
    """Of these checks those that none of these sources fails; one with a clock is for the source that takes long."""
    if not unfailed or not sources:
        return unfailed

    def wanted(row: str, check: str, clocked: bool) -> bool:
        return check in unfailed and clocked == (row == house_mistakes.SLOW)

    options = Options(SEED, only=frozenset(unfailed))
    outcomes, _ = kill_matrix(kata, sources, options, server, wanted, every_place=False, every_row=False)
    return [check for check in unfailed if not any(isinstance(found.get(check), Fault) for found in outcomes.values())]
