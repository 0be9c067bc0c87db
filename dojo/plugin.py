"""The pytest plugin that runs graders over attempts and gathers what every check came to."""

from __future__ import annotations

import io
import time
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from _pytest._io import TerminalWriter
from torch import Tensor

from dojo.bugs import Bug, same_failure
from dojo.expect import Draw, Wrong
from dojo.judge.faults import Fault
from dojo.judge.proxy import Attempt
from dojo.picture import picture
from dojo.verdict import Check, Label, Outcome, Section, Tier

if TYPE_CHECKING:
    from dojo.grade import Options

DIAGNOSIS_SECONDS = 4.0  # a kata's diagnosis may take this long; what it has not found by then it leaves out


@dataclass
class Subject:
    """One kata under grading: the attempt, the reference it is timed against, and how to make more attempts."""

    kata: str
    attempt: Attempt
    reference: Attempt
    master: str
    another: Callable[[str, str], Attempt]  # (source, filename) -> an attempt on the same zygote and device
    repeat: str  # the command line that grades this attempt again, less the check
    checks: dict[str, Check] = field(default_factory=dict)
    diagnosing: float = 0.0
    suspects: list[tuple[Bug, Attempt]] | None = None  # the known bugs that fail as the attempt did so far

    def __post_init__(self) -> None:
        self.all_suspects: list[tuple[Bug, Attempt]] = []

    def close(self) -> None:
        """End every worker that was started for this kata."""
        self.attempt.close()
        self.reference.close()
        for _, attempt in self.all_suspects:
            attempt.close()


class _Unheard:
    """Where pytest-timeout writes the stacks of a check that it ends; without a terminal it would end the session."""

    _tw = TerminalWriter(io.StringIO())


