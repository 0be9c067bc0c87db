"""Grades a step of a lesson: one function, called in the worker with the rows of the master."""

from __future__ import annotations

import ast
import shlex
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dojo.content import build, lessons, master
from dojo.content.catalog import Kata, Trouble, typed
from dojo.grading.options import Entry, Options, read

if TYPE_CHECKING:
    from dojo.content.lessons import Row, Step
    from dojo.judge.fork_server import ForkServer, FreshStarts
    from dojo.judge.protocol import PickledCells
    from dojo.judge.proxy import Attempt
    from dojo.verdict.types import Check, Verdict

RELATIVE, ABSOLUTE = 2e-3, 1e-5  # how far a float may be from a row's, which is written with few digits
MOST_ELEMENTS = 1000  # of an answer: the rows have a handful
DTYPES = {"Float": "float32", "Int": "int64", "Bool": "bool"}


def entry(kata: Kata, number: int, source: str, pickled_cells: PickledCells | None = None, label: str = "") -> Entry:
    """A source to grade as a step of a kata's lesson; it needs its imports. Raises Trouble where there is no such step.

    `lessons.step(kata, number).begun` is a file to begin with.
    """
    lessons.step(kata, number)
    label = label or f"step {number} of {kata.name}"
    return Entry(kata, source, label, typed(f"grade {kata.name} --step {number}"), pickled_cells, step=number)


def of_file(kata: Kata, number: int, path: Path | None) -> Entry:
    """The step in a file, or in the kata's notebook as it is saved. Raises Trouble."""
    path = path or kata.notebook
    if path.suffix.lower() != ".ipynb":
        again = typed(f"grade {kata.name} --step {number} --attempt {shlex.quote(str(path))}")
        return replace(entry(kata, number, read(path), label=str(path)), repeat=again)
    name = lessons.step(kata, number).name
    try:
        found = build.loads(path.read_bytes()) if path.is_file() else None
    except build.NoNotebook as error:
        raise Trouble(f"{path} is no notebook: it {error}. Save it from Jupyter, or name a Python file") from None
    if found is None:
        raise Trouble(f"there is no notebook {path}: name your file, as in `{typed(f'grade {kata.name} --step 1')} "
                      "--attempt FILE`")  # fmt: skip
    imports, defined = master.definitions([name], [each.source for each in found.cells if each.cell_type == "code"])
    if name not in defined:
        raise Trouble(f"{kata.say(path)} defines no `{name}`, which step {number} of {kata.name} asks for")
    parts = dict.fromkeys(ast.get_source_segment(source, node) or "" for source, node in defined.values())
    ours = [line for line in imports if "dojo" not in line]
    return replace(entry(kata, number, "\n".join([*ours, "", "", *parts, ""])), label=kata.say(path))


def grade(entry: Entry, options: Options, server: ForkServer | FreshStarts) -> Verdict:
    """The verdict on a step: a check for each call of its rows."""
    import torch

    from dojo.grading.run import attempt_maker, conclude, undefined
    from dojo.verdict.failures import Fault
    from dojo.verdict.types import Failure, Kind, Outcome, Verdict

    step, begun = lessons.step(entry.kata, entry.step), time.perf_counter()
    name = f"{entry.kata.name} step {step.number}"
    verdict = Verdict(name, entry.label, "", [], options.device, str(torch.__version__), 0.0, options.seed)
    verdict.repeat = entry.repeat
    attempt = attempt_maker(options, server)(entry.source, entry.label, entry.pickled_cells, entry.others)
    if lessons.is_untouched(step, entry.source):
        verdict.verdict, verdict.message = "empty", f"write `{step.name}` in {entry.label}, then: {entry.repeat}"
        return verdict
    try:
        attempt.worker()
        if missing := undefined(attempt, [step.name]):
            raise Fault(Outcome.WRONG, Failure(Kind.PROMISE, what=missing))
        checks = [_check(step, row, attempt, place) for place, row in enumerate(r for r in step.rows if r.right)]
        printed = attempt.take_printed().strip()
        verdict.message = f"the attempt printed:\n{printed}" if printed else ""
        conclude(verdict, checks, options)
    except Fault as fault:
        verdict.verdict, verdict.message, verdict.failure = "broken", str(fault), fault.failure
    finally:
        attempt.close()
    verdict.seconds = time.perf_counter() - begun
    return verdict


