"""On what a test rests that rejects a right program: found out by taking one thing after the other out of its way."""

from __future__ import annotations

import re
from collections.abc import Sequence

from dojo.contracts.checks.candidate_test.trials import ACCEPTS, NONE, Trials

# What is taken away, and what a test rested on that then accepts the program; see `judge.worker.trial`.
RELAXED = {
    ("clock",): "it rests on time: with clocks that stand still it accepts this program",
    ("tolerance",): "it rests on exact equality, or on a tolerance that is too fine: right programs differ in their "
    "last places, as they may compute in float32 inside; with rtol 1e-3 it accepts this one",
    ("values",): "it rests on initial values, or on the order of random draws: with those of the solution it accepts "
    "this program. Set the parameters that you compare",
    ("tolerance", "values"): "it rests on initial values, and on exact equality: with those of the solution, and "
    "rtol 1e-3, it accepts this program",
}
NAMED = re.compile(
    r"has no attribute '(\w+)'|KeyError: '([\w.]+)'|(?:Missing|Unexpected) key\(s\) in state_dict: \"([\w.]+)\""
)
DTYPES = re.compile(r"dtype|\b(?:b?float|int|complex)\d\d?\b|\b(?:Double|Half|BFloat16|Float)\b")


def rests_on(trials: Trials, source: str, program: Sequence[str]) -> str:
    """What a test rests on that accepts the solution and not this right program, in a sentence.

    `program` is what has been changed of it already.
    """
    answer, seed = next(
        (answer, seed) for seed in trials.seeds if (answer := trials.answer(source, seed, program)).word != ACCEPTS
    )
    if answer.timed_out:
        return "it rests on speed: right programs may take longer than the solution"
    if named := NAMED.search(answer.text):
        name = next(filter(None, named.groups()))
        return f"it rests on the private name `{name}`, which this program does not have"
    for relaxed, sentence in RELAXED.items():
        if trials.answer(source, seed, (*program, *relaxed)).word == ACCEPTS:
            return sentence
    if DTYPES.search(answer.text):
        return "it rests on a dtype inside the program, which is the program's own business"
    own = "raises in its own lines" if answer.word == NONE else "fails there"
    return f"on what it rests could not be found out: neither on initial values nor on the last places; it {own}"
