"""A verdict and what it is made of: tiers, outcomes and checks, and their JSON."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from dojo.verdict.screen.text import readable


class Tier(StrEnum):
    """What a check is about: `core` is correctness, `robust` is robustness, `fast` is performance."""

    CORE = "core"
    ROBUST = "robust"
    FAST = "fast"


class Outcome(StrEnum):
    """How one check ended. Only the first four let a kata pass."""

    PASSED = "passed"
    UNDECIDED = "undecided"
    SKIPPED = "skipped"
    DESELECTED = "deselected"
    WRONG = "wrong"
    CRASHED = "crashed"
    TIMED_OUT = "timed out"
    FORBIDDEN = "forbidden"
    SLOW = "slow"
    GRADER_ERROR = "grader error"

    @property
    def harmless(self) -> bool:
        """Whether a kata with this outcome among its checks may still pass."""
        return self in (Outcome.PASSED, Outcome.UNDECIDED, Outcome.SKIPPED, Outcome.DESELECTED)


HARMLESS = {outcome.value for outcome in Outcome if outcome.harmless}


class Label(StrEnum):
    """What a section of a failure's message is about, in the order in which they are shown."""

    EVENT = "happened"  # what ended the check otherwise than by an answer: raised, forbidden, out of time
    CONTRACT = "must hold"  # the sentence of the contract that does not hold
    PRACTICE = "in practice"  # what goes wrong in practice, of a robust check
    FACTS = "facts"  # shape, dtype, finiteness
    INPUT = "input"  # the smallest failing case, its axes by name, the seed
    ELEMENTS = "elements"  # first and worst element: index, got, expected, error in units of the allowed error
    PATTERN = "pattern"  # what the wrong elements have in common
    MAP = "map"  # a text heat map
    TRACEBACK = "traceback"  # the attempt's own lines
    PRINTED = "printed"  # what the attempt printed
    DIAGNOSIS = "diagnosis"  # the known bug whose output this equals
    ALSO = "also"  # how many other checks fail of the same cause
    REPEAT = "just this"  # the command that runs just this check again


class Kind(StrEnum):
    """In what way an attempt failed a check."""

    PROMISE = "promise"  # what the contract says does not hold
    COMPARED = "compared"  # an answer is not the oracle's
    PARAMETERS = "parameters"  # a module holds others than the contract names
    NO_RETURN = "no return"
    UNUSABLE = "unusable"  # an answer of a kind that nothing can be compared with
    RAISED = "raised"
    UNWRITTEN = "unwritten"  # it raises what a stub raises
    NO_PYTHON = "no Python"
    DIED = "died"  # its process ended, or had to be ended
    FORBIDDEN = "forbidden"
    BESIDE = "beside"  # its test does not accept the program beside it
    UNJUDGED = "unjudged"  # skipped, undecided, or a fault of the grader


@dataclass
class Failure:
    """Why a check failed, as data: causes and diagnoses compare it, `failures.sentences` puts it into words."""

    kind: Kind
    sentence: str = ""  # of the contract
    facts: tuple[str, ...] = ()  # seen instead
    what: str = ""  # was raised, forbidden or left open, or how the process ended
    lines: str = ""  # of the attempt, down to the one that raised
    line: int = 0  # of the attempt's file, the last that was passed; 0 where none is known
    inputs: list[str] = field(default_factory=list)  # of the call, in words
    seed: int | None = None  # that gives the same
    case: str = ""  # what the check calls that call
    given: set[str] | None = None  # the arguments that it stated; the others had their defaults
    dtype: str = ""  # in which its result was asked for
    compared: str = ""  # the dtype in which the elements differ, or `shape`, for which they cannot be compared
    pattern: str = ""  # what the wrong elements have in common
    definition: bool = False  # the result is wrong, and no more was promised of it than to be right

    @property
    def seen(self) -> tuple[object, ...]:
        """What two that fail alike have in common, however their files are written."""
        return self.kind, self.what, self.sentence, self.facts


NAMED = (Label.CONTRACT, Label.PRACTICE)  # what is no statement of what was seen, and must not be read as one


