"""What must hold of `def test(program)` in an attempt that has two parts: a mended program, and a test of it.

`program` is a namespace with the names that the kata asks for. The test returns None where it accepts the program and
raises AssertionError where it rejects it; an exception that comes out of the program rejects it as well. Whatever else
it does is no answer: an exception of its own, another value, no end. It is held against right programs, which it must
accept, and against wrong ones, which it must reject.

A kata whose attempts always have both parts says so in its grader, beside the contract of the program itself:

    class Testtest(CandidateTest):
        planted = ("softmax over the queries", "no scale")

- `planted`: known bugs of the kata, those that stand in the stub. In the master they are lines behind
  `### HANDED OUT` (see `content.master`). The test must reject each of them alone in the solution.
- Mutants, further mistakes, are the rows of `wrong.txt` with the mark `[mutant KIND]`, and the known bugs that are not
  planted, of the kind that their mark or their name tells, but for those named in `but`: what the statement does not
  let a test rest on.
- Right programs are the solution and those right answers that have no test of their own, at least six together.

The master defines `test` like any other name: its docstring in the stub says what a test may not rest on, and its
solution is a test that passes. A hunt makes such a class for any kata: see `hunted`.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import pytest

from dojo.content import catalog, master, proofs
from dojo.content.catalog import Kata, Trouble
from dojo.content.proofs import Hunted
from dojo.contracts.checks.assertions import Wrong, fail, noting, too_much
from dojo.contracts.checks.candidate_test import corpus, reasons
from dojo.contracts.checks.candidate_test.trials import ACCEPTS, NONE, REJECTS, Trials
from dojo.contracts.harness import core, fast, file_of, robust
from dojo.verdict.types import Kind, Label, Section

MOST_LINES = 3  # that the fix of a bug may change
MOST_SECONDS = 5.0  # of processor time for a program
SHARE = 0.8  # of the mutants that a sharp test rejects
OTHER_VALUES = "the solution with other initial values"
FEWEST_RIGHT, FEWEST_MUTANTS = 6, 10
ANSWERS = "a test returns None for a right program, and raises AssertionError for a wrong one"


@dataclass(frozen=True)
class Material:
    """What a test is held against: sources, by name."""

    names: list[str]  # what a program defines
    reference: str
    handed_out: str
    right: dict[str, str]
    planted: dict[str, str]
    mutants: dict[str, str]
    kinds: dict[str, str]  # of the mutants


class CandidateTest:
    """What is asked of a test. The checks of a grading find it as they find the contracts of tensors."""

    name: ClassVar[str] = "test"
    holds: ClassVar[dict[str, tuple[str, ...]]] = {
        "Fix": ("test_the_fix",),
        "Right programs": ("test_accepts", "test_answers", "test_takes"),
        "Wrong programs": ("test_rejects",),
    }
    planted: ClassVar[tuple[str, ...]] = ()
    but: ClassVar[tuple[str, ...]] = ()
    kata: ClassVar[Kata]
    chosen: ClassVar[Hunted | None] = None
    _material: ClassVar[Material]

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        if not hasattr(cls, "kata"):
            grader = file_of(cls)
            cls.kata = catalog.named(grader.parent.name, grader.parents[3])

    @classmethod
    def material(cls) -> Material:
        """The sources, read once. Raises Trouble where there are too few."""
        if "_material" not in vars(cls):
            cls._material = _material(cls)
        return cls._material

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        if "written" in metafunc.fixturenames:
            metafunc.parametrize("written", list(self.material().right))
        if "bug" in metafunc.fixturenames:
            count = len(self.material().planted)
            metafunc.parametrize("bug", range(count), ids=[f"{number + 1} of {count}" for number in range(count)])

    @core
    def test_accepts_the_solution(self, trials: Trials) -> None:
        self.expect(trials, self.material().reference, ACCEPTS, "the solution", "`test` accepts a right program")

    @core
    def test_accepts_the_program_beside_it(self, trials: Trials) -> None:
        sentence = "`test` accepts the mended program that it stands beside"
        with noting(kind=Kind.BESIDE):
            self.expect(trials, trials.attempt.source, ACCEPTS, "it", sentence)

    @core
    def test_rejects_the_program_handed_out(self, trials: Trials) -> None:
        sentence = "`test` rejects the program that was handed out"
        self.expect(trials, self.material().handed_out, REJECTS, "it", sentence)

    @robust
    def test_accepts_what_is_written_otherwise(self, trials: Trials, written: str) -> None:
        """The next right rewrite of the program would fail its test, and the test be deleted."""
        source, name = self.material().right[written], f"`{written}`"
        relaxed = ["draws"] if written == OTHER_VALUES else []
        sentence = "`test` accepts every right program, however it is written"
        try:
            self.expect(trials, source, ACCEPTS, name, sentence, relaxed)
        except Wrong as wrong:
            if trials.first.word == ACCEPTS:
                wrong.failure.pattern = reasons.rests_on(trials, source, relaxed)
                wrong.pictures += (Section(Label.PATTERN, wrong.failure.pattern),)
            raise

    @robust
    def test_rejects_a_planted_bug_alone(self, trials: Trials, bug: int) -> None:
        """A test that only sees the bugs together passes once one of them is mended."""
        source = list(self.material().planted.values())[bug]
        count = len(self.material().planted)
        sentence = "`test` rejects the solution with one of the planted bugs in it, whichever"
        self.expect(trials, source, REJECTS, f"bug {bug + 1} of {count}", sentence)

    @robust
    def test_answers_the_same_under_every_seed(self, trials: Trials) -> None:
        """A test that fails now and then is switched off."""
        self.ready(trials)
        given = self.material()
        for name, source in (("the solution", given.reference), ("the program handed out", given.handed_out)):
            words = [answer.word for answer in trials.answers(source)]
            if len(set(words)) > 1 and NONE not in words:
                fail("`test` answers the same, however random numbers fall", _counted(words, name))

    @robust
    def test_the_fix_changes_few_lines(self, trials: Trials) -> None:
        """A rewrite hides what was wrong, and nobody can review it."""
        given = self.material()
        changed, most = self.changed(trials.attempt.source), MOST_LINES * len(given.planted)
        if changed > most:
            bugs = f"{len(given.planted)} bug{'s' * (len(given.planted) != 1)}"
            fail(f"the fix changes at most {MOST_LINES} lines a bug", f"{changed} lines differ; {most} may, for {bugs}")

    @fast
    def test_rejects_most_further_mistakes(self, trials: Trials) -> None:
        self.ready(trials)
        given = self.material()
        names = random.Random(trials.seed).sample(list(given.mutants), len(given.mutants))
        # Whether answers depend on the seed is another check's; so many programs under each would take a minute.
        passed = [name for name in names if trials.answer(given.mutants[name], trials.seeds[0]).word != REJECTS]
        rejected = len(given.mutants) - len(passed)
        trials.sharpness = f"{rejected} of {len(given.mutants)}", sorted(passed)
        if rejected < SHARE * len(given.mutants):
            sentence = f"`test` rejects at least {SHARE:.0%} of {len(given.mutants)} further mistakes"
            fail(sentence, f"it rejects {rejected}", f"it lets through {by_kind(given, passed)}")

    @fast
    def test_takes_a_few_seconds(self, trials: Trials) -> None:
        self.ready(trials)
        given = self.material()
        answers = [*trials.answers(given.reference), *trials.answers(given.handed_out)]
        most = max(answer.seconds for answer in answers)
        if most > MOST_SECONDS:
            too_much(f"`test` takes at most {MOST_SECONDS:.0f} s", f"it took {most:.1f} s")

    def changed(self, source: str) -> int:
        """How many lines the fix changed."""
        given = self.material()
        return corpus.changed_lines(given.handed_out, source, given.names)

    def ready(self, trials: Trials) -> None:
        """Go no further with a test that gives no answer about the solution itself."""
        if trials.first.word == NONE:
            raise Wrong(trials.first.against(ANSWERS, "the solution"))

    def expect(
        self, trials: Trials, source: str, wanted: str, name: str, sentence: str, relaxed: Sequence[str] = ()
    ) -> None:
        """The test answers so about a program, under every seed."""
        self.ready(trials)
        answers = trials.answers(source, relaxed)
        words = [answer.word for answer in answers]
        other = next((answer for answer in answers if answer.word != wanted), None)
        if other is None:
            return
        if len(set(words)) > 1 and NONE not in words:
            raise Wrong(replace(other.against(sentence, name), facts=(_counted(words, name),)))
        raise Wrong(other.against(sentence, name))


def hunted(kata: Kata, chosen: Hunted, own: type[CandidateTest] = CandidateTest) -> type[CandidateTest]:
    """What must hold of a test in a hunt; `own` is what the kata's grader asks of one, if it does."""
    return type("Testtest", (own,), {"kata": kata, "chosen": chosen, "__module__": "hunted"})


