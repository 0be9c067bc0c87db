"""The line that stays where it is during a session: the time left, how each kata stands, hints and keys."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dojo.practice.interview.timed_session import TimedSession


def clock(seconds: float | None) -> str:
    """Minutes and seconds."""
    return "not reached" if seconds is None else f"{int(seconds // 60)}:{int(seconds % 60):02d}"


def spoken(seconds: float) -> str:
    """A span in words."""
    return f"{seconds / 60:.0f} minutes" if seconds >= 120 else f"{seconds:.0f} seconds"


def keys(session: TimedSession, brief: bool = False) -> str:
    """What may be typed."""
    meanings = {"h": "hint" if brief else "a hint"} if not session.real else {}
    meanings |= {"n": "next" if brief else "the next stage"} if session.stage else {}
    meanings |= {"q": "end" if brief else "end it"}
    words = [f"{key} {what}" if brief else f"{key} + Enter: {what}" for key, what in meanings.items()]
    return " · ".join([*words, "Ctrl-C pause" if brief else "Ctrl-C: go on later"])


def status(session: TimedSession, grading: bool, width: int) -> str:
    """The line; where `width` is narrow, what matters least is left out. A silent session tells no verdict."""
    left, hints = f"{clock(session.left)} left", sum(session.hints.values())
    left += f" · stage {session.stage} of {session.stages}" if session.stage else ""
    stands, named = {}, []
    for name in session.katas:
        event = None if session.silent else session.last(name)
        word = event.word if event else session.ran.get(name, "not started")
        scores = event.scores if event else {}
        stands[name] = f"{name} {' '.join(scores.values()) or word}"
        named.append(f"{name} {', '.join(map(' '.join, scores.items())) or word}")
    passed = [] if session.silent else [name for name in session.katas if session.passed(name)]
    if len(session.katas) > 1:
        rest = [standing for name, standing in stands.items() if name not in passed]
        short = [*([] if session.silent else [f"{len(passed)} of {len(stands)} passed"]), *rest[:1]]
    else:
        short = [*stands.values()]
    taken = [] if session.real else [f"{hints} hint{'s' * (hints != 1)}"]
    now = ["grading …"] if grading and not session.silent else []
    forms = [
        [left, *named, *taken, *(now or [keys(session)])],
        [left, *stands.values(), *taken, *(now or [keys(session, brief=True)])],
        [left, *stands.values(), *taken, *now],
        [left, *short, *taken, *now],
        [left, short[0], *now],
        [left, *now],
    ]
    lines = [" · ".join(form) for form in forms]
    return next((line for line in lines if len(line) <= width), left[:width])
