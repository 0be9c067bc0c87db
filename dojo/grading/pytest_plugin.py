"""The pytest plugin that runs graders over attempts and gathers what every check came to."""

from __future__ import annotations

import io
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from _pytest._io import TerminalWriter

from dojo.content import catalog, proofs
from dojo.content.rows import Row
from dojo.content.signature import other_default, signature_in, signature_of
from dojo.contracts.checks.assertions import Wrong
from dojo.contracts.checks.candidate_test.contract import CandidateTest, by_kind, hunted
from dojo.contracts.checks.candidate_test.trials import Trials
from dojo.contracts.checks.tolerance import remembered
from dojo.grading.options import chooser
from dojo.grading.runner import OPTIONS, clocked, fails, name_of, of_a_test, run_check, stage_of, tier_of, topic_of
from dojo.grading.telling.diagnosis import DIAGNOSABLE, Diagnosis
from dojo.grading.telling.mended import left_in
from dojo.grading.telling.sameness import same_failure
from dojo.judge.proxy import Attempt
from dojo.verdict.failures import Fault, happened, ours
from dojo.verdict.page.heatmap import picture
from dojo.verdict.screen.text import callable_of, readable
from dojo.verdict.types import Check, Label, Outcome, Section, Tier

if TYPE_CHECKING:
    from dojo.content.catalog import Kata
    from dojo.content.proofs import Hunted
    from dojo.grading.options import Options


OTHERWISE = "the program fails otherwise than by some of the {count} bugs that it was handed out with"


