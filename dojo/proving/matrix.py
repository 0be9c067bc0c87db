"""The kill matrix of a kata: its rows are all wrong answers that the project holds, its columns the checks.

Every row fails a check, every check is failed by a row, and every known bug is told by its name where it fails. What
any kata can get wrong stands in `house_mistakes`, for the checks that no mistake of the kata's own fails.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from dojo.content import master, proofs
from dojo.content.catalog import Kata
from dojo.content.rows import Row
from dojo.grading import topics
from dojo.grading.kill_matrix import Outcomes, kill_matrix
from dojo.grading.options import Options
from dojo.grading.parallel import warmed
from dojo.grading.telling.diagnosis import PYTHONS_OWN, Diagnosis
from dojo.judge.fork_server import ForkServer
from dojo.proving import house_mistakes
from dojo.verdict.failures import Fault, Raised
from dojo.verdict.types import Tier

CLOCK = "test_time_stays_near_the_reference"


def survivors(kata: Kata, server: ForkServer, seed: int, own: dict[str, str] | None = None) -> list[str]:
    """The wrong answers of the kata's own table that no check without a clock rejects, then those that none rejects.

    Each is run until a check fails it, and no further. `own` names the check that rejected each before, which is run
    first; it is brought up to date.
    """
    source, own = master.read_text(kata.master), {} if own is None else own
    sources = {bug.name: bug.plant(source) for bug in proofs.own_bugs(kata)} | proofs.mistakes(kata)
    before = {row: own[row] for row in sources if row in own}
    own.clear()

    def run(rows: Iterable[str], wanted: Callable[[str, str, bool], bool]) -> list[str]:
        outcomes: Outcomes = {}

        def due(row: str, check: str, clocked: bool) -> bool:
            return wanted(row, check, clocked) and not any(outcomes[row].values())

        tried = {row: sources[row] for row in rows}
        if tried:
            kill_matrix(kata, tried, Options(seed), warmed([kata], server), due, outcomes)
        found = {row: [check for check, fault in each.items() if fault] for row, each in outcomes.items()}
        own.update({row: failed[0] for row, failed in found.items() if failed})
        return [row for row in sources if row not in own]

    left = run(before, lambda row, check, clocked: check == before[row])
    left = run(left, lambda row, check, clocked: not clocked)
    left = run(left, lambda row, check, clocked: clocked)
    return [f"{proofs.place(kata, name)}: no check fails {name!r}" for name in left]


def faults(kata: Kata, server: ForkServer, seed: int) -> list[str]:
    """What is wrong with the whole matrix, as `FILE:LINE: what`."""
    options, source = Options(seed), master.read_text(kata.master)
    server = warmed([kata], server)
    bugs = {bug.name: bug for bug in proofs.bugs(kata)}
    sources = {name: bug.plant(source) for name, bug in bugs.items()} | proofs.mistakes(kata)
    outcomes, checks = kill_matrix(kata, sources, options, server)
    unhurt = {row: sources[row] for row, found in outcomes.items() if not any(found.values())}
    if unhurt:  # what only takes its time
        late, _ = kill_matrix(kata, unhurt, options, server, lambda row, check, clocked: clocked)
        for row, found in late.items():
            outcomes[row] |= found
    wrong = [
        f"{bugs[row].place if row in bugs else proofs.place(kata, row)}: no check fails {row!r}"
        for row, found in outcomes.items()
        if not any(found.values())
    ]
    wrong += [
        f"{kata.say(kata.grader)}: {row!r} breaks the check {check}: {found!r}"
        for row, each in outcomes.items()
        for check, found in each.items()
        if isinstance(found, Exception) and not isinstance(found, Fault)
    ]
    wrong += [f"{bugs[name].place}: {name!r} raises {fault.text!r}" for name, fault in _raised(bugs, outcomes)]
    wrong += [
        f"{bugs[name].place}: {name!r} is told as {names or 'nothing'}"
        for name, names in misdiagnosed(bugs, outcomes, checks)
    ]
    unfailed = [check for check in checks if not any(found.get(check) for found in outcomes.values())]
    failed = {row: [check for check, fault in found.items() if fault] for row, found in outcomes.items()}
    house = {name: house_mistakes.wrapped(kata, name) for name in (*house_mistakes.CALLS, *house_mistakes.MODULES)}
    if topics.unproven(kata, failed):  # what any kata may get wrong
        more, _ = kill_matrix(kata, house, options, server)
        failed |= {row: [check for check, fault in found.items() if fault] for row, found in more.items()}
    wrong += topics.unproven(kata, failed)
    for check in _unfailed_by(house, kata, unfailed, server, seed):
        wrong.append(f"{kata.say(kata.grader)}: no known mistake fails the check {check}")
    return wrong


def misdiagnosed(
    bugs: Mapping[str, Row], outcomes: Outcomes, checks: Mapping[str, Tier]
) -> list[tuple[str, list[str]]]:
    """Bugs that are told by no name, or by another one."""
    wrong = []
    for name, bug in bugs.items():
        diagnosis: Diagnosis[str] = Diagnosis(
            bugs.values(), lambda other, check: _fault(outcomes[other.name].get(check))
        )
        faults = {check: _fault(outcomes[name].get(check)) for check in checks}
        ran = [check for check, tier in checks.items() if tier is not Tier.FAST and check in outcomes[name]]
        for check, fault in faults.items():
            if fault and CLOCK not in check:
                diagnosis.see(check, fault)
        told_as = {other.name for other in diagnosis.named([check for check in ran if not faults[check]]).values()}
        if told_as != {name} and bug.mark != proofs.RAISES:
            wrong.append((name, sorted(told_as)))
    return wrong


def _raised(bugs: Mapping[str, Row], outcomes: Outcomes) -> list[tuple[str, Raised]]:
    """Bugs that show as an exception of Python's own where they show first, although their rows do not say so."""
    first = {name: next((fault for fault in outcomes[name].values() if fault), None) for name in bugs}
    return [
        (name, fault)
        for name, fault in first.items()
        if isinstance(fault, Raised) and fault.kind in PYTHONS_OWN and bugs[name].mark != proofs.RAISES
    ]


def _fault(outcome: Fault | Exception | None) -> Fault | None:
    return outcome if isinstance(outcome, Fault) else None


def _unfailed_by(
    sources: Mapping[str, str], kata: Kata, unfailed: list[str], server: ForkServer, seed: int
) -> list[str]:
    """Of these checks those that none of these sources fails; one with a clock is for the source that takes long."""
    if not unfailed:
        return []

    def wanted(row: str, check: str, clocked: bool) -> bool:
        return check in unfailed and clocked == (row == house_mistakes.SLOW)

    options = Options(seed, only=frozenset(unfailed))
    outcomes, _ = kill_matrix(kata, sources, options, server, wanted, every_place=False, every_row=False)
    return [check for check in unfailed if not any(isinstance(found.get(check), Fault) for found in outcomes.values())]
