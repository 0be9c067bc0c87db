"""Shows verdicts: coloured on a terminal, plain text in a pipe. Rich is imported only where it will be used."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, TextIO

from dojo.content.catalog import typed
from dojo.verdict.causes import causes
from dojo.verdict.screen.failure import MOST, Block, because, brief, whole
from dojo.verdict.screen.progress_bar import Progress
from dojo.verdict.screen.text import Row, Span, clean, clipped, encodable, readable, visible, wrap
from dojo.verdict.types import RIGHT, SO_FAR, Check, Outcome, Tier, Verdict

if TYPE_CHECKING:
    from rich.console import Console

FULL_CAUSES, BRIEF_CAUSES = 2, 6  # causes told in full, the second if it fits, and at most so many in a line each
LONG = " · 999.9 s"  # whatever it took, as much is told beside it
LINE = 120  # characters of a pipe's last line, which is not broken
ROWS = 22  # of a terminal of 24 above an empty line and the prompt: no verdict takes more, unless all is asked for
ASIDE = (Outcome.UNDECIDED, Outcome.SKIPPED)
UNCOUNTED = "neither passed nor failed: see --verbose"
MARKS = {Outcome.PASSED: ("✓", "green"), Outcome.SKIPPED: ("-", "dim"), Outcome.UNDECIDED: ("?", "yellow")}
WRONG_MARK = ("✗", "bold red")
VERDICT_STYLES = {
    "passed": "bold green",
    "right": "bold yellow",
    SO_FAR: "bold yellow",
    "wrong": "bold red",
    "broken": "bold red",
    "not started": "yellow",
}


class Screen:
    """Writes verdicts to `stream`: with rich where it is a terminal that takes colours, else as plain text."""

    def __init__(self, stream: TextIO, force_plain: bool = False) -> None:
        self.stream, self._force_plain = stream, force_plain
        self._plain = force_plain or not _takes_colour(self.stream)
        self._width = _width(self.stream)
        self._made: Console | None = None
        self._rows: list[Row] = []

    def progress(self, names: Sequence[str], at_once: int = 1) -> Progress:
        """A context in which these katas are graded, begun in this order: tell it which is `done`."""
        if self._force_plain or os.environ.get("NO_COLOR"):
            return Progress(names, None)
        if not self._plain:
            return Progress(names, self._console, at_once)
        return Progress(names, (lambda: _console(sys.stderr)) if _takes_colour(sys.stderr) else None, at_once)

    def verdict(self, v: Verdict, verbose: bool = False) -> None:
        """One kata: heading, a line a tier, the causes of what failed, the line that sums it up, and what is next.

        With `verbose` every check has its line, and every failure is told in full.
        """
        if v.verdict == "empty":
            what = " ".join(clean(v.message)) or f"write your attempt in {v.attempt}, then: {typed(f'grade {v.kata}')}"
            self._rows = self._last(v, f": {what}")
            self._flush()
            return
        last = self._last(v, closing(v, self._width), _next(v))
        where, which = f" · {v.attempt} · {v.device}", f" · torch {v.torch}"
        fits = not self._width or len(f"{v.kata}{where}{which} · seed {v.seed}") <= self._width
        self._line("", (v.kata, "bold"), (f"{where}{which if fits else ''} · seed {v.seed}", "dim"))
        self._message(v, MOST if verbose else ROWS - len(last))
        if verbose:
            self._every_check(v)
        else:
            for tier in Tier:
                self._tier(tier, [check for check in v.selected if check.tier is tier])
            self._stages(v)
            self._causes(v, FULL_CAUSES, ROWS - len(last))
        self._rows += last
        self._flush()

    def failures(self, v: Verdict) -> None:
        """One kata in short: the first cause of what failed, and the line that sums it up."""
        if v.verdict == "empty":
            self.verdict(v)
            return
        last = self._last(v, closing(v, self._width))
        self._message(v, ROWS - len(last))
        self._causes(v, 1, ROWS - len(last))
        self._rows += last
        self._flush()

    def markdown(self, text: str, paged: bool = False, code: str = "") -> None:
        """A text in Markdown: a page on a terminal, with `paged` in a pager if it is long; in a pipe as it is.

        Code stands above it, to be copied.
        """
        from dojo.verdict.screen import markdown

        encoding = getattr(self.stream, "encoding", None) or "utf-8"
        if self.stream.isatty() and not self._force_plain and encoding.lower().startswith("utf"):
            markdown.show(text, self._console(), self._width or 80, paged, code)
            return
        above = f"{code}\n" if code else ""
        self.stream.write(encodable(f"{above}{markdown.plain(text, encoding)}\n", self.stream))
        self.stream.flush()

    def summary(self, verdicts: Sequence[Verdict]) -> None:
        """Several katas in short: those that failed as a table, the others by name; of a single one, nothing."""
        if len(verdicts) < 2:
            return
        bad = [v for v in verdicts if v.verdict not in ("passed", "empty")]
        rows = [("kata", "verdict", *(tier.value for tier in Tier), "seconds")] if bad else []
        rows += [(v.kata, v.state, *(_score(v, tier) for tier in Tier), f"{v.seconds:7.1f}") for v in bad]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        for i, row in enumerate(rows):
            padded = [f"{cell:<{width}}  " for cell, width in zip(row, widths, strict=True)]
            styles = ["bold", VERDICT_STYLES.get(row[1], "bold"), *["" if i else "bold"] * (len(row) - 2)]
            self._line("", *zip(padded, styles, strict=True))
        good = [v for v in verdicts if v not in bad]
        for state in ("not started", "right", "passed"):  # right, where no more was asked
            if names := [v.kata + f" ({v.help})" * bool(v.help) for v in good if v.state == state]:
                style = VERDICT_STYLES[state]
                self._line("", (f"{state}: ", style), (f"{len(names)} of {len(verdicts)}, {', '.join(names)}", ""))
        self._flush()

    def _last(self, v: Verdict, rest: str, step: str = "") -> list[Row]:
        """The last rows of a kata, which are known before there is room for others."""
        before, self._rows = self._rows, []
        odd = [f"no answer needs {', '.join(v.mentions)}: read it, if it is a stranger's"] if v.mentions else []
        for remark in (*v.remarks, *odd):
            self._rows += Block("  · ", [remark], "", self._width).rows()
        self._line("", (f"{v.kata}: ", "bold"), (v.state, VERDICT_STYLES.get(v.state, "")), (rest, ""))
        if step:
            self._line("", ("next: ", "dim"), (step, "cyan"))
        last, self._rows = self._rows, before
        return last

    def _message(self, v: Verdict, rows: int) -> None:
        self._rows += Block("  │ ", clean(v.message), "", self._width, foreign=True).rows(rows - len(self._rows))

    def _tier(self, tier: Tier, checks: list[Check]) -> None:
        """How many checks of a tier passed, and why the others were not counted."""
        if not checks:
            return
        ran = [check for check in checks if check.outcome is not Outcome.SKIPPED]
        good = all(check.outcome.harmless for check in checks)
        mark, style = MARKS[Outcome.PASSED] if good else WRONG_MARK
        aside = [f"{readable(c.name)}: {c.outcome}{because(c)}" for c in checks if c.outcome in ASIDE]
        several = f" · {len(aside)} {UNCOUNTED}" if len(aside) > 1 else f" · {aside[0]}" if aside else ""
        score = f"{_passed(ran)} of {len(ran)}" if ran else "none ran"
        self._line("  ", (f"{mark} ", style), (f"{tier.value:<6} ", "bold"), (score, ""), (several, "dim"))

    def _stages(self, v: Verdict) -> None:
        """How each stage stands, in one line."""
        words = v.by_stage
        if not words:
            return
        spans: list[Span] = [("stage  ", "bold")]
        for stage in range(1, v.stages + 1):
            word = words.get(stage, "not open")
            spans += [("" if stage == 1 else " · ", "dim"), (f"{stage} {word}", VERDICT_STYLES.get(word, "dim"))]
        self._line("  ", (f"{'✓' if v.reached == v.stages else '·'} ", "dim"), *spans)

    def _causes(self, v: Verdict, full: int, rows: int) -> None:
        """Each cause of what failed: the first in full, the next too if it fits, others in a line each.

        All end within so many rows. Where the first does not fit, what helps least of it is cut; a check that was
        chosen by itself is told whole.
        """
        found, seen, shown_causes = causes(v.selected), set[str](), 0
        for cause in found[:full]:
            before, others = len(self._rows), min(len(found) - shown_causes - 1, BRIEF_CAUSES + 1)
            self._heading(cause.check, "  ", _before(cause.check))
            room = rows - len(self._rows)
            of = (cause.check, seen, "  ", self._width, cause.also)
            least = None if shown_causes else room - bool(others)
            told = whole(*of) if len(v.selected) == 1 else brief(*of, room - others, least)
            if told is None:
                del self._rows[before:]
                break
            self._rows += told
            seen |= {section.text for section in cause.check.sections}
            shown_causes += 1
        for cause in found[shown_causes : shown_causes + BRIEF_CAUSES]:
            before = len(self._rows)
            self._heading(cause.check, "  ", _before(cause.check), short=True)
            if len(self._rows) + (cause is not found[-1]) > rows:  # how many more there are takes a line
                del self._rows[before:]
                break
            shown_causes += 1
        if rest := len(found) - shown_causes:
            self._line("  ", (f"… and {rest} more cause{'s' * (rest > 1)}: see --verbose", "dim"))

    def _every_check(self, v: Verdict) -> None:
        seen: set[str] = set()
        for tier in Tier:
            for number, check in enumerate(c for c in v.selected if c.tier is tier):
                if number == 0:
                    self._line("  ", (tier.value, "bold"))
                self._heading(check, "    ", f"{check.place + 1:>2} ")
                if not check.outcome.harmless:
                    self._rows += whole(check, seen, "      ", self._width)
                    seen |= {section.text for section in check.sections}

    def _heading(self, check: Check, lead: str, before: str, short: bool = False) -> None:
        mark, style = MARKS.get(check.outcome, WRONG_MARK)
        name = readable(check.name, check.outcome is Outcome.WRONG)
        spans = [(f"{mark} ", style), (before, "dim"), (name, "" if check.outcome.harmless else "bold")]
        if check.outcome is not Outcome.PASSED:
            why = f", {check.diagnosis}" if short and check.diagnosis else because(check)
            spans += [(f": {check.outcome.value}", style)] if check.outcome is not Outcome.WRONG else []
            if short and self._width:  # the reason of a further cause is worth no second line
                why = clipped(why, self._width - len(lead) - sum(len(text) for text, _ in spans))
            spans += [(why, "")] if short or check.outcome.harmless else []
        if check.seconds >= 1 and not short:
            spans.append((f" ({check.seconds:.1f} s)", "dim"))
        self._line(lead, *spans)
        if check.outcome is Outcome.GRADER_ERROR and not short:
            self._line(lead, ("This is a fault of the grader, not of your attempt.", "bold"))

    def _line(self, lead: str, *spans: Span) -> None:
        self._rows += wrap(lead, [(visible(text), style) for text, style in spans], self._width)

    def _flush(self) -> None:
        """Write what has gathered, and an empty line; at once, so that a progress bar is drawn anew only once."""
        rows, self._rows = self._rows, []
        if self._plain:
            lines = ["".join(text for text, _ in row).rstrip() for row in rows]
            self.stream.write(encodable("\n".join([*lines, "", ""]), self.stream))
            self.stream.flush()
            return
        from rich.text import Text

        # Text, not markup: brackets in what an attempt printed mean nothing.
        self._console().print(Text("\n").join([*(Text.assemble(*row) for row in rows), Text()]), soft_wrap=True)

    def _console(self) -> Console:
        self._made = self._made or _console(self.stream)
        return self._made


def closing(v: Verdict, width: int | None = None) -> str:
    """What follows "rope: wrong" in the last line: how each tier stands if not all passed, and what it took.

    Of what is right it says what is lacking, as far as the line goes.
    """
    if v.verdict == "broken":
        return ", nothing was graded"
    if v.verdict == "failed" and v.standing == RIGHT:
        tiers, took = f" · {_tiers(v, lacking=True)}", f" · {v.seconds:.1f} s"
        room = (width or LINE) - len(f"{v.kata}: {RIGHT}{tiers}: {LONG}")
        names = clipped(", ".join(v.lacking), room)
        return f"{tiers}{names and ': '}{names}{took}"
    reached = f" · stage {v.reached} of {v.stages} reached" if v.stages else ""
    if v.verdict != "passed" and (scores := _tiers(v)):
        return f"{reached} · {scores} · {v.seconds:.1f} s"
    counts = Counter(check.outcome for check in v.checks)
    aside = ", ".join(f"{counts[each]} {each}" for each in (*ASIDE, Outcome.DESELECTED) if counts[each])
    helped = f" {v.help}" if v.help and v.verdict == "passed" else ""
    number = len(v.selected)
    return f"{helped}, {number} check{'s' * (number != 1)} in {v.seconds:.1f} s{aside and f' ({aside})'}"


def _passed(checks: Sequence[Check]) -> int:
    return sum(check.outcome.harmless for check in checks)


def _before(check: Check) -> str:
    """Tier and topic, as they stand before a check's name."""
    return "".join(f"{each} · " for each in (check.tier, check.topic) if each)