def _check(step: Step, row: Row, attempt: Attempt, place: int) -> Check:
    """One call, and how it ended."""
    from dojo.verdict.failures import Fault, described
    from dojo.verdict.mismatch import plain
    from dojo.verdict.types import Check, Failure, Kind, Label, Outcome, Section, Tier

    name, begun = f"Test{step.name}::test_call_{place + 1}_gives_what_is_right", time.perf_counter()
    check = Check(name, Tier.CORE, Outcome.PASSED, place=place)
    try:
        got = _answer(step, row, attempt)
        mistakes = (each for each in step.rows if each.call == row.call and not each.right and same(got, each.value))
        if not same(got, row.value):
            check.diagnosis = next((each.why for each in mistakes), None)
            mine, theirs = plain.shown(got), plain.shown(row.value)
            fact = f"got {mine if mine != theirs else described(got)}, expected {theirs}"
            raise Fault(Outcome.WRONG, Failure(Kind.COMPARED, facts=(fact,), compared="values"))
    except Fault as fault:
        fault.failure.inputs.append(row.call)
        fault.ends(check)
    if check.diagnosis:
        check.sections.append(Section(Label.DIAGNOSIS, check.diagnosis))
    if not check.outcome.harmless and (printed := attempt.take_printed().strip()):
        check.sections.append(Section(Label.PRINTED, f"printed:\n{printed}"))
    check.seconds = time.perf_counter() - begun
    return check


def _answer(step: Step, row: Row, attempt: Attempt) -> Any:
    """What a call of the attempt gives, tensors as lists. Raises Fault."""
    import torch

    from dojo.judge.protocol import mapped
    from dojo.verdict.failures import NoTensor, Unusable

    def as_asked(name: str, value: Any) -> Any:
        kind = step.kinds.get(name)
        return torch.tensor(value, dtype=getattr(torch, DTYPES[kind])) if kind else value

    given, named = row.arguments
    args = [as_asked(name, value) for name, value in zip(step.parameters, given, strict=False)]
    kwargs = {name: as_asked(name, value) for name, value in named.items()}
    with torch.no_grad():
        answer = getattr(attempt, step.name)(*args, **kwargs)
    if answer is None:
        raise NoTensor(None)

    def bare(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        if value.numel() > MOST_ELEMENTS:
            raise ValueError(f"it has {value.numel()} elements")
        return value.tolist()

    try:
        return mapped(bare, answer)
    except Exception as error:  # a tensor of a kind that holds no values, or far too many
        raise Unusable(answer, error) from None


def same(got: Any, expected: Any) -> bool:
    """Whether an answer is a row's value, within the digits that a row is written with."""
    from dojo.judge.protocol import mapped
    from dojo.verdict.mismatch import plain

    def floating(value: Any) -> Any:
        return float(value) if type(value) is int else value  # [3, 0.3] may come as floats alone

    near = plain.within(RELATIVE, ABSOLUTE)
    return plain.first_difference(mapped(floating, got), mapped(floating, expected), near) is None


def faults(kata: Kata, step: Step, server: ForkServer | FreshStarts) -> list[str]:
    """Rows of a step that its own answer does not give, and mistakes that are not named, as FILE:LINE: what."""
    verdict = grade(entry(kata, step.number, step.solved), Options(0), server)
    if not verdict.checks:
        return [f"{step.place}: the answer of step {step.number} is told as {verdict.verdict}: {verdict.message}"]
    right = [row for row in step.rows if row.right]
    found = [
        f"{row.place}: the answer of the step does not give this: {check.message}"
        for row, check in zip(right, verdict.checks, strict=True)
        if not check.outcome.harmless
    ]
    for row in step.rows:
        if not row.right:
            made = f"from math import inf, nan\n\n\ndef {step.name}(*args, **kwargs):\n    return {row.value!r}\n"
            checks = grade(entry(kata, step.number, made), Options(0), server).checks
            if row.why not in [check.diagnosis for check in checks]:
                found.append(f"{row.place}: whoever gives this is not told so: it passes for what is right")
    return found
