"""How a call into an attempt can fail, as exceptions that carry what the verdict will say."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from dojo.verdict.slips import slip
from dojo.verdict.types import Label, Outcome, Section

if TYPE_CHECKING:
    from dojo.verdict.repro import FailingCall


class Fault(Exception):
    """A check that ends here, with this outcome and these sections of explanation."""

    failing: FailingCall | None = None  # the one call that failed, where it was one
    case: str = ""  # what the check calls it
    starved: bool = False  # the clock ended it, and it had little of a processor
    given: set[str] | None = None  # the arguments that it stated; the others had their defaults

    def __init__(self, outcome: Outcome, *sections: Section) -> None:
        super().__init__("\n".join(s.text for s in sections))
        self.outcome = outcome
        self.sections = list(sections)


# How autograd refuses to change what it takes gradients of, which a call may not change anyway.
CHANGED_IN_PLACE = re.compile(r"leaf Variable that requires grad .*in-place operation")


UNKNOWN = "?"  # an operand that has no name: its shape is not to be had


class Raised(Fault):
    """The attempt raised `kind` (the exception's class name) with `text`; `bases` are the names of its classes.

    `operation` is what its line computed, and the shapes of the operands.
    """

    def __init__(self, kind: str, text: str, bases: list[str], lines: str, operation: list[str]) -> None:
        said = f"the attempt raised {f'{kind}: {text}' if text else kind}"
        if kind == "NotImplementedError" and not text:
            said = "this is not written yet: it raises NotImplementedError"
        if lines.startswith("File "):  # which say what Python could not read, and where
            said = "this is not valid Python"
        sections = [Section(Label.EVENT, said)]
        if CHANGED_IN_PLACE.search(text):
            sections.append(Section(Label.FACTS, "an input, or a parameter, is changed in place"))
        if question := slip(text, lines, operation):
            sections.append(Section(Label.FACTS, question))
        if lines:
            sections.append(Section(Label.TRACEBACK, lines))
        super().__init__(Outcome.CRASHED, *sections)
        self.kind, self.text, self.bases, self.operation = kind, text, bases, operation


class LeftDebugger(KeyboardInterrupt):
    """The user has left the debugger: no check goes on."""


class Forbidden(Fault):
    """The attempt used, or reached for, what the contract rules out."""

    def __init__(self, sentence: str, *sections: Section) -> None:
        super().__init__(Outcome.FORBIDDEN, Section(Label.EVENT, sentence), *sections)


PARAMETERS = "the module holds exactly the parameters that the contract names"
NO_RETURN = "the result is None: is there no `return`?"


def no_tensor(value: object) -> str:
    """What is said of a result that is no tensor."""
    return NO_RETURN if value is None else f"the result is a {type(value).__name__}, not a torch.Tensor"


def no_answer(value: object) -> str:
    """What is said of a result that cannot be sent: it is neither a tensor nor a plain value."""
    return f"{no_tensor(value)}, nor a number, text, or a list, tuple or dict of them"


class NoTensor(Fault):
    """The attempt gave back something else than a tensor."""

    def __init__(self, value: object) -> None:
        super().__init__(Outcome.WRONG, Section(Label.EVENT, no_tensor(value)))


class Unusable(Fault):
    """The attempt gave back what a check cannot use, and `error` is where the check broke over it."""

    def __init__(self, answer: object, error: Exception) -> None:
        broke = f"it cannot be compared: {type(error).__name__}: {error}"
        facts = Section(Label.FACTS, f"got {described(answer)}\n{broke[:TOLD]}")
        super().__init__(Outcome.WRONG, Section(Label.CONTRACT, "the answer is of the kind that is asked for"), facts)


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
        return f"a {dtype.removeprefix('torch.')} tensor of shape {tuple(shape)}" + (
            " on meta" if place == "meta" else ""
        )
    article = "an" if type(value).__name__[0] in "aeiou" else "a"
    return f"{article} {type(value).__name__}"


class Died(Fault):
    """The worker is gone: it crashed, left by itself or was killed for taking too long."""

    def __init__(self, outcome: Outcome, sentence: str, lines: str = "", starved: bool = False) -> None:
        sections = [Section(Label.EVENT, sentence)]
        if lines:
            sections.append(Section(Label.TRACEBACK, lines))
        super().__init__(outcome, *sections)
        self.starved = starved