def _next(v: Verdict) -> str:
    if v.verdict == "passed" or v.repeat != typed(f"grade {v.kata}"):
        return ""
    if v.verdict == "broken":
        return f"mend it and grade again: {v.repeat}"
    if v.stages and v.reached == v.stage < v.stages:
        return f"{typed(f'stage {v.kata}')} opens stage {v.stage + 1} in your file"
    return f"mend it and grade again, or take a hint: {typed(f'hint {v.kata}')}"


def _score(v: Verdict, tier: Tier) -> str:
    mine = [check for check in v.selected if check.tier is tier]
    return f"{_passed(mine)} of {len(mine)}" if mine else "-"


def _tiers(v: Verdict, lacking: bool = False) -> str:
    """How many checks of each tier passed: `core 6 of 14 · robust 16 of 42`; with `lacking` of tiers that lack some."""
    parts = []
    for tier in Tier:
        mine = [check for check in v.selected if check.tier is tier]
        ran = [check for check in mine if check.outcome is not Outcome.SKIPPED]
        if not mine or (lacking and v.tiers[tier] == "passed"):
            continue
        aside = {check.outcome for check in mine} <= set(ASIDE)
        parts.append(f"{tier} {(ran or mine)[0].outcome if aside else f'{_passed(ran)} of {len(ran)}'}")
    return " · ".join(parts)


def _takes_colour(stream: TextIO) -> bool:
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def _console(stream: TextIO) -> Console:
    from rich.console import Console

    return Console(file=stream, markup=False, emoji=False, highlight=False)


def _width(stream: TextIO) -> int | None:
    """The columns of a terminal; None for a pipe, whose lines are not broken."""
    try:
        return (os.get_terminal_size(stream.fileno()).columns or 80) if stream.isatty() else None
    except (OSError, ValueError):
        return 80
