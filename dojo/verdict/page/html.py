"""Verdicts as HTML: what a notebook and a page have in common, and the page about one grading."""

from __future__ import annotations

import html
import json
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from string import Template
from typing import Any

from dojo.content import files
from dojo.verdict.causes import shared_by
from dojo.verdict.page.heatmap import KINDS, NOT_FINITE, WITHIN, beyond, images
from dojo.verdict.screen.text import readable
from dojo.verdict.types import Outcome, Verdict, state_in

PAGE = Path(__file__).with_name("report.html")
HARMLESS = {outcome.value for outcome in Outcome if outcome.harmless}
esc = html.escape
LEGEND = f"""<p class="legend">Pictures, one square an element: <b>expected and got</b> on one scale,
<i style="background: linear-gradient(to right, hsl(215 75% 40%), hsl(215 75% 95%))"></i> below 0,
<i style="background: linear-gradient(to right, hsl(25 85% 95%), hsl(25 85% 45%))"></i> above 0; <b>error</b>,
<i style="background: rgb{WITHIN}"></i> within the allowed,
<i style="background: linear-gradient(to right, hsl(45 90% 62%), hsl(0 90% 38%))"></i> ever further beyond it;
<i style="background: rgb{NOT_FINITE}"></i> NaN or infinite.</p>"""


def write(path: Path, body: str, title: str = "dojo: practice") -> None:
    """Write a page with this body."""
    files.write_atomic(path, page(body, title))


def page(body: str, title: str) -> str:
    """The body of a page in its template, with a legend before the verdicts if it has pictures."""
    now = datetime.now().strftime("%Y-%m-%d %H:%M")
    if 'class="maps"' in body:
        body = body.replace("<details", f"{LEGEND}<details", 1)
    return Template(PAGE.read_text("utf-8")).substitute(title=esc(title), body=body, made=now)


def title_of_run(verdicts: Sequence[Verdict]) -> str:
    """The title of a page about one grading."""
    if len(verdicts) == 1:
        return f"dojo: {verdicts[0].kata} {verdicts[0].state}"
    return f"dojo: {sum(verdict.verdict == 'passed' for verdict in verdicts)} of {len(verdicts)} katas passed"


def of_run(verdicts: list[Verdict]) -> str:
    """The body of a page about one grading."""
    return "".join(verdict_section(verdict.to_json(pictures=True), opened=True) for verdict in verdicts)


def verdict_section(details: dict[str, Any], opened: bool = False) -> str:
    """One verdict, as `Verdict.to_json` writes it: how many checks passed, and the failed ones in full."""
    if not details:
        return ""
    checks = details.get("checks", [])
    bad = [check for check in checks if check["outcome"] not in HARMLESS]
    state = state_in(details)
    helped = f" {details['help']}" if details.get("help") and state == "passed" else ""
    title = f"{details['kata']}: {state}{helped}, {len(checks) - len(bad)} of {len(checks)} checks passed"
    said = details.get("message") or "Every check passed."
    body = failures(bad) or (f"<pre>{esc(said)}</pre>" if "\n" in said else f"<p>{esc(said)}</p>")
    is_open = " open" if opened and bad else ""
    return (
        f'<details{is_open}><summary><span class="{css_class(state)}">{esc(title)}</span> '
        f"<small>{esc(details['attempt'])} · torch {esc(details['torch'])} · seed {details['seed']}</small></summary>"
        f"{body}</details>"
    )


def failures(checks: list[dict[str, Any]]) -> str:
    """Failed checks, as `Check.to_json` writes them, by their causes: the first opened, those that share one named."""
    tellers = {check["name"]: check for check in checks if check.get("cause") in (None, check["name"])}
    shared = {name: [c for c in checks if c.get("cause") == name and c is not tellers[name]] for name in tellers}
    return "".join(failure(tellers[name], shared[name], number == 0) for number, name in enumerate(tellers))


def failure(check: dict[str, Any], shared: list[dict[str, Any]], opened: bool) -> str:
    """A failed check: the known bug that it equals, its pictures, its message, and the checks that share its cause."""
    topic = f" · {check['topic']}" if check.get("topic") else ""
    name = f"{check['tier']}{topic} · {readable(check['name'], check['outcome'] == 'wrong')}: {check['outcome']}"
    bug = check.get("diagnosis")
    diagnosis = f'<p class="diagnosis">equals <b>{esc(bug)}</b></p>' if bug else ""
    pictured = pictures(check["picture"]) if check.get("picture") else ""
    return (
        f'<details{" open" if opened else ""}><summary><span class="bad">✗</span> {esc(name)}</summary>'
        f"{diagnosis}{pictured}<pre>{esc(check['message'])}</pre>{_shared(shared)}</details>"
    )


def _shared(checks: list[dict[str, Any]]) -> str:
    if not checks:
        return ""
    names = "".join(f"<li>{check['tier']} · {esc(readable(check['name']))}</li>" for check in checks)
    return f"<details><summary>{shared_by(len(checks))}</summary><ul>{names}</ul></details>"


def pictures(picture: dict[str, Any]) -> str:
    """Expected, got and error side by side; the worst element in words, for who cannot see them."""
    rows, columns = (name or "" for name in picture["axes"])
    at = ", ".join(f"{name} {index}" for name, index in picture["at"].items())
    told = f"{rows or 'one row'} ↓ {columns} →" + (f", {at}" if at else "")
    height, width = len(picture["error"]), len(picture["error"][0])
    size = max(8, min(22, 280 // width))
    said = {kind: kind for kind in KINDS} | {"error": f"error: {beyond(picture)} elements beyond the allowed error"}
    shown = "".join(
        f'<div class="map">{kind if kind != "error" else "error (green: within the allowed)"}<br>'
        f'<img src="{source}" alt="{said[kind]}" data-kind="{kind}" width="{width * size}" height="{height * size}" '
        'style="image-rendering: pixelated"></div>'
        for kind, source in images(picture).items()
    )
    r, c = (at - first for at, first in zip(picture["worst"], picture["first"], strict=True))
    worst = f"worst element: expected {picture['expected'][r][c]}, got {picture['got'][r][c]}"
    data = esc(json.dumps(picture), quote=True)
    return (
        f'<figure class="maps" data-picture="{data}"><figcaption>{esc(told)}; {esc(worst)}</figcaption>'
        f"<div>{shown}</div></figure>"
    )


def css_class(state: str) -> str:
    """The class that colours a verdict or its state."""
    return {"passed": "ok", "wrong": "bad", "broken": "bad"}.get(state, "none")
