"""The one way to run a check: on one attempt, with the inputs that only the seed of the session decides."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

from dojo.contracts.checks.candidate_test.contract import CandidateTest
from dojo.contracts.checks.inputs import Draw
from dojo.grading.options import Options
from dojo.verdict.failures import Fault, Unusable
from dojo.verdict.screen.text import AT_STAGE
from dojo.verdict.types import Failure, Kind, Outcome, Tier

if TYPE_CHECKING:
    from dojo.contracts.checks.candidate_test.trials import Trials
    from dojo.judge.proxy import Attempt

OPTIONS = pytest.StashKey[Options]()


def run_check(
    item: pytest.Function,
    attempt: Attempt,
    reference: Attempt,
    trials: Callable[[], Trials] | None = None,
    **cases: str,
) -> Fault | None:
    """How a check ends for an attempt, the solution being the reference; None for a pass.

    An answer that the check cannot use is a fault of the attempt: its solution, on the same inputs, takes the check to
    its end. Any other exception is one of the grader, and is raised. `trials` makes those of the test that an attempt
    defines; `only_case` leaves out the other cases, `last_case` those after it.
    """
    options, names = item.config.stash[OPTIONS], item._fixtureinfo.argnames
    as_seen: Callable[[Attempt], Attempt] = getattr(item.cls, "as_seen", lambda each: each)
    given: dict[str, Any] = {"attempt": as_seen(attempt), "reference": as_seen(reference)}
    given |= {"draw": draw_for(item, options.seed)}
    given |= item.callspec.params if hasattr(item, "callspec") else {}
    check = item.obj
    if cases:
        check = getattr(item.cls(), item.originalname)
        vars(check.__self__).update(cases)
    try:
        if trials and "trials" in names:
            given["trials"] = trials()
        check(**{name: given[name] for name in names})
    except Fault as fault:
        if not options.debug:
            fault.__context__ = fault.__cause__ = None  # their tracebacks would keep all that the check computed
            fault.__traceback__ = None
        return fault
    except pytest.skip.Exception as skipped:
        return Fault(Outcome.SKIPPED, Failure(Kind.UNJUDGED, what=str(skipped)))
    except Exception as error:
        answer = attempt.answer
        with suppress(Exception):
            if attempt is not reference and not of_a_test(item) and fails(item, reference, reference) is None:
                return Unusable(answer, error)
        raise
    return None


def fails(item: pytest.Function, attempt: Attempt, reference: Attempt, **cases: str) -> Fault | None:
    """The same, but None too where no kata would fail of it."""
    fault = run_check(item, attempt, reference, None, **cases)
    return None if fault is None or fault.outcome.harmless else fault


def of_a_test(item: pytest.Item) -> bool:
    """Whether a check is about the test that an attempt defines, and not about its program."""
    made = getattr(item, "cls", None)
    return isinstance(made, type) and issubclass(made, CandidateTest)


def clocked(item: pytest.Function) -> bool:
    """Whether a check times the attempt against the reference: its inputs are too large to try known bugs on."""
    return "reference" in item._fixtureinfo.argnames


def draw_for(item: pytest.Item, seed: int) -> Draw:
    """Fresh inputs for a check, the same for the same seed, whatever else runs."""
    return Draw(seed * 1_000_003 + zlib.crc32(item.nodeid.partition("::")[2].encode()))


def name_of(item: pytest.Item) -> str:
    """`Testsoftmax::test_values_match_the_definition`: the check, and of what callable, as the kata writes it."""
    own: Any = getattr(item, "cls", None)
    path = item.nodeid.partition("::")[2]
    return path if own is None else class_name(own) + path.removeprefix(own.__name__)


def class_name(own: Any) -> str:
    """What verdicts call a class of checks: by its callable, as the kata writes it, if it has one, and by its stage."""
    if not hasattr(own, "name"):
        return str(own.__name__)
    return f"Test{own.name}{AT_STAGE}{own.stage}" if stage_of(own) else f"Test{own.name}"


def stage_of(own: Any) -> int:
    """The stage in which a class of checks is asked for; 0 where there are no stages."""
    return int(getattr(own, "stage", 0))


def topic_of(own: Any, check: str) -> str:
    """The topic of the contract that a check of a class holds, by the check's own name; nothing where it holds none."""
    held = getattr(own, "holds", {}).items()
    return next((topic for topic, starts in held if check.startswith(starts)), "")


def tier_of(item: pytest.Item) -> Tier:
    """The tier that a check is marked with. Raises UsageError where it has not exactly one."""
    marks = [tier for tier in Tier if item.get_closest_marker(tier)]
    if len(marks) != 1:
        raise pytest.UsageError(f"{item.nodeid} must carry exactly one of the marks {', '.join(Tier)}")
    return marks[0]
