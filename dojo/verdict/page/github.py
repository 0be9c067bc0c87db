"""Verdicts for a GitHub workflow: annotations on the failing lines, and the summary of its job in Markdown."""

from __future__ import annotations

import html
import re
import secrets
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from dojo.verdict.page.findings import Finding
from dojo.verdict.types import Outcome, Tier, Verdict

MOST = 10  # annotations of a kind that a step may show
LONGEST = 4000  # characters of a message; a summary has a mebibyte
SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~&])")  # what means something in Markdown
SIGNS = {"passed": "✅", "right": "☑️", "wrong": "❌", "broken": "❌"}


def annotated(found: Iterable[Finding]) -> list[str]:
    """The workflow commands that put the first causes at their lines."""
    lines = []
    for finding in list(found)[:MOST]:
        kind = "warning" if finding.outcome is Outcome.SLOW else "error"
        at = "" if finding.line is None else f",line={finding.line}"
        where = f"file={_property(finding.path)}{at},title={_property(finding.title)}"
        lines.append(f"::{kind} {where}::{_data(finding.message[:LONGEST])}")
    return lines


@contextmanager
def without_commands(wanted: bool) -> Iterator[None]:
    """Nothing that is printed meanwhile is a workflow command: what an attempt prints must not be one."""
    token = secrets.token_hex(16)
    if wanted:
        print(f"::stop-commands::{token}", flush=True)
    try:
        yield
    finally:
        if wanted:
            print(f"::{token}::", flush=True)


def summary(verdicts: Sequence[Verdict], found: Sequence[Finding]) -> str:
    """The verdicts as a table, and below it why what failed did."""
    lines = ["## dojo", "", f"| kata | verdict | {' | '.join(Tier)} |", f"|---|---|{'---|' * len(Tier)}"]
    for verdict in verdicts:
        tiers = " | ".join(_score(verdict, tier) for tier in Tier)
        lines.append(f"| {verdict.kata} | {SIGNS.get(verdict.state, '')} {verdict.state} | {tiers} |")
    for finding in found:
        at = "" if finding.line is None else f", line {finding.line}"
        lines += ["", f"<details><summary>{html.escape(finding.title)}</summary>", ""]
        lines += [f"{plain(finding.path)}{at}", "", *fenced(finding.message[:LONGEST]), "", "</details>"]
    return "\n".join(lines) + "\n"


def plain(text: str) -> str:
    """Anybody's words in a line of Markdown, where they mean nothing but themselves."""
    return SPECIAL.sub(r"\\\1", " ".join(text.split()))


def fenced(text: str) -> list[str]:
    """Lines between fences that no line of theirs ends."""
    fence = "`" * max(3, *(len(run) + 1 for run in re.findall("`+", text)), 3)
    return [f"{fence}text", text, fence]


def _score(verdict: Verdict, tier: Tier) -> str:
    checks = [check for check in verdict.selected if check.tier is tier]
    return f"{sum(check.outcome.harmless for check in checks)} of {len(checks)}" if checks else ""


def _data(text: str) -> str:
    """A message as a workflow command takes it."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
