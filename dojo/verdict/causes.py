"""What failed checks have in common, so that one mistake is told once.

Two checks fail of one cause if the same known bug explains both, if the attempt raised at the same line, if they tell
of the same forbidden operation, or if their wrong elements lie alike. Where values are wrong, or parameters
cannot be set, what compares values in another dtype, layout or shape cannot be right either, and counts under that; so
it does where a forbidden operation gave the values. Values that are off in half precision are off of one cause. And a
candidate's test that rejects the program beside it is no mistake of its own where that program is wrong.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from dojo.verdict.screen.text import AT_STAGE
from dojo.verdict.types import Check, Failure, Kind, Outcome, Tier

USUAL = ("", "float32")  # dtypes of a call
HALF = ("float16", "bfloat16")


@dataclass
class Cause:
    """The check that tells it, and the others that fail of it."""

    check: Check
    others: list[Check] = field(default_factory=list)

    @property
    def also(self) -> str:
        """`the same cause fails 31 more checks: 3 core, 26 robust, 2 fast`, or nothing."""
        counts = Counter(check.tier for check in self.others)
        counted = ", ".join(f"{counts[tier]} {tier}" for tier in Tier if counts[tier])
        return f"{shared_by(len(self.others))}: {counted}" if self.others else ""


def assign(checks: Iterable[Check]) -> None:
    """Say of every failed check which check tells its cause: the first that has it, core before robust before fast."""
    failed = sorted((check for check in checks if not check.outcome.harmless), key=_rank)
    core = [check for check in failed if check.tier is Tier.CORE]
    leads: dict[str, Check] = {}
    forbidden = [check for check in core if check.outcome is Outcome.FORBIDDEN]
    named = [check for check in core if check.diagnosis or why(check).kind is Kind.PARAMETERS]  # or none could be set
    for check in [*named, *filter(_compares, core), *forbidden]:
        leads.setdefault(subject(check), check)
    first: dict[tuple[object, ...], Check] = {}
    for check in failed:
        if why(check).kind is Kind.BESIDE:
            program = next((each for each in core if subject(each) != subject(check)), None)
            if program:
                check.cause = program.cause or program.name
                continue
        lead = leads.get(subject(check))
        own = check.diagnosis and lead not in forbidden
        follows = lead is not None and not own and (_compares(check) or why(check).dtype not in USUAL)
        key = _key(lead if lead is not None and follows and check.outcome is Outcome.WRONG else check)
        check.cause = first.setdefault(key, check).name
        if check.diagnosis and (lines := why(check).lines):  # whoever raises there too has made the mistake
            first.setdefault(("line", check.outcome, lines), first[key])


def causes(checks: Sequence[Check]) -> list[Cause]:
    """The causes of what failed, in the order in which they are told; without `assign`, each check is one."""
    found: dict[str, Cause] = {}
    for check in sorted((check for check in checks if not check.outcome.harmless), key=_rank):
        name = check.cause or check.name
        if name in found:
            found[name].others.append(check)
        else:
            found[name] = Cause(check)
    return list(found.values())


def shared_by(count: int) -> str:
    """How many checks fail besides of a cause, in words."""
    return f"the same cause fails {count} more check{'s' * (count != 1)}"


def _rank(check: Check) -> tuple[int, int]:
    return list(Tier).index(check.tier), check.place


def subject(check: Check) -> str:
    """The class or function that a check is about, in whatever stage it is asked for."""
    return check.name.partition("::")[0].partition(AT_STAGE)[0]


def why(check: Check) -> Failure:
    """What a check failed of; of one that was never run nothing is known."""
    return check.failure or Failure(Kind.UNJUDGED)


def _compares(check: Check) -> bool:
    return check.outcome is Outcome.WRONG and bool(why(check).compared)


def _key(check: Check) -> tuple[object, ...]:
    """What two checks of the same cause have in common."""
    failure = why(check)
    if check.diagnosis:
        return "bug", check.diagnosis
    if check.outcome is Outcome.TIMED_OUT:
        return (check.outcome,)
    if failure.lines:
        return "line", check.outcome, failure.lines
    if check.outcome is not Outcome.WRONG:
        return "event", check.outcome, failure.what, failure.sentence
    if failure.compared in HALF:
        return "half precision", subject(check)
    if failure.pattern:
        return "pattern", subject(check), failure.pattern
    return "sentence", subject(check), failure.what, failure.sentence
