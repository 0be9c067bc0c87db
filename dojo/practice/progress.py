"""How a kata stands for its user, which all that speaks of progress asks here; hints, the answer, a fresh start.

Help stays on the record: hints and a look at the solution count for what is passed after them, until work begins from
a fresh stub, by `reset` or in a mock, a day or more after the last of them.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from dojo.content import build, files, master, stages, sync
from dojo.content.catalog import Kata, typed
from dojo.grading.options import read
from dojo.practice import database
from dojo.practice.database import FRESH, HANDED_OUT, HINT, SOLUTION, Aid, Attempt, Help, Unreadable
from dojo.practice.schedule import plans, repetition
from dojo.practice.schedule.standing import HELPED, Standing, State, best
from dojo.verdict.types import PASSED, SOLVED, WRONG

if TYPE_CHECKING:
    from dojo.content.stages import Stage
    from dojo.verdict.types import Verdict

REST = 86400.0  # seconds between the last help and a fresh stub, for which that help no longer counts
JUDGED = ("passed", "failed", "broken")  # of an untouched file there is nothing to say


def standings(
    katas: Iterable[Kata], attempts: Iterable[Attempt] | None = None, now: datetime | None = None
) -> dict[str, Standing]:
    """How katas stand after these attempts, oldest first, or after everything remembered. Raises Unreadable."""
    now, of = now or datetime.now(UTC), dict[str, list[Attempt]]()
    for attempt in database.recall_brief() if attempts is None else attempts:
        of.setdefault(attempt.kata, []).append(attempt)
    return {kata.name: _standing(kata, of.get(kata.name, []), now) for kata in katas}


def unknown(unreadable: Unreadable) -> str:
    """What is said where katas are shown and the history cannot be read."""
    return f"it is not known what is solved: {unreadable}"


def regressions(kata: Kata, verdict: Verdict) -> list[str]:
    """Which stages of a kata fail that have passed before, a sentence each; nothing where no history can be read."""
    wrong = [stage for stage, word in verdict.by_stage.items() if word == WRONG]
    if not wrong:
        return []
    try:
        before = [attempt for attempt in database.recall_all(kata.name) if attempt.kind == "grade"]
    except Unreadable:
        return []
    told = []
    for stage in wrong:
        words = [(each, (each.details.get("stages") or {})) for each in before]
        passed = max((n for n, (_, seen) in enumerate(words) if seen.get(str(stage)) in SOLVED), default=None)
        if passed is None:
            continue
        failed = next((seen for _, seen in words[passed + 1 :] if seen.get(str(stage)) == WRONG), None)
        since = max(map(int, failed)) if failed else verdict.stage
        told.append(regression(stage, moment(before[passed].at), since))
    return told


def regression(stage: int, when: str, since: int) -> str:
    """The sentence about a stage that passed and fails since the edits of a later one."""
    return f"stage {stage} passed at {when}, fails since stage {since}'s edit"


def moment(at: float) -> str:
    """When something was, in local time: today's by the clock alone."""
    then = datetime.fromtimestamp(at)
    return f"{then:%H:%M}" if then.date() == datetime.now().date() else f"{then:%H:%M on %d %B}"


def tally(found: Collection[Standing]) -> str:
    """How many katas are solved, right that is, and how many of them passed, in words."""
    counts = {
        PASSED: sum(standing.passed for standing in found),
        HELPED: sum(standing.helped for standing in found),
        State.WRONG_SINCE: sum(standing.state is State.WRONG_SINCE for standing in found),
    }
    rest = "".join(f", {count} {what}" for what, count in counts.items() if count)
    return f"{sum(standing.solved for standing in found)} of {len(found)} solved{rest}"


def hunts(found: Mapping[str, Standing], kind: str = "hunt") -> str:
    """How many hunts, or reviews, of which kata are solved, in words; nothing where there was none."""
    held = {name: [a for a in standing.hunts if a.kind == kind] for name, standing in found.items()}
    counts = {name: (sum(a.passed for a in mine), len(mine)) for name, mine in held.items() if mine}
    return ", ".join(f"{name} {solved} of {count}" for name, (solved, count) in counts.items())


