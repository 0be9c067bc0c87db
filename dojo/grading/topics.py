"""Topics of a contract: each is held by checks, and names what fails.

A contract class states in `holds` which checks hold a topic: `{"Masked rows": ("test_a_query_that_may",)}`, each check
by the beginning of its name. What every contract class of the project brings is a house rule and needs no topic.
A statement in one part has no topics, and nothing is asked of its checks here.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from dojo.content import catalog, master
from dojo.content.catalog import Kata
from dojo.contracts import CandidateTest
from dojo.grading.runner import class_name, topic_of


def checks(kata: Kata) -> dict[str, Callable[..., None]]:
    """The checks of a grader, by callable and name, as verdicts call them."""
    return {f"{class_name(cls)}::{name}": getattr(cls, name) for cls in _classes(kata) for name in _names(cls)}


def holding(kata: Kata) -> dict[str, list[str]]:
    """By topic the checks that hold it, as verdicts call them."""
    found: dict[str, list[str]] = {topic: [] for cls in _classes(kata) for topic in _holds(cls)}
    for cls in _classes(kata):
        for name in _names(cls):
            if topic := topic_of(cls, name):
                found[topic].append(f"{class_name(cls)}::{name}")
    return found


def faults(kata: Kata) -> list[str]:
    """Topics that no check holds, own checks without a topic, and what `holds` names in vain; a sentence each."""
    topics = master.contract(kata)
    if not topics:
        return []
    where, held = kata.say(kata.grader), holding(kata)
    found = [f"{kata.say(kata.master)}: no check holds the topic {topic!r}" for topic in topics if not held.get(topic)]
    found += [f"{where}: the contract has no topic {topic!r}" for topic in held if topic not in topics]
    for cls in _classes(kata):
        names, written = _names(cls), [base for base in cls.__mro__ if base.__module__ == cls.__module__]
        own = [name for name in names if any(name in vars(base) for base in written)]
        found += [f"{where}: no topic holds {cls.__name__}::{name}" for name in own if not topic_of(cls, name)]
        stated = [start for starts in _holds(cls).values() for start in starts]
        lost = [start for start in stated if not any(name.startswith(start) for name in names)]
        found += [f"{where}: {cls.__name__}.holds names {start!r}, and no check begins so" for start in lost]
    return found


def unproven(kata: Kata, failed: Mapping[str, Collection[str]]) -> list[str]:
    """The topics of which no wrong attempt fails a check, a sentence each. `failed` holds what each attempt fails.

    Wrong attempts are programs: a topic that asks something of a test alone is left to the bad tests in `tests/`.
    """
    seen = {check.partition("[")[0] for each in failed.values() for check in each}
    of_a_test = {class_name(cls) for cls in _classes(kata) if issubclass(cls, CandidateTest)}
    seen |= {check for check in checks(kata) if check.partition("::")[0] in of_a_test}
    return [
        f"{kata.say(kata.grader)}: no wrong attempt fails a check of the topic {topic!r}"
        for topic, held in holding(kata).items()
        if not seen & {*held}
    ]


def _classes(kata: Kata) -> list[type]:
    module = catalog.load(kata.grader)
    made = [each for each in vars(module).values() if isinstance(each, type) and each.__name__.startswith("Test")]
    return [cls for cls in made if cls.__module__ == module.__name__]


def _holds(cls: type) -> dict[str, tuple[str, ...]]:
    return getattr(cls, "holds", {})


def _names(cls: type) -> list[str]:
    return [name for name in dir(cls) if name.startswith("test_") and getattr(cls, name)]