@dataclass
class Subject:
    """One kata under grading: the attempt, the reference it is timed against, and how to make more attempts."""

    kata: Kata
    attempt: Attempt
    reference: Attempt
    another: Callable[[str, str], Attempt]  # (source, filename) -> an attempt on the same fork server and device
    repeat: str  # the command line that grades this attempt again, less the check
    hunted: Hunted | None = None  # in a hunt that asks for a test
    stages: int | None = None  # so many of the kata's are graded; all if None
    checks: dict[str, Check] = field(default_factory=dict)
    # All checks of the kata, those of other judges too, but for what is asked of its test.
    items: list[pytest.Function] = field(default_factory=list)
    trials: dict[type[CandidateTest], Trials] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._planted = self.another("", "bug.py")  # each known bug in turn: a process for each would cost more
        self._passes: dict[str, bool] = {}
        self.mended = ""
        self.failed: dict[str, Fault] = {}  # by check: a bug that fails alike fails in the same case too

    @cached_property
    def diagnosis(self) -> Diagnosis[pytest.Function]:
        """The known bugs of this kata, but for those that it hands out, or a mock of it: to find these is asked for.

        One that cannot be planted is for the tests to tell, not for the user.
        """
        opening = self.kata.opens_with
        handed_out = proofs.bugs(catalog.named(opening, self.kata.root)) if opening else ()
        hidden = {*self.planted, *(bug.name for bug in handed_out)}
        bugs = [bug for bug in proofs.bugs(self.kata) if bug.name not in hidden]
        return Diagnosis([bug for bug in bugs if bug.fits(self.reference.source)], self._fault_of)

    @property
    def planted(self) -> tuple[str, ...]:
        """The names of the bugs in the program that was handed out, if one was."""
        asked: Any = getattr(self.items[0].module, "Testtest", None) if self.items else None
        return self.hunted.planted if self.hunted else getattr(asked, "planted", ())

    def count_mended(self) -> None:
        """Find out how many of the planted bugs are mended, by all checks of the program that have no clock."""
        checks = [item for item in self.items if not clocked(item)]
        if not self.planted or self.attempt.timeouts:
            return

        def outcomes(source: str) -> Iterator[Fault | None]:
            for item in checks:
                self._planted.become(source)
                yield fails(item, self._planted, self.reference)

        known = {bug.name: bug for bug in proofs.bugs(self.kata)}
        mine = [fails(item, self.attempt, self.reference) for item in checks]
        bugs = [known[name] for name in self.planted]
        left, count = left_in(self.attempt.source, self.reference.source, bugs, mine, outcomes), len(bugs)
        self.mended = f"{count - left} of {count} mended" if left is not None else OTHERWISE.format(count=count)

    def name_bugs(self) -> None:
        """Tell the known bug, if it is one, in each check that it explains."""
        if self.failed:
            for item, bug in self.diagnosis.named(self.passed()).items():
                check = self.checks[item.nodeid]
                check.diagnosis = bug.name
                check.sections.append(Section(Label.DIAGNOSIS, f"equals “{bug.name}”: {bug.why}"))

    def _fault_of(self, bug: Row, item: pytest.Function) -> Fault | None:
        failed = self.failed.get(item.nodeid)
        if failed is None or not failed.failure.case:
            return self._known_fault(bug, item)
        there = self._known_fault(bug, item, only_case=failed.failure.case)
        if there is None or not same_failure(failed, there):
            return there  # without the cases before, which cost as much each
        return self._known_fault(bug, item, last_case=failed.failure.case)

    def _known_fault(self, bug: Row, item: pytest.Function, **cases: str) -> Fault | None:
        where = (*cases.items(), item.config.stash[OPTIONS].seed)
        key = self.reference.source, self.attempt.device, bug.name, item.nodeid, *where

        def fault() -> Fault | None:
            with suppress(Exception):  # a check that a bug breaks in another way is no failure like the attempt's
                self._planted.become(bug.plant(self.reference.source))
                return fails(item, self._planted, self.reference, **cases)
            return None

        return remembered(key, fault)

    def shows_in_values(self, failed: pytest.Function) -> Callable[[Row], bool] | None:
        """Whether a bug shows in the first case of the first check of core that the attempt passes.

        For one of core that failed no other is run before its turn: it is one of the same callable that has passed
        already, or none.
        """
        before = [each for each in self.items if each.cls is failed.cls and tier_of(each) is Tier.CORE]
        done = (each for each in before if (check := self.checks.get(each.nodeid)) and check.outcome is Outcome.PASSED)
        first = next(done if failed in before else self.passed(Tier.CORE), None)
        case = next(iter(getattr(first.cls, "cases", ())), "") if first else ""
        if first is None or not case:
            return None
        return lambda bug: self._known_fault(bug, first, only_case=case) is not None

    def passed(self, *tiers: Tier) -> Iterator[pytest.Function]:
        """The checks without a clock that the attempt passes; those that are not yet done, here, are run for it."""
        mine = [item for item in self.items if tier_of(item) in (tiers or (Tier.CORE, Tier.ROBUST))]
        mine.sort(key=lambda item: item.nodeid not in self.checks)  # what other judges run comes last
        for item in mine:
            check = self.checks.get(item.nodeid)
            if check is not None and check.outcome is not Outcome.GRADER_ERROR:
                passes = check.outcome is Outcome.PASSED
            else:
                passes = self._passes_now(item)
            if passes:
                yield item

    def _passes_now(self, item: pytest.Function) -> bool:
        if self.attempt.timeouts:
            return False  # it must not use up the patience with an attempt that hangs
        if item.nodeid not in self._passes:
            self._passes[item.nodeid] = False
            with suppress(Exception):
                self._passes[item.nodeid] = fails(item, self.attempt, self.reference) is None
        return self._passes[item.nodeid]

    def trials_of(self, contract: type[CandidateTest], options: Options) -> Trials:
        """The test that the attempt defines, to be tried on programs."""
        if options.debug or options.device != "cpu":
            pytest.skip("a test is judged on the CPU, in workers of its own: leave out --pdb and --device")
        if contract not in self.trials:
            given = contract.material()
            self.trials[contract] = Trials(self.attempt, contract.name, given.names, given.reference, options.seed)
        return self.trials[contract]

    def remarks(self) -> tuple[list[str], list[str]]:
        """What is told of a fix and a test in any case, and the names of the mistakes that the test lets through."""
        remarks, passed = [self.mended] if self.mended else [], list[str]()
        for contract, trials in self.trials.items():
            changed = contract().changed(trials.attempt.source)
            remarks.append(f"the fix changes {changed} line{'s' * (changed != 1)} of the program that was handed out")
            if trials.sharpness:
                count, passed = trials.sharpness
                through = f", and lets through {by_kind(contract.material(), passed)}" if passed else ""
                remarks.append(f"the test rejects {count} further mistakes{through}")
        return remarks, passed

    def close(self) -> None:
        """End every worker that was started for this kata."""
        for attempt in (self.attempt, self.reference, self._planted):
            attempt.close()


class _SilentTerminal:
    """Where pytest-timeout writes the stacks of a check that it ends; without a terminal it would end the session."""

    _tw = TerminalWriter(io.StringIO())