def _standing(kata: Kata, attempts: Sequence[Attempt], now: datetime) -> Standing:
    gradings = tuple(a for a in attempts if a.kind not in HANDED_OUT and a.verdict in JUDGED)
    hunts = tuple(a for a in attempts if a.kind in HANDED_OUT)
    memory, work = repetition.memory(kata, gradings, now), _work(kata)
    if any(attempt.solved for attempt in gradings):
        edited = work is not None and _edited(kata, work, gradings)
        due = memory is not None and memory.due <= now
        state = State.DUE if due else State.EDITED if edited else State.SOLVED
        state = state if gradings[-1].solved else State.WRONG_SINCE
    else:
        state = State.STARTED if gradings or work is not None else State.NOT_STARTED
    return Standing(state, gradings, hunts, memory)


def _edited(kata: Kata, work: list[str], gradings: Sequence[Attempt]) -> bool:
    """Whether the user's code answers otherwise than the best that was graded, or than the last."""
    of = {attempt.kind: attempt.text for attempt in best(gradings) or gradings[-1:]}
    # A mock has a file of its own, so that after it alone there is nothing that could have been edited.
    return "grade" in of and not _answers_as(kata, work, of.values())


def _answers_as(kata: Kata, work: list[str], texts: Collection[str]) -> bool:
    """Whether code answers a kata as one of these texts does, whatever stands around the answer."""
    if any(work == [text] for text in texts):
        return True
    given = master.answer(kata, work)
    return bool(given) and any(given == master.answer(kata, [text]) for text in texts)


def _work(kata: Kata) -> list[str] | None:
    """The code of the user's own attempt, of the script or of the notebook where that is newer; None without work."""
    try:
        script: str | None = kata.stub.read_bytes().decode("utf-8-sig", "replace")
    except OSError:  # missing, or told by the command that needs it
        script = None
    work = None if script is None or master.is_untouched(kata, script.replace("\r\n", "\n")) else [script]
    changed = sync.pending(kata) if kata.notebook.exists() else set()
    if "notebook" in changed and (work is None or "script" not in changed) and not build.as_built(kata)[1]:
        cells, stub = build.code_cells(kata), master.answer(kata, [master.stub_text(kata)])
        return None if master.answer(kata, cells) == stub else cells
    return work


def next_hint(kata: Kata, again: bool = False) -> str:
    """The next hint in Markdown, which then counts as taken; `again` starts over with the first."""
    hints = master.hints(kata)
    found = files.read_state(kata.home / "hints.json").get(kata.name)
    seen = found if isinstance(found, int) and not again else 0
    if seen >= len(hints):
        return (
            f"{kata.name} has no more hints than the {len(hints)} you have seen.\n\n"
            f"`{typed(f'hint {kata.name} --again')}` starts over; "
            f"`{typed(f'reveal {kata.name} --spoil')}` is the answer."
        )
    files.update_state(kata.home / "hints.json", kata.name, seen + 1)
    database.note(helps=[Help(time.time(), kata.name, HINT, seen + 1)])
    return f"{kata.title}: hint {seen + 1} of {len(hints)}\n\n{hints[seen]}"


def after_pass(kata: Kata, katas: Mapping[str, Kata]) -> list[str]:
    """What a pass of a kata comes to, and what to do next, a line each. Raises Unreadable."""
    summary, upcoming = pass_of(kata, katas)
    steps = {f"reveal {kata.name}": "the explained solution", f"quiz {kata.name}": "what interviewers ask next"}
    steps |= {f"show {upcoming.name}": "the kata that comes next"} if upcoming else {}
    width = max(map(len, map(typed, steps)))
    return [summary, *(f"  {typed(step):<{width}}  {what}" for step, what in steps.items())]


