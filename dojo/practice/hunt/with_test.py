"""Hunts that ask for a test too: which mistakes it is held against, and the stub that is handed out for it."""

from __future__ import annotations

import ast
import random
import re
import textwrap
from typing import TYPE_CHECKING

from dojo.content import catalog, master, proofs
from dojo.content.catalog import Trouble
from dojo.content.proofs import TEST
from dojo.grading.options import Options
from dojo.practice.hunt import planting
from dojo.verdict.failures import Fault
from dojo.verdict.types import Tier

if TYPE_CHECKING:
    from dojo.content.catalog import Kata
    from dojo.judge.fork_server import ForkServer
    from dojo.verdict.types import Verdict

MUTANTS = 12  # as many as a hunt takes; ten are the fewest
AT_ONCE = 16  # mistakes that are judged together
# Core checks that no test of behaviour could stand for: what is allowed, what things are called, how they start.
NO_BEHAVIOUR = re.compile(r"uses_only|stays_in|holds_exactly|by_name|starts?_|start_with|drawn|state|refused|error")
CONTRACT = """
`program` has {names}, in an implementation that you do not know: the solution with a bug in it, or one that is right
and written otherwise. Judge by what the statement promises. Your test may not rest on initial values or the order of
random draws (make the modules that you need, and set their parameters), on private names, on fused or separate
projections, on exact equality, on a dtype inside, or on speed.
"""
STUB = '''def test(program):
    """Return None if `program` is right, and raise AssertionError if it is wrong.

{contract}
    """
    raise NotImplementedError
'''


def mistakes_for(kata: Kata, seed: int, bugs: int, server: ForkServer) -> list[str]:
    """Names of known bugs and other mistakes that change what the program does, as many as a hunt needs.

    Each fails a core check of the program's behaviour. Raises Trouble where there are too few.
    """
    from dojo.contracts.checks.candidate_test import contract
    from dojo.grading.kill_matrix import kill_matrix

    text = master.read_text(kata.master)
    rows = proofs.mistakes(kata) | {bug.name: bug.plant(text) for bug in proofs.bugs(kata)}
    names = random.Random(f"{kata.name} {seed}").sample(sorted(rows), len(rows))
    found: list[str] = []
    while names and len(found) < bugs + MUTANTS:
        some, names = names[:AT_ONCE], names[AT_ONCE:]
        wrong, _ = kill_matrix(
            kata,
            {name: rows[name] for name in some},
            Options(seed, tier=Tier.CORE),
            server,
            lambda row, check, clocked: not clocked and not NO_BEHAVIOUR.search(check),
            every_place=False,
        )
        found += [name for name in some if any(isinstance(fault, Fault) for fault in wrong[name].values())]
    right = 1 + len(proofs.right_programs(kata))
    if right < contract.FEWEST_RIGHT or len(found) < bugs + contract.FEWEST_MUTANTS:
        where = f"`{kata.proofs}`, which is in every clone of the project"
        raise Trouble(
            f"{kata.name} has too little to hold a test against: {right} right programs and {len(found)} mistakes, of "
            f"which {contract.FEWEST_RIGHT} and {bugs + contract.FEWEST_MUTANTS} are needed. They are in {where}."
        )
    return found


def with_stub(kata: Kata, program: str) -> str:
    """The program that is handed out, and the stub of its test: the kata's own if it has one."""
    wanted = [name for name in master.names(kata) if name != TEST]
    named = [f"`{name}`" for name in wanted]
    contract = CONTRACT.format(names=" and ".join(filter(None, [", ".join(named[:-1]), named[-1]])))
    filled = textwrap.fill(" ".join(contract.split()), 106, break_on_hyphens=False)
    stub = STUB.format(contract=textwrap.indent(filled, 4 * " "))
    if len(wanted) < len(master.names(kata)):
        program, stub = _parts(program, wanted)[0], _parts(master.stub_text(kata), wanted)[1]
    return f"{program.rstrip()}\n\n\n{stub}"


def _parts(source: str, wanted: list[str]) -> tuple[str, str]:
    """A source without its test and what only that needs, and the test alone."""
    lines, kept = source.split("\n"), master.definitions(wanted, [source])[1]
    test: list[str] = []
    for node in reversed(ast.parse(source).body):
        if isinstance(node, master.DEFINITIONS) and node.name not in kept:
            first = min([node.lineno, *(each.lineno for each in node.decorator_list)]) - 1
            test = lines[first : node.end_lineno] if node.name == TEST else test
            del lines[first : node.end_lineno]
    return "\n".join(lines), "\n".join(test) + "\n"


def without_test(kata: Kata, program: str) -> str:
    """A program of a kata that asks for a test, without that and what only it needs."""
    return _parts(program, [name for name in master.names(kata) if name != TEST])[0]


def usual(kata: Kata) -> int:
    """How many bugs are planted where nobody says how many."""
    return planting.MOST if asks(kata) else 1


def asks(kata: Kata) -> bool:
    """Whether attempts at this kata always have a test."""
    return TEST in master.names(kata)


def held_against(kata: Kata) -> str:
    """The mistakes that a test of this kata is held against, in Markdown; nothing where no test is asked for."""
    if not asks(kata):
        return ""
    given = catalog.load(kata.grader).Testtest.material()
    planted = [f"- {name} (planted)" for name in given.planted]
    further = [f"- {kind}: {name}" for name, kind in sorted(given.kinds.items(), key=lambda each: each[::-1])]
    return "\n".join(["**What a test is held against.**", "", *planted, *further])


def report(verdict: Verdict | None) -> list[str]:
    """What is said of the fix and the test, and the names of the mistakes that the test let through."""
    if verdict is None:
        return []
    return [*verdict.remarks, *(f"your test lets through: {name}" for name in verdict.let_through)]
