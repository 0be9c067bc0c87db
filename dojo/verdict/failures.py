"""How a call into an attempt can fail, as exceptions that carry what the verdict will say."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from dojo.verdict.slips import slip
from dojo.verdict.types import Check, Failure, Kind, Label, Outcome, Section

if TYPE_CHECKING:
    from dojo.verdict.repro import FailingCall

HAPPENED = {
    Kind.RAISED: "the attempt raised {0.what}",
    Kind.UNWRITTEN: "this is not written yet: it raises NotImplementedError",
    Kind.NO_PYTHON: "this is not valid Python",
}


def happened(failure: Failure) -> str:
    """What ended the check otherwise than by an answer, in words; nothing if nothing did."""
    return HAPPENED.get(failure.kind, "{0.what}").format(failure)


def sentences(failure: Failure) -> list[Section]:
    """A failure in words, but for the pictures of what differs."""
    texts = {
        Label.EVENT: happened(failure),
        Label.CONTRACT: failure.sentence,
        Label.FACTS: "\n".join(failure.facts),
        Label.INPUT: "; ".join([*failure.inputs, *([] if failure.seed is None else [f"seed {failure.seed}"])]),
        Label.TRACEBACK: failure.lines,
    }
    return [Section(label, text) for label, text in texts.items() if text]


class Fault(Exception):
    """A check that ends here, with this outcome, why, and pictures of what differs."""

    failing: FailingCall | None = None  # the one call that failed, where it was one
    starved: bool = False  # the clock ended it, and it had little of a processor

    def __init__(self, outcome: Outcome, failure: Failure, *pictures: Section) -> None:
        super().__init__()
        self.outcome, self.failure, self.pictures = outcome, failure, pictures

    @property
    def sections(self) -> list[Section]:
        """All that explains it."""
        return [*sentences(self.failure), *self.pictures]

    def ends(self, check: Check) -> None:
        """Record it as how a check ended."""
        check.outcome, check.failure, check.sections = self.outcome, self.failure, self.sections
        check.starved = self.starved

    def __str__(self) -> str:
        return "\n".join(section.text for section in self.sections)


# How autograd refuses to change what it takes gradients of, which a call may not change anyway.
CHANGED_IN_PLACE = re.compile(r"leaf Variable that requires grad .*in-place operation")
UNKNOWN = "?"  # an operand that has no name: its shape is not to be had


class Raised(Fault):
    """The attempt raised `kind` (the exception's class name) with `text`; `bases` are the names of its classes.

    `operation` is what its line computed, and the shapes of the operands; a file that is not `read` is no Python.
    """

    def __init__(
        self, kind: str, text: str, bases: list[str], lines: str, operation: list[str], line: int = 0, read: bool = True
    ) -> None:
        how = Kind.UNWRITTEN if kind == "NotImplementedError" and not text else Kind.RAISED
        changed = "an input, or a parameter, is changed in place" if CHANGED_IN_PLACE.search(text) else ""
        hints = tuple(filter(None, (changed, slip(text, lines, operation))))
        what = f"{kind}: {text}" if text else kind
        super().__init__(Outcome.CRASHED, Failure(how if read else Kind.NO_PYTHON, "", hints, what, lines, line))
        self.kind, self.text, self.bases, self.operation = kind, text, bases, operation


def ours(what: str) -> Fault:
    """A fault of the grader, whoever is graded."""
    return Fault(Outcome.GRADER_ERROR, Failure(Kind.UNJUDGED, what=f"our fault, not yours: {what}"))


class LeftDebugger(KeyboardInterrupt):
    """The user has left the debugger: no check goes on."""


class Forbidden(Fault):
    """The attempt used, or reached for, what the contract rules out."""

    def __init__(self, sentence: str, *facts: str, lines: str = "", line: int = 0) -> None:
        super().__init__(Outcome.FORBIDDEN, Failure(Kind.FORBIDDEN, "", facts, sentence, lines, line))


def no_tensor(value: object, wanted: str = "torch.Tensor") -> str:
    """What is said of a result that is no tensor, or no array where that is wanted."""
    if value is None:
        return "the result is None: is there no `return`?"
    return f"the result is a {type(value).__name__}, not a {wanted}"


def no_answer(value: object) -> str:
    """What is said of a result that cannot be sent: it is neither a tensor nor a plain value."""
    return f"{no_tensor(value)}, nor a number, text, or a list, tuple or dict of them"


class NoTensor(Fault):
    """The attempt gave back something else than a tensor."""

    def __init__(self, value: object, wanted: str = "torch.Tensor") -> None:
        kind = Kind.NO_RETURN if value is None else Kind.UNUSABLE
        super().__init__(Outcome.WRONG, Failure(kind, what=no_tensor(value, wanted)))


class Unusable(Fault):
    """The attempt gave back what a check cannot use, and `error` is where the check broke over it."""

    def __init__(self, answer: object, error: Exception) -> None:
        broke = f"it cannot be compared: {type(error).__name__}: {error}"
        facts = f"got {described(answer)}", broke[:TOLD]
        super().__init__(Outcome.WRONG, Failure(Kind.UNUSABLE, "the answer is of the kind that is asked for", facts))


TOLD = 200  # characters of what a check broke over


def described(value: object) -> str:
    """The kind of an answer in words: `a tuple of (a list of 3, a float)`."""
    if isinstance(value, (tuple, list)):
        inner = ", ".join(map(described, value[:4])) + (", …" if len(value) > 4 else "")
        return f"a {type(value).__name__} of ({inner})" if value else f"an empty {type(value).__name__}"
    if value is None:
        return "None"
    if (shape := getattr(value, "shape", None)) is not None:
        dtype, place = (str(getattr(value, name, "")) for name in ("dtype", "device"))
        return f"a {dtype.removeprefix('torch.')} tensor of shape {tuple(shape)}{' on meta' * (place == 'meta')}"
    article = "an" if type(value).__name__[0] in "aeiou" else "a"
    return f"{article} {type(value).__name__}"


class Died(Fault):
    """The worker is gone: it crashed, left by itself or was killed for taking too long."""

    def __init__(self, outcome: Outcome, sentence: str, lines: str = "", line: int = 0, starved: bool = False) -> None:
        super().__init__(outcome, Failure(Kind.DIED, what=sentence, lines=lines, line=line))
        self.starved = starved