class Judging:
    """Holds the subjects of one run; a check without a recorded outcome counts as failed."""

    def __init__(
        self,
        subjects: dict[str, Subject],
        options: Options,
        skip: str = "",
        finished: Callable[[str], None] = lambda kata: None,
    ) -> None:
        self.subjects, self.options, self.seed = subjects, options, options.seed
        self.skip = skip  # why nothing can be judged here, if so
        self.finished = finished
        self.interrupted = False

    @pytest.fixture
    def attempt(self, request: pytest.FixtureRequest) -> Attempt:
        """The attempt under grading."""
        return self.subjects[request.path.stem].attempt

    @pytest.fixture
    def reference(self, request: pytest.FixtureRequest) -> Attempt:
        """The solution, in a worker of its own, to be timed against."""
        return self.subjects[request.path.stem].reference

    @pytest.fixture
    def draw(self, request: pytest.FixtureRequest) -> Draw:
        """The inputs of this check: the same for the same seed, whatever else runs."""
        return self.draw_for(request.node)

    def draw_for(self, item: pytest.Item) -> Draw:
        """Fresh inputs for a check, as it had them before."""
        return Draw(self.seed * 1_000_003 + zlib.crc32(_name(item).encode()))

    def pytest_configure(self, config: pytest.Config) -> None:
        for tier in Tier:
            config.addinivalue_line("markers", f"{tier}: a check of the {tier} tier")
        config.pluginmanager.register(_Unheard(), "terminalreporter")

    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        kept = [item for item in items if self.options.tier in (None, _tier(item))]
        config.hook.pytest_deselected(items=[item for item in items if item not in kept])
        order = list(Tier)
        katas = list(self.subjects)
        kept.sort(key=lambda item: (katas.index(item.path.stem), order.index(_tier(item))))
        self.places = {item.nodeid: place for place, item in enumerate(kept)}
        first, step = self.options.part
        only = self.options.only
        items[:] = [item for item in kept[first::step] if only is None or _name(item) in only]

    @pytest.hookimpl(trylast=True)
    def pytest_collection_finish(self, session: pytest.Session) -> None:
        for item in session.items:
            unseen = Section(Label.CONTRACT, "our fault, not yours: this check did not run to its end")
            check = Check(_name(item), _tier(item), Outcome.GRADER_ERROR, sections=[unseen])
            check.place = self.places[item.nodeid]
            self.subjects[item.path.stem].checks[item.nodeid] = check

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            kata = Path(report.fspath).stem
            told = Section(Label.CONTRACT, f"our fault, not yours: the grader cannot be read: {report.longrepr}")
            check = Check("the grader itself", Tier.CORE, Outcome.GRADER_ERROR, sections=[told])
            self.subjects[kata].checks[report.nodeid] = check

    def pytest_keyboard_interrupt(self) -> None:
        self.interrupted = True

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Iterator[None]:
        subject = self.subjects[item.path.stem]
        check, started = subject.checks[item.nodeid], time.perf_counter()
        try:
            if self.skip:
                pytest.skip(self.skip)
            if self.options.until_diagnosed and any(known.diagnosis for known in subject.checks.values()):
                pytest.skip("not run: the mistake is known already")
            yield
        except Fault as fault:
            check.outcome, check.sections = fault.outcome, list(fault.sections)
            check.seconds = time.perf_counter() - started
            if isinstance(fault, Wrong) and isinstance(fault.got, Tensor) and fault.expected is not None:
                check.picture = picture(fault.got, fault.expected, fault.allowed, fault.axes)
            if not fault.outcome.harmless:
                self.explain(item, subject, check, fault)
            if not fault.outcome.harmless or fault.outcome is Outcome.SKIPPED:
                raise
        except pytest.skip.Exception as skipped:
            check.outcome, check.sections = Outcome.SKIPPED, [Section(Label.CONTRACT, str(skipped))]
            raise
        except Exception as error:
            told = f"our fault, not yours: the grader failed with {type(error).__name__}: {error}"
            check.outcome, check.sections = Outcome.GRADER_ERROR, [Section(Label.CONTRACT, told)]
            raise
        else:
            check.outcome, check.sections = Outcome.PASSED, []
        finally:
            check.seconds = check.seconds or time.perf_counter() - started

    def pytest_runtest_teardown(self, item: pytest.Item, nextitem: pytest.Item | None) -> None:
        if nextitem is None or nextitem.path != item.path:
            self.subjects[item.path.stem].close()
            self.finished(item.path.stem)

    def explain(self, item: pytest.Item, subject: Subject, check: Check, fault: Fault) -> None:
        """Add what helps: what the attempt printed, the seed, the known bug that fails alike, how to repeat."""
        printed = subject.attempt.take_printed().strip()
        if printed:
            check.sections.append(Section(Label.PRINTED, f"printed:\n{printed}"))
        inputs = [s.text for s in check.sections if s.label is Label.INPUT]
        check.sections = [s for s in check.sections if s.label is not Label.INPUT]
        check.sections.append(Section(Label.INPUT, "; ".join([*inputs, f"seed {self.seed}"])))
        if self.options.diagnose and not self.options.debug and fault.outcome in DIAGNOSABLE:
            bug = self.diagnosis(item, subject, fault)
            if bug is not None:
                check.diagnosis = bug.name
                check.sections.append(Section(Label.DIAGNOSIS, f"this equals what “{bug.name}” gives: {bug.why}"))
        function = getattr(item, "originalname", item.name)
        repeat = f"{subject.repeat} -k {function} --seed {self.seed}"
        check.sections.append(Section(Label.REPEAT, f"just this check again: {repeat}"))

    def diagnosis(self, item: pytest.Item, subject: Subject, fault: Fault) -> Bug | None:
        """The one known bug that fails this check and those before it in the same way, if there is exactly one.

        Where several do, those are left out that fail a check which the attempt has passed.
        """
        if subject.suspects is None:
            bugs = getattr(item.module, "BUGS", [])
            subject.all_suspects = [(bug, subject.another(bug.plant(subject.master), "bug.py")) for bug in bugs]
            subject.suspects = subject.all_suspects
        started, alike = time.perf_counter(), []
        for bug, attempt in subject.suspects:
            if subject.diagnosing + time.perf_counter() - started > DIAGNOSIS_SECONDS:
                return None
            if _fails_alike(item, attempt, self.draw_for(item), fault):
                alike.append((bug, attempt))
        if len(alike) > 1:
            passed = [other for other in item.session.items if self.has_passed(subject, item, other)]
            alike = [
                (bug, attempt)
                for bug, attempt in alike
                if time.perf_counter() - started > DIAGNOSIS_SECONDS or self.passes_all(passed, subject, attempt)
            ]
        subject.diagnosing += time.perf_counter() - started
        subject.suspects = alike or subject.suspects
        return alike[0][0] if len(alike) == 1 else None

    def has_passed(self, subject: Subject, item: pytest.Item, other: pytest.Item) -> bool:
        """Whether another check of the same kata has been passed, one without a clock."""
        check = subject.checks.get(other.nodeid) if other.path == item.path else None
        return check is not None and check.outcome is Outcome.PASSED and check.tier is not Tier.FAST

    def passes_all(self, items: list[pytest.Item], subject: Subject, suspect: Attempt) -> bool:
        """Whether a known bug passes what the attempt has passed: if not, it is another mistake."""
        for item in items:
            given = {"attempt": suspect, "draw": self.draw_for(item), "reference": subject.reference}
            given |= item.callspec.params if hasattr(item, "callspec") else {}
            try:
                item.obj(**{name: given[name] for name in item._fixtureinfo.argnames})
            except Fault:
                return False
        return True


DIAGNOSABLE = (Outcome.WRONG, Outcome.CRASHED)


def _fails_alike(item: pytest.Item, suspect: Attempt, draw: Draw, fault: Fault) -> bool:
    arguments = {name: item.funcargs[name] for name in item._fixtureinfo.argnames}
    arguments |= {k: v for k, v in (("attempt", suspect), ("draw", draw)) if k in arguments}
    try:
        item.obj(**arguments)
    except Fault as other:
        return same_failure(fault, other)
    return False


def _tier(item: pytest.Item) -> Tier:
    marks = [tier for tier in Tier if item.get_closest_marker(tier)]
    if len(marks) != 1:
        raise pytest.UsageError(f"{item.nodeid} must carry exactly one of the marks {', '.join(Tier)}")
    return marks[0]


def _name(item: Any) -> str:
    """`RoPEReal: values match the definition (half precision)` for `TestRoPEReal::test_values…[half_precision]`."""
    return item.nodeid.partition("::")[2]