def pass_of(kata: Kata, katas: Mapping[str, Kata]) -> tuple[str, Kata | None]:
    """What a pass of a kata comes to, in a line, and the kata that comes next. Raises Unreadable."""
    found = standings(katas.values())
    track = [name for name, each in katas.items() if each.track == kata.track]
    done = sum(found[name].solved for name in track)
    minutes = repetition.minutes_to_solve(found[kata.name].gradings)
    took = [f"{minutes:.0f} min, par is {kata.minutes}" if minutes is not None else f"par is {kata.minutes} min"]
    last = found[kata.name].last
    hinted = (last.aid.words if last else "").removeprefix("with ") or "no hint"
    upcoming = next((due.kata for due in plans.propose(katas, found) if due.kata != kata), None)
    return " · ".join([*took, hinted, f"{kata.track}: {done} of {len(track)} solved"]), upcoming


def aid(kata: Kata, text: str | None = None, begun: float | None = None) -> Aid:
    """The help that counts for an attempt of this text, or for a mock that has begun at this time.

    An answer that has passed without help is not helped by a later look at the solution.
    """
    try:
        events = database.helps(kata.name)
        before = [a for a in database.recall_brief() if (a.kata, a.passed) == (kata.name, True)] if events else []
    except Unreadable:
        return Aid()  # who records the verdict says why
    alone = [a.text for a in before if a.kind not in HANDED_OUT and a.text and not any(a.aid)]
    if text is not None and alone and _answers_as(kata, [text], alone):
        return Aid()
    events += [Help(begun, kata.name, FRESH)] if begun is not None else []
    hints, shown, last = set[int](), False, 0.0
    for each in sorted(events, key=lambda event: event.at):
        if each.kind != FRESH:
            last = each.at
            shown |= each.kind == SOLUTION
            hints |= {each.number} if each.kind == HINT else set()
        elif each.at - last >= REST:
            hints, shown = set(), False
    return Aid(len(hints), shown)


def note_solution(kata: Kata) -> None:
    """Put on the record that the user is shown the solution now."""
    database.note(helps=[Help(time.time(), kata.name, SOLUTION)])


def stays_hidden(kata: Kata, spoil: bool) -> str:
    """Why the solution is not shown yet; nothing when it may be."""
    if spoil:
        return ""
    try:
        if standings([kata])[kata.name].passed:
            return ""
        why = f"{kata.name} is not passed yet, so its solution stays hidden."
    except Unreadable as unreadable:
        why = f"whether {kata.name} has passed is not known, so its solution stays hidden: {unreadable}."
    return (
        f"{why}\n`{typed(f'hint {kata.name}')}` helps a little; "
        f"`{typed(f'reveal {kata.name} --spoil')}` shows all of it."
    )


def revealed(kata: Kata, spoil: bool = False) -> str:
    """The solution and what there is to say about it, in Markdown; or why it stays hidden."""
    if hidden := stays_hidden(kata, spoil):
        return hidden
    note_solution(kata)
    return f"```python\n{master.solution_code(master.read_text(kata.master))}```\n\n{master.explanation(kata)}"


def open_stage(kata: Kata) -> Stage | None:
    """Open the next stage in the user's file, of which a copy is kept; None if all are open. Raises Trouble."""
    source = read(kata.stub)
    number = stages.open_in(kata, source) + 1
    if number > len(stages.of(kata)):
        return None
    files.keep(kata.home / "kept", kata.stub, kata.stub.read_bytes())
    files.write_atomic(kata.stub, stages.opened(kata, source, number))
    sync.sync(kata, "script", opened=True)
    return stages.of(kata)[number - 1]


def reset(kata: Kata) -> str:
    """Write a fresh stub and notebook; what the user had is kept. Returns the sentence that says where."""
    built = build.as_built(kata)
    sides = [(kata.stub, built[0]), (kata.notebook, built[1])]
    kept = [
        files.keep(kata.home / "kept", path, path.read_bytes()) for path, fresh in sides if path.exists() and not fresh
    ]
    build.write_fresh(kata)
    sync.record(kata)
    files.update_state(kata.home / "hints.json", kata.name, None)
    database.note(helps=[Help(time.time(), kata.name, FRESH)])
    if not kept:
        return f"{kata.say(kata.stub)} is a fresh stub; there was no work to keep."
    return f"{kata.say(kata.stub)} is a fresh stub; what you had is in {' and '.join(map(kata.say, kept))}."