MOST_TEXT = 4000  # characters of a text that an attempt has a say in
# What a terminal obeys and no page, XML or log may hold; a lone half of a surrogate pair is in no encoding, and what
# overrides the direction of writing makes the words around it read otherwise than they are.
UNSHOWN = {n: f"\\x{n:02x}" for n in (*range(9), 11, 12, *range(14, 32), *range(127, 160))}
UNSHOWN |= {n: f"\\u{n:04x}" for n in (*range(0xD800, 0xE000), 0xFFFE, 0xFFFF)} | {13: "\n"}
UNSHOWN |= {n: f"\\u{n:04x}" for n in (*range(0x202A, 0x202F), *range(0x2066, 0x206A))}


def plain(text: str, most: int) -> str:
    """A text that can be shown anywhere: so many characters of its two ends, control characters as their escapes."""
    if len(text) > most:
        text = f"{text[: most - most // 2]} … {len(text) - most} more characters … {text[len(text) - most // 2 :]}"
    return text.replace("\r\n", "\n").translate(UNSHOWN)


@dataclass(frozen=True)
class Section:
    """One part of a failure's message; `text` may hold several lines, and is plain."""

    label: Label
    text: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "text", plain(self.text, 4 * MOST_TEXT))


@dataclass
class Check:
    """The result of one check of a grader; `seconds` is wall time."""

    name: str
    tier: Tier
    outcome: Outcome
    seconds: float = 0.0
    sections: list[Section] = field(default_factory=list)
    failure: Failure | None = None  # what the sections tell
    diagnosis: str | None = None
    picture: dict[str, Any] | None = None  # as `heatmap.picture` makes it
    place: int = 0  # in the order of the grader's checks; on the screen they are counted from 1
    script: str = ""  # that makes the failing call by itself, if asked for
    starved: bool = False  # ended by the clock with little processor time: the machine may have been too busy
    topic: str = ""  # of the contract, which the check holds
    stage: int = 0  # of a kata with stages: the one that asks for it
    cause: str = ""  # of a failed check: the name of the one that tells why it failed, its own perhaps

    @property
    def message(self) -> str:
        """The whole explanation as plain text, sections in their order."""
        order = list(Label)
        ordered = sorted(self.sections, key=lambda s: order.index(s.label))
        return "\n".join(f"{s.label}: {s.text}" if s.label in NAMED else s.text for s in ordered)

    def to_json(self, pictures: bool = False) -> dict[str, Any]:
        """The object that `--json` writes for this check, with its picture if asked for."""
        found = {
            "name": self.name,
            "tier": self.tier.value,
            "outcome": self.outcome.value,
            "seconds": round(self.seconds, 4),
            "message": self.message,
            "diagnosis": self.diagnosis,
            "topic": self.topic or None,
            "cause": self.cause or None,
        }
        found |= {"stage": self.stage} if self.stage else {}
        found |= {"starved": True} if self.starved else {}
        return found | {"picture": self.picture} if pictures and self.picture else found