class GraderPlugin:
    """What every session of graders needs: one mark a check, an order, and what to do with each check."""

    def __init__(self, options: Options, run: Callable[[pytest.Function], None]) -> None:
        self.options, self.run = options, run
        self.interrupted: BaseException | None = None
        self.places: dict[str, int] = {}
        self.every: list[pytest.Function] = []

    @pytest.fixture
    def attempt(self) -> None:
        """What a check asks for, by this name or another, is what `run_check` gives it."""

    draw = reference = trials = attempt

    def pytest_configure(self, config: pytest.Config) -> None:
        config.stash[OPTIONS] = self.options
        for tier in Tier:
            config.addinivalue_line("markers", f"{tier}: a check of the {tier} tier")
        config.pluginmanager.register(_SilentTerminal(), "terminalreporter")
        config.option.tbstyle = "native"  # pytest's own, which nobody reads, parses the grader for each failure

    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        order = list(Tier)
        katas = list(dict.fromkeys(kata_of(item) for item in items))
        items.sort(key=lambda item: (katas.index(kata_of(item)), order.index(tier_of(item))))
        for kata in katas:
            own = [item for item in items if kata_of(item) == kata]
            self.places |= {item.nodeid: place for place, item in enumerate(own)}
        chosen = chooser(self.options.keyword)
        kept = [item for item in items if self.options.tier in (None, tier_of(item)) and self.asked(item)]
        kept = [item for item in kept if chosen(self.places[item.nodeid] + 1, name_of(item))]
        config.hook.pytest_deselected(items=[item for item in items if item not in kept])
        self.every = [item for item in kept if isinstance(item, pytest.Function)]
        first, step = self.options.part
        only = self.options.only
        items[:] = [
            item
            for item in kept[first::step]
            if only is None or {(name := name_of(item)), name.partition("[")[0]} & only
        ]

    def asked(self, item: pytest.Item) -> bool:
        """Whether a check is of a stage that is graded."""
        return True

    def pytest_pyfunc_call(self, pyfuncitem: pytest.Function) -> bool:
        self.run(pyfuncitem)  # in place of the one call that pytest would make
        return True

    def pytest_keyboard_interrupt(self, excinfo: pytest.ExceptionInfo[BaseException]) -> None:
        # pytest calls it an interruption too when a grader cannot be imported
        self.interrupted = None if isinstance(excinfo.value, pytest.Session.Interrupted) else excinfo.value


