"""How a call into an attempt can fail, as exceptions that carry what the verdict will say."""

from __future__ import annotations

from dojo.verdict.types import Label, Outcome, Section


class Fault(Exception):
    """A check that ends here, with this outcome and these sections of explanation."""

    def __init__(self, outcome: Outcome, *sections: Section) -> None:
        super().__init__("\n".join(s.text for s in sections))
        self.outcome = outcome
        self.sections = list(sections)


class Raised(Fault):
    """The attempt raised `kind` (the exception's class name) with `text`; `bases` are the names of its classes."""

    def __init__(self, kind: str, text: str, bases: list[str], lines: str) -> None:
        said = f"{kind}: {text}" if text else kind
        sections = [Section(Label.CONTRACT, f"the attempt raised {said}")]
        if lines:
            sections.append(Section(Label.TRACEBACK, lines))
        super().__init__(Outcome.CRASHED, *sections)
        self.kind, self.text, self.bases = kind, text, bases


class Forbidden(Fault):
    """The attempt used, or reached for, what the contract rules out."""

    def __init__(self, sentence: str, *sections: Section) -> None:
        super().__init__(Outcome.FORBIDDEN, Section(Label.CONTRACT, sentence), *sections)


class Died(Fault):
    """The worker is gone: it crashed, left by itself or was killed for taking too long."""

    def __init__(self, outcome: Outcome, sentence: str, lines: str = "") -> None:
        sections = [Section(Label.CONTRACT, sentence)]
        if lines:
            sections.append(Section(Label.TRACEBACK, lines))
        super().__init__(outcome, *sections)