@dataclass
class Verdict:
    """One kata's result.

    `verdict` is `passed`, `failed`, `broken` (cannot be imported), `empty` (untouched stub) or `unjudged` (debugged).
    """

    kata: str
    attempt: str
    verdict: str
    checks: list[Check]
    device: str
    torch: str
    seconds: float
    seed: int
    message: str = ""  # why the file is broken, or what to do with an empty one
    failure: Failure | None = None  # of a broken file
    repeat: str = ""  # the command that grades the same again
    only: str | None = None  # the one tier that was asked for, if it was one
    stage: int = 0  # of a kata with stages: the last that was graded
    stages: int = 0  # how many there are
    part: bool = False  # whether no more of them were asked for
    error_ratio: float = 0.0  # the largest error seen, in units of the allowed error
    remarks: list[str] = field(default_factory=list)  # of an attempt with a test: what is told whether it passed or not
    mentions: list[str] = field(default_factory=list)  # words that no answer needs, for a person to look at
    help: str = ""  # that its user had, in words that follow "passed": `with 2 hints`
    let_through: list[str] = field(default_factory=list)  # names of the mistakes that its test accepts; an answer

    @property
    def selected(self) -> list[Check]:
        """The checks but for those that were deselected."""
        return [check for check in self.checks if check.outcome is not Outcome.DESELECTED]

    @property
    def state(self) -> str:
        """The verdict in the word that is shown."""
        if not self.whole and self.verdict == "failed" and self.reached == self.stage:
            return SO_FAR
        return self.standing or state_of(self.verdict, self.tiers)

    @property
    def whole(self) -> bool:
        """Whether all that was asked for was graded: of a kata with stages each, or those that were named."""
        return self.stage == self.stages or self.part

    @property
    def by_stage(self) -> dict[int, str]:
        """How each stage stands that was graded: passed, right or wrong, by its own checks."""
        found = {}
        for stage in sorted({check.stage for check in self.checks} - {0}):
            own = replace(self, checks=[check for check in self.checks if check.stage == stage], stage=0, stages=0)
            passes = all(check.outcome.harmless for check in own.checks)
            found[stage] = standing_of("passed" if passes else "failed", own.tiers) or WRONG
        return found

    @property
    def reached(self) -> int:
        """The last stage whose core passes, as does that of each before it; 0 if it is none."""
        words = self.by_stage
        return next((stage - 1 for stage in range(1, len(words) + 1) if words.get(stage) not in SOLVED), len(words))

    @property
    def standing(self) -> str | None:
        """As `standing_of` says; what passes the core tier and was asked for no other is right."""
        found = standing_of(self.verdict, self.tiers)
        return RIGHT if found == PASSED and self.only == Tier.CORE else found

    @property
    def lacking(self) -> list[str]:
        """What keeps a right attempt from passing: topics of the statement, and sentences of checks without one."""
        failed = [check for check in self.checks if not check.outcome.harmless]
        telling = [check for check in failed if check.topic or check.cause in ("", check.name)]
        names = [check.topic or readable(check.name.rpartition("::")[2].partition("[")[0]) for check in telling]
        return list(dict.fromkeys(names))

    @property
    def tiers(self) -> dict[str, str]:
        """Per tier: `passed` when all its checks are harmless, else `failed`; tiers without checks are absent."""
        seen: dict[str, str] = {}
        for check in self.selected:
            bad = not check.outcome.harmless or seen.get(check.tier) == "failed"
            seen[check.tier.value] = "failed" if bad else "passed"
        return seen if self.whole else seen | {Tier.CORE.value: "failed"}  # what is not written does not work

    def to_json(self, pictures: bool = False) -> dict[str, Any]:
        """The object that `--json` writes for this kata, with the pictures of failed checks if asked for."""
        known: dict[str, object] = {"remarks": self.remarks, "help": self.help, "mentions": self.mentions}
        known |= {"stages": {str(stage): word for stage, word in self.by_stage.items()}} if self.stages else {}
        return {name: value for name, value in known.items() if value} | {
            "kata": self.kata,
            "attempt": self.attempt,
            "verdict": self.verdict,
            "standing": self.standing,
            "message": self.message,
            "tiers": self.tiers,
            "checks": [check.to_json(pictures) for check in self.selected],
            "device": self.device,
            "torch": self.torch,
            "seconds": round(self.seconds, 3),
            "seed": self.seed,
            "used": self.error_ratio if math.isfinite(self.error_ratio) else None,
        }


PASSED, RIGHT, WRONG = "passed", "right", "wrong"
SO_FAR = "right so far"  # the core of every stage that is open, and there are more
SOLVED = (PASSED, RIGHT)


def standing_of(verdict: str, tiers: Mapping[str, str]) -> str | None:
    """`passed`: all tiers; `right`: core, and not all the rest; `wrong`: not core. None where nothing was judged."""
    if verdict == "failed":
        return RIGHT if tiers.get(Tier.CORE) == "passed" else WRONG
    return PASSED if verdict == "passed" else None


def state_of(verdict: str, tiers: Mapping[str, str]) -> str:
    """The word that is shown for a verdict: where nothing was judged, why; an untouched stub is `not started`."""
    return standing_of(verdict, tiers) or ("not started" if verdict == "empty" else verdict)


def state_in(details: Mapping[str, Any]) -> str:
    """The same for a verdict as JSON has it."""
    return details.get("standing") or state_of(details["verdict"], details.get("tiers", {}))