def by_kind(given: Material, passed: list[str]) -> str:
    """Mutants that a test lets through, as `masking 2 of 3`."""
    every, through = Counter(given.kinds.values()), Counter(given.kinds[name] for name in passed)
    return ", ".join(f"{kind} {count} of {every[kind]}" for kind, count in sorted(through.items()))


def _counted(words: list[str], name: str) -> str:
    counts = " and ".join(f"{word} it under {words.count(word)}" for word in (ACCEPTS, REJECTS))
    return f"its answer about {name} depends on the seed: it {counts} of {len(words)}"


def _material(cls: type[CandidateTest]) -> Material:
    kata, text = cls.kata, master.read_text(cls.kata.master)
    names = [name for name in master.names(kata) if name != cls.name]
    known = {bug.name: bug for bug in proofs.bugs(kata)}
    if cls.chosen is None:
        planted, handed_out = cls.planted, master.stub_text(kata)
        rows = [*proofs.mutants(kata), *(known[name] for name in known if name not in (*planted, *cls.but))]
        mutants = {row.name: row.plant(text) for row in rows}
        kinds = {row.name: row.mark or corpus.kind_of(row.name) for row in rows}
    else:
        planted, handed_out = cls.chosen.planted, text
        for name in planted:
            handed_out = known[name].plant(handed_out)
        handed_out = cls.chosen.handed_out or handed_out
        rows = proofs.mutants(kata)
        every = proofs.mistakes(kata) | {bug.name: bug.plant(text) for bug in (*known.values(), *rows)}
        notes = {bug.name: bug.mark for bug in (*known.values(), *rows) if bug.mark != proofs.RAISES}
        mutants = {name: every[name] for name in cls.chosen.mutants}
        kinds = {name: notes.get(name) or corpus.kind_of(name) for name in mutants}
    right = {OTHER_VALUES: text} | proofs.right_programs(kata)  # the solution itself is a check of the core tier
    if len(right) < FEWEST_RIGHT or len(mutants) < FEWEST_MUTANTS:
        raise Trouble(
            f"{kata.name}: a test is held against {FEWEST_RIGHT} right programs and {FEWEST_MUTANTS} wrong ones, and "
            f"there are {len(right)} and {len(mutants)} in {kata.say(kata.proofs)}"
        )
    alone = {name: known[name].plant(text) for name in planted}
    return Material(names, text, handed_out, right, alone, mutants, kinds)
