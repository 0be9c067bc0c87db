"""A mock of a kata with stages: which is open, when the next one opens, and what the interviewer says meanwhile."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from dojo.content import catalog, cells, files, master, stages
from dojo.content.cells import Cell
from dojo.grading.options import read

if TYPE_CHECKING:
    from dojo.content.catalog import Kata
    from dojo.content.stages import Stage
    from dojo.practice.interview.timed_session import TimedSession

LAST_MINUTES = 5
NOTHING_SAVED = "Half of the time for stage {stage} is over and nothing was saved yet. What are you thinking about?"
REGRESSED = "Something of stage {stage} worked before and does not any more. Have a look before you go on."
LAST = f"{LAST_MINUTES} minutes left. Leave the file so that it runs, and tell me what is missing."


def of(held: TimedSession) -> Kata | None:
    """The kata with stages that a session is about, if it is."""
    return catalog.katas()[held.katas[0]] if held.stage else None


def bare(text: str) -> str:
    """A stub as an interviewer hands it out: without the contract, for which one asks."""
    return _script(cell for cell in cells.split(text)[1] if "contract" not in cell.tags)


def _script(kept: Iterable[Cell]) -> str:
    return master.script([(cell, "\n".join(cell.lines).strip("\n")) for cell in kept])


def drawn(kata: Kata, seed: int) -> str:
    """The stub of a kata that opens with another one's program, with bugs in it that the seed draws from its table.

    As in a hunt each shows and none hides another. Raises Trouble.
    """
    from dojo.judge.fork_server import ForkServer
    from dojo.practice.hunt import planting, with_test

    opening, server = catalog.named(kata.opens_with, kata.root), ForkServer()
    try:
        names = planting.choose(planting.Wish(opening.name, planting.MOST, seed), server)
    finally:
        server.close()
    text = planting.planted(cells.read_text(opening.master), planting.bugs_named(opening, names))
    code = with_test.without_test(opening, planting.program(text))
    told = [cell for cell in cells.split(master.stub_text(kata))[1] if cell.markdown]
    return _script([*told, Cell("# %%", code.split("\n"), 0)])


def stage_of(held: TimedSession, kata: Kata) -> Stage:
    """The stage that is open."""
    return stages.of(kata)[held.stage - 1]


def until(held: TimedSession, kata: Kata) -> float:
    """The seconds into the session at which the open stage's share of the time is over."""
    whole = sum(stage.minutes for stage in stages.of(kata))
    return held.opened.get(str(held.stage), 0.0) + held.seconds * stage_of(held, kata).minutes / whole


def open_next(held: TimedSession, kata: Kata) -> Stage | None:
    """Open the next stage: in the file, which keeps what was written, then in the state. None after the last.

    A copy of the file as it was stays in the session's folder.
    """
    if held.stage >= held.stages:
        return None
    path, number = held.path(kata.name), held.stage + 1
    source = read(path)
    if stages.open_in(kata, source) < number:
        files.write_atomic(held.folder / f"before-stage-{number}.py", source)
        grown = stages.opened(kata, source, number)
        files.write_atomic(path, grown)
        held.handed_out[kata.name] = grown
    held.stage = number
    held.opened[str(number)] = held.spent
    held.save()
    return stage_of(held, kata)


def caught_up(held: TimedSession, kata: Kata) -> None:
    """Take over a stage that was opened in the file just before the session was killed."""
    try:
        there = stages.open_in(kata, read(held.path(kata.name)))
    except catalog.Trouble:
        return
    while held.stage < there and str(there) not in held.opened:
        held.stage += 1
        held.opened[str(held.stage)] = held.spent


def remarks(held: TimedSession, kata: Kata) -> dict[str, str]:
    """What the interviewer has to say now and has not said, by keys that a session remembers."""
    opened = held.opened.get(str(held.stage), 0.0)
    saved = any(event.at >= opened for event in held.events)
    found = {}
    if not saved and held.spent - opened > (until(held, kata) - opened) / 2:
        found[f"idle {held.stage}"] = NOTHING_SAVED.format(stage=held.stage)
    last = held.last(kata.name)
    if last and last.regressed:
        found[f"regressed {held.regressions}"] = REGRESSED.format(stage=min(last.regressed))
    if held.left < 60 * LAST_MINUTES < held.seconds:
        found["last"] = LAST
    return {key: text for key, text in found.items() if key not in held.remarked}


def hints_taken(held: TimedSession) -> list[tuple[str, str]]:
    """The hints that a session has given, each with what it is about, in Markdown."""
    kata = of(held)
    if not kata:
        known = catalog.katas()
        return [(name, text) for name, count in held.hints.items() for text in master.hints(known[name])[:count]]
    opened = stages.of(kata)[: held.stage]
    return [(f"stage {s.number}", text) for s in opened for text in s.hints[: held.hinted.get(str(s.number), 0)]]


def prompt(kata: Kata, stage: Stage) -> str:
    """What the interviewer says as a stage opens, in Markdown."""
    return stage.prompt if stage.number > 1 else f"{master.scenario(kata)}\n\n{stage.prompt}"