class Judging(GraderPlugin):
    """Holds the subjects of one run; a check without a recorded outcome counts as failed."""

    def __init__(
        self,
        subjects: dict[str, Subject],
        options: Options,
        finished: Callable[[str], None] = lambda kata: None,
        checked: Callable[[Check], None] = lambda check: None,
    ) -> None:
        super().__init__(options, self.judge)
        self.subjects, self.finished, self.checked = subjects, finished, checked

    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        for module in dict.fromkeys(item.getparent(pytest.Module) for item in items):
            assert module is not None
            subject = self.subjects[kata_of(module)]
            if subject.hunted:
                own: list[Any] = [
                    getattr(item, "cls", None) for item in items if item.path == module.path and of_a_test(item)
                ]
                items[:] = [item for item in items if item.path != module.path or not of_a_test(item)]
                contract = hunted(subject.kata, subject.hunted, *own[:1])
                node = pytest.Class.from_parent(module, name=contract.__name__)
                node.obj = contract
                items += module.session.genitems(node)
        super().pytest_collection_modifyitems(config, items)

    def asked(self, item: pytest.Item) -> bool:
        """Whether a check is of a stage that is graded."""
        most = self.subjects[kata_of(item)].stages
        return most is None or stage_of(getattr(item, "cls", None)) <= most

    @pytest.hookimpl(trylast=True)
    def pytest_collection_finish(self, session: pytest.Session) -> None:
        for item in session.items:
            assert isinstance(item, pytest.Function)
            check = Check(name_of(item), tier_of(item), Outcome.GRADER_ERROR, place=self.places[item.nodeid])
            check.topic, check.stage = topic_of(item.cls, item.name), stage_of(item.cls)
            ours("this check did not run to its end").ends(check)
            self.subjects[kata_of(item)].checks[item.nodeid] = check
        for item in self.every:
            if not of_a_test(item):
                self.subjects[kata_of(item)].items.append(item)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        kata = Path(report.fspath).parent.name
        if report.failed and kata in self.subjects:  # the folders above fail with it
            check = Check("the grader itself", Tier.CORE, Outcome.GRADER_ERROR)
            ours(f"the grader cannot be read: {report.longrepr}").ends(check)
            self.subjects[kata].checks[report.nodeid] = check

    def judge(self, item: pytest.Function) -> None:
        """Run a check on the attempt; raises the fault that fails it, for `-x` goes by that."""
        subject, started = self.subjects[kata_of(item)], time.perf_counter()
        check = subject.checks[item.nodeid]
        trials = partial(subject.trials_of, item.cls, self.options)
        try:
            try:
                fault = run_check(item, subject.attempt, subject.reference, trials)
            except Exception as error:
                fault = ours(f"the grader failed with {type(error).__name__}: {error}")
            if fault is None:
                check.outcome, check.failure, check.sections = Outcome.PASSED, None, []
            else:
                self.record(item, subject, check, fault)
        finally:
            check.seconds = time.perf_counter() - started  # what the mistake is called takes its time too
        self.checked(check)
        if fault is not None and not fault.outcome.harmless:
            raise fault

    def pytest_runtest_teardown(self, item: pytest.Item, nextitem: pytest.Item | None) -> None:
        if nextitem is None or nextitem.path != item.path or item.session.shouldfail:
            subject, started = self.subjects[kata_of(item)], time.perf_counter()
            subject.name_bugs()
            subject.checks[item.nodeid].seconds += time.perf_counter() - started
            # of several judges one counts
            if not (self.options.keyword or self.options.tier) and subject.items[0].nodeid in subject.checks:
                with suppress(Exception):  # a count more or less is no verdict
                    subject.count_mended()
            subject.close()
            self.finished(kata_of(item))

    def record(self, item: pytest.Function, subject: Subject, check: Check, fault: Fault) -> None:
        """How a check ended, and what helps: what was printed, how to repeat it, the known bug that fails alike."""
        judged = not fault.outcome.harmless and fault.outcome is not Outcome.GRADER_ERROR
        fault.failure.seed = self.options.seed if judged else None
        fault.ends(check)
        if not judged:
            return
        if isinstance(fault, Wrong) and fault.expected is not None and fault.ratio is not None:
            check.picture = picture(fault.got, fault.expected, fault.ratio, fault.axes)
        if self.options.debug:
            from dojo.judge.in_process import look_into

            look_into(fault)
        if printed := subject.attempt.take_printed().strip():
            check.sections.append(Section(Label.PRINTED, f"printed:\n{printed}"))
        if check.tier is Tier.ROBUST and fault.outcome is not Outcome.FORBIDDEN and item.obj.__doc__:
            check.sections.append(Section(Label.PRACTICE, " ".join(item.obj.__doc__.split())))
        repeat = f"{subject.repeat} -k {check.place + 1} --seed {self.options.seed}"
        if not (subject.hunted and of_a_test(item)):  # which nothing but the hunt asks for
            check.sections.append(Section(Label.REPEAT, repeat))
        if self.options.scripts and fault.failing:
            message = fault.failure.sentence or happened(fault.failure)
            with suppress(ValueError):  # too large for a script
                check.script = fault.failing.script(f"{subject.kata.name}: {readable(check.name)}", message)
        if message := other_default_of(item, subject, fault):
            check.diagnosis = message
            check.sections.append(Section(Label.DIAGNOSIS, message))
        elif self.options.diagnose and not self.options.debug and not of_a_test(item) and not clocked(item):
            subject.failed[item.nodeid] = fault
            dear = check.tier is Tier.ROBUST or not fault.failure.case  # of a check with cases one alone is asked first
            ruled_out = subject.shows_in_values(item) if dear else None
            subject.diagnosis.see(item, fault, ruled_out)


def kata_of(node: pytest.Item | pytest.Module) -> str:
    """The kata whose grader a check, or a module, is of."""
    return node.path.parent.name


def other_default_of(item: pytest.Function, subject: Subject, fault: Fault) -> str:
    """Which argument that the failing call left out has another default in the attempt than in the master, in words."""
    name = callable_of(name_of(item))
    if fault.failure.given is None or fault.outcome not in DIAGNOSABLE:
        return ""
    with suppress(SyntaxError):  # cells may hold what only a notebook understands
        for source in subject.attempt.parts.values():
            if found := signature_in(source, name):
                return other_default(signature_of(subject.kata.master, name), found, fault.failure.given)
    return ""
